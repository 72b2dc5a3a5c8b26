"""Random matrix products on the GPU: results exact, nothing else written, always the same bits.

Without a GPU the kernels are compiled, and run by the interpreter on small shapes. By hand, with
the compiler on one machine and the GPU in another:

    python -m tests.gpu.test_random_products prepare DIR --arch sm_90
    python -m tests.gpu.test_random_products run DIR --count 20
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np  # noqa: E402

from tests.kernels.product_text import ProductKernel  # noqa: E402
from tests.kernels.random_products import KERNELS, ProductCase, make_case  # noqa: E402
from tileiras.driver import compile_module, read_source, with_environment  # noqa: E402
from tileiras.interpreter import run_entry  # noqa: E402
from tileiras.options import CompileOptions  # noqa: E402

from .launch import gpu_name, launch_cubin, launch_repeatedly  # noqa: E402
from .restrictions import missing_features  # noqa: E402

COUNT = int(os.environ.get("RANDOM_PRODUCTS", "20"))
"""Products for each kernel."""
WORKERS = 16
REPETITIONS, LARGE_REPETITIONS = 1000, 300
REPEATED = (
    "f16_128x256x64_row_row_persistent_f32_aligned",
    "f16_128x128x64_row_row_plain_f32_aligned",
)
RESULT = 2
"""The position of the result among the arguments."""


def compiled(kernel: ProductKernel, arch: str) -> bytes:
    """The cubin; runs in a worker process."""
    options = with_environment(CompileOptions(gpu_name=arch))
    return compile_module(kernel.text().encode(), options).output


def fault_of(case: ProductCase, cubin: bytes) -> str:
    """Launches a product; what is wrong with its result, empty if nothing is."""
    arguments = case.arguments()
    launch_cubin(cubin, "product", arguments, case.grid)
    return case.difference(arguments[RESULT])


@pytest.fixture(scope="module")
def cubins() -> Iterator[dict[str, Any]]:
    """The future of every kernel's cubin, by name; the pool works ahead of the launches."""
    arch, context = gpu_name(), multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(WORKERS, os.cpu_count() or 1), mp_context=context) as pool:
        yield {kernel.name: pool.submit(compiled, kernel, arch) for kernel in KERNELS}
        pool.shutdown(cancel_futures=True)


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(COUNT))
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_product_is_exact(kernel: ProductKernel, seed: int, cubins: dict[str, Any]) -> None:
    case = make_case(kernel, seed)
    assert fault_of(case, cubins[kernel.name].result(timeout=120)) == "", case.name


@pytest.mark.gpu
@pytest.mark.parametrize("name", REPEATED)
def test_repeated_launches_give_the_same_bits(name: str, cubins: dict[str, Any]) -> None:
    kernel = next(kernel for kernel in KERNELS if kernel.name == name)
    arguments, grid = noisy_product(kernel)
    results = launch_repeatedly(
        cubins[name].result(timeout=120), "product", arguments, grid, RESULT, REPETITIONS
    )
    first = next(results)
    assert np.isfinite(first[:1000].view(np.float32)).all()
    for number, result in enumerate(results, 1):
        assert np.array_equal(first, result), f"launch {number} differs from the first"


@pytest.mark.gpu
def test_stages_are_read_before_they_are_filled_again() -> None:
    """By mma.sync: where an arrival passes `ldmatrix`, one launch in 30 differs (decision 74)."""
    kernel = next(kernel for kernel in KERNELS if kernel.name == REPEATED[1])
    arch = gpu_name()
    missing = missing_features(arch, "sm_120") if arch == "sm_90" else ()
    options = with_environment(CompileOptions(gpu_name=arch, disabled_features=missing))
    cubin = compile_module(kernel.text().encode(), options).output
    arguments, grid = noisy_product(kernel, 4096)
    results = launch_repeatedly(cubin, "product", arguments, grid, RESULT, LARGE_REPETITIONS)
    first = next(results)
    for number, result in enumerate(results, 1):
        assert np.array_equal(first, result), f"launch {number} differs from the first"


def noisy_product(
    kernel: ProductKernel, size: int = 1024
) -> tuple[list[Any], tuple[int, int, int]]:
    """A product of numbers whose sums are rounded, so that another order would show; K is 1024."""
    depth, rng = 1024, np.random.default_rng(0)
    operands = [
        rng.standard_normal(shape).astype(np.float16) for shape in ((size, depth), (depth, size))
    ]
    memory = [operand.reshape(-1).view(np.uint16) for operand in operands]
    result, locks = np.zeros(size * size, np.uint32), np.zeros(64, np.int32)
    places = [0, size * depth, depth, 1], [0, size * depth, size, 1], [0, size * size, size, 1]
    numbers = [
        np.int32(number) for number in (size, size, depth, *places[0], *places[1], *places[2])
    ]
    row_tiles, column_tiles = size // kernel.tile[0], size // kernel.tile[1]
    grid = (7, 1, 1) if kernel.form == "persistent" else (row_tiles, column_tiles, 1)
    return [*memory, result, locks, *numbers], grid


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_small_products_are_exact_in_the_interpreter(kernel: ProductKernel) -> None:
    module = read_source(kernel.text().encode())
    for seed in range(2):
        case = make_case(kernel, seed, tiles=1)
        arguments = case.arguments()
        run_entry(module, "product", arguments, case.grid)
        assert case.difference(arguments[RESULT]) == ""


@pytest.mark.parametrize("kernel", KERNELS[::3], ids=lambda kernel: kernel.name)
def test_kernel_compiles(kernel: ProductKernel) -> None:
    assert compiled(kernel, "sm_90")[:4] == b"\x7fELF"


def test_names_and_cases_are_distinct() -> None:
    assert len({kernel.name for kernel in KERNELS}) == len(KERNELS)
    cases = [make_case(kernel, seed) for kernel in KERNELS for seed in range(20)]
    assert len({case.name for case in cases}) == len(cases) == 20 * len(KERNELS)
    ragged = [case for case in cases if case.extents[2] % case.kernel.tile[2]]
    assert len(ragged) > 250


@pytest.mark.parametrize("form", ["plain", "split"])
def test_a_wrong_element_and_a_stray_write_are_seen(form: str) -> None:
    kernel = next(kernel for kernel in KERNELS if kernel.form == form)
    case = make_case(kernel, 3)
    good = case.wanted()
    assert case.difference(good.copy()) == ""
    wrong = good.copy()
    wrong[case.c.places.flat[-1]] ^= 1
    assert "1 of" in case.difference(wrong) and "0 of them no elements" in case.difference(wrong)
    stray = good.copy()
    stray[-1] ^= 1
    assert "1 of them no elements" in case.difference(stray)


def test_aligned_cases_keep_what_their_kernels_assume() -> None:
    for kernel in KERNELS:
        for seed in range(6):
            case = make_case(kernel, seed)
            for operand in (case.a, case.b):
                far = [s for s in operand.strides if s != 1]
                numbers = (operand.first, *far)
                assert not kernel.is_aligned or all(n % kernel.unit == 0 for n in numbers)
                assert np.unique(operand.places).size == operand.places.size


def main() -> int:
    """Compiles the kernels into a folder, or runs what lies there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=["prepare", "run"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--count", type=int, default=20, help="products for each kernel")
    options = parser.parse_args()
    if options.step == "prepare":
        options.folder.mkdir(parents=True, exist_ok=True)
        for kernel in KERNELS:
            path = options.folder / f"{kernel.name}.cubin"
            path.write_bytes(compiled(kernel, options.arch))
        return 0
    wrong = 0
    for kernel in KERNELS:
        cubin = (options.folder / f"{kernel.name}.cubin").read_bytes()
        faults = {seed: fault_of(make_case(kernel, seed), cubin) for seed in range(options.count)}
        bad = {seed: fault for seed, fault in faults.items() if fault}
        wrong += len(bad)
        print(f"{kernel.name:55} {options.count - len(bad)} of {options.count} exact", flush=True)
        for seed, fault in bad.items():
            print(f"  {make_case(kernel, seed).name}: {fault}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

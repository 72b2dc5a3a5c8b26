"""Products too large for the registers on the GPU: exact sums of small integers, ragged edges."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")

from tests.kernels.biased_gemm import (  # noqa: E402
    biased_arguments,
    biased_gemm,
)
from tests.kernels.gemm import gemm  # noqa: E402
from tests.kernels.shared_operand_runs import PLACEMENTS, arguments  # noqa: E402
from tests.kernels.shared_operands import FORMS, shared_operands  # noqa: E402
from tileiras.driver import read_source  # noqa: E402
from tileiras.interpreter import run_entry  # noqa: E402

from .launch import compile_for_this_gpu, launch_cubin  # noqa: E402

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    "tile",
    [
        (256, 256, 64),
        (128, 512, 64),
        (512, 128, 64),
        (512, 512, 32),
        (256, 256, 32),
        (128, 256, 256),
        (256, 128, 128),
        (64, 64, 512),
        (256, 256, 256),
    ],
)
def test_product_in_parts(tile: tuple[int, int, int]) -> None:
    rows, columns, depth = 784, 528, 272
    random = np.random.default_rng(3)
    left = random.integers(-2, 3, (rows, depth)).astype(np.float16)
    right = random.integers(-2, 3, (depth, columns)).astype(np.float16)
    result = np.full((rows, columns), 7, np.float16)
    sizes = [np.int32(size) for size in (rows, columns, depth)]
    grid = (-(-rows // tile[0]), -(-columns // tile[1]), 1)
    launch_cubin(compile_for_this_gpu(gemm(*tile)), "gemm", [left, right, result, *sizes], grid)
    wanted = left.astype(np.float32) @ right.astype(np.float32)
    np.testing.assert_array_equal(result.astype(np.float32), wanted)


CASES = [(form, "f16", 64, "") for form in FORMS]
CASES += [("left", *placement) for placement in PLACEMENTS]


@pytest.mark.parametrize(("form", "element", "step", "transposed"), CASES)
def test_products_that_share_a_tile(form: str, element: str, step: int, transposed: str) -> None:
    source = shared_operands(form, element, step, transposed).encode()
    wanted, found = arguments(element, transposed), arguments(element, transposed)
    run_entry(read_source(source), "shared", wanted, (2, 2, 1))
    launch_cubin(compile_for_this_gpu(source), "shared", found, (2, 2, 1))
    for one, other in zip(wanted[-2:], found[-2:], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("rows", "columns"), [(128, 256), (256, 128), (64, 256)])
def test_epilogue_in_slices(rows: int, columns: int) -> None:
    source = biased_gemm(rows, columns, 64)
    wanted, found = (biased_arguments(rows, columns, 192) for _ in range(2))
    run_entry(read_source(source), "gemm", wanted, (1, 1, 1))
    launch_cubin(compile_for_this_gpu(source), "gemm", found, (1, 1, 1))
    np.testing.assert_array_equal(wanted[2], found[2])

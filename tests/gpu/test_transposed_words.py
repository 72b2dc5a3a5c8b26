"""tf32 products with K contiguous in neither operand on the GPU: long ones, many times."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

from tests.kernels.product_text import ProductKernel, products_in_turn  # noqa: E402
from tests.kernels.random_products import aligned_result, dense_case  # noqa: E402

from .launch import compile_for_this_gpu, launch_cubin, launch_repeatedly  # noqa: E402

pytestmark = pytest.mark.gpu

WIDE = ProductKernel("f32", (128, 256, 32), a="column")
KERNELS = (
    WIDE,
    ProductKernel("f32", (128, 128, 32), a="transposed"),
    ProductKernel("f32", (256, 128, 32), a="permuted"),
    ProductKernel("f32", (64, 64, 32), a="column"),
    ProductKernel("f32", (64, 256, 16), a="column"),
    ProductKernel("f32", (256, 64, 64), a="column"),
    ProductKernel("f32", (64, 64, 128), a="column"),
    ProductKernel("f32", (32, 128, 32), a="column"),
    ProductKernel("f32", (128, 128, 32), a="column", form="batched"),
    ProductKernel("f32", (128, 128, 32), a="column", form="persistent"),
    ProductKernel("f32", (64, 128, 32), a="transposed", form="persistent", result="f16"),
    ProductKernel("f32", (128, 256, 32), a="column", cluster=2),
    ProductKernel("f32", (256, 256, 32), a="column", cluster=2),
    ProductKernel("f32", (128, 128, 32), a="column", chunk=4),
)
"""Both ways of turning, one and two warpgroups, all fragments of a tile at once or step by step."""
RESULT = 2
LAUNCHES = 200


@cache
def cubin_of(kernel: ProductKernel, is_aligned: bool = False) -> bytes:
    """A kernel, compiled once; with `is_aligned` its result may leave by TMA."""
    text = aligned_result(kernel) if is_aligned else kernel.text()
    return compile_for_this_gpu(text.encode())


@pytest.mark.parametrize("depth", [32, 1056, 4000])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_long_products_are_exact(kernel: ProductKernel, depth: int) -> None:
    rows, columns, _ = kernel.tile
    blocks = (4,) if kernel.form == "persistent" else (3, 2)
    case = dense_case(kernel, (3 * rows, 2 * columns, depth), *blocks)
    arguments = case.arguments()
    launch_cubin(cubin_of(kernel), "product", arguments, case.grid)
    assert case.difference(arguments[RESULT]) == ""


def test_tiles_of_two_sizes_take_turns_in_the_same_copies() -> None:
    kernels = [ProductKernel("f32", (128, n, 32), a="column") for n in (64, 128)]
    cubin = compile_for_this_gpu(products_in_turn(*kernels))
    case = dense_case(kernels[0], (512, 512, 1056), 4, 8)
    arguments = case.arguments()
    launch_cubin(cubin, "product", arguments, case.grid)
    assert case.difference(arguments[RESULT]) == ""


@pytest.mark.parametrize("result", ["f32", "f16"])
def test_results_of_swapped_products_leave_by_tma(result: str) -> None:
    kernel = replace(WIDE, tile=(128, 64, 32), form="persistent", result=result)
    case = dense_case(kernel, (512, 256, 320), 3)
    arguments = case.arguments()
    launch_cubin(cubin_of(kernel, True), "product", arguments, case.grid)
    assert case.difference(arguments[RESULT]) == ""


@pytest.mark.parametrize("kernel", KERNELS[:5], ids=lambda kernel: kernel.name)
def test_many_launches_give_the_same_bits(kernel: ProductKernel) -> None:
    """A warp that transposed a tile too early, or too late, would show sooner or later."""
    rows, columns, _ = kernel.tile
    case = dense_case(kernel, (8 * rows, 8 * columns, 2048), 8, 8)
    arguments = case.arguments()
    results = launch_repeatedly(cubin_of(kernel), "product", arguments, case.grid, RESULT, LAUNCHES)
    first = next(results)
    assert case.difference(first) == ""
    for number, result in enumerate(results, 1):
        assert np.array_equal(first, result), f"launch {number} differs from the first"

"""Kernels of one large tile a block whose tile blocks divide the work, on the GPU.

Whole numbers keep sums exact: every launch must give the same bits.
"""

from __future__ import annotations

from functools import cache

import pytest

np = pytest.importorskip("numpy")

from tests.kernels.product_text import ProductKernel  # noqa: E402
from tests.kernels.random_products import aligned_result, dense_case  # noqa: E402

from .launch import compile_for_this_gpu, launch_cubin, launch_repeatedly  # noqa: E402

pytestmark = pytest.mark.gpu

KERNELS = [
    ProductKernel("f16", (128, 256, 64), result="f16"),
    ProductKernel("bf16", (128, 256, 64), b="transposed"),
    ProductKernel("f8E4M3FN", (128, 256, 128), b="transposed", result="f16"),
    ProductKernel("f16", (128, 256, 64), a="transposed", result="f16"),
]
RESULT = 2
LAUNCHES = 50


@cache
def cubin_of(kernel: ProductKernel) -> bytes:
    """A kernel, compiled once."""
    return compile_for_this_gpu(aligned_result(kernel).encode())


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("tiles", [(1, 1), (1, 2), (2, 1), (11, 12), (7, 19), (12, 11), (23, 13)])
def test_grids_of_all_sizes(kernel: ProductKernel, tiles: tuple[int, int]) -> None:
    """Fewer tiles than SMs, as many, one more, and several rounds; ragged at the ends."""
    case = dense_case(kernel, (128 * tiles[0] - 24, 256 * tiles[1] - 40, 336), *tiles)
    arguments = case.arguments()
    launch_cubin(cubin_of(kernel), "product", arguments, case.grid)
    assert case.difference(arguments[RESULT]) == ""


def test_many_launches_give_the_same_bits() -> None:
    case = dense_case(KERNELS[0], (128 * 17, 256 * 9, 320), 17, 9)
    arguments = case.arguments()
    cubin = cubin_of(KERNELS[0])
    results = launch_repeatedly(cubin, "product", arguments, case.grid, RESULT, LAUNCHES)
    first = next(results)
    assert case.difference(first) == ""
    assert all(np.array_equal(first, result) for result in results)

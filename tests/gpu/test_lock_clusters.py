"""Locks that one CTA of a cluster takes for all, on the GPU: many tiles, parts that do not divide.

Sums of small whole numbers are exact in any order, so that every run must give the same.
"""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")

from tests.kernels.lock_kernels import TURNS, SmemTransposeCase  # noqa: E402
from tests.kernels.product_text import ProductKernel  # noqa: E402
from tests.kernels.random_products import make_case  # noqa: E402

from .launch import compile_for_this_gpu, launch_cubin  # noqa: E402

pytestmark = pytest.mark.gpu

KERNELS = [
    ProductKernel("f16", (64, 64, 64), form="split"),
    ProductKernel("f16", (64, 128, 64), form="split"),
    ProductKernel("bf16", (128, 64, 64), form="split"),
    ProductKernel("f32", (64, 64, 32), form="split"),
    ProductKernel("f16", (64, 64, 64), form="split", is_aligned=False),
]


@pytest.mark.parametrize(("parts", "tiles"), [(1, 8), (2, 8), (7, 8), (8, 8), (8, 1), (64, 1)])
def test_parts_take_turns(parts: int, tiles: int) -> None:
    cubin = compile_for_this_gpu(TURNS.encode())
    for _ in range(20):
        case = SmemTransposeCase(parts, tiles)
        arguments = [*case.arguments[:-1], np.int32(parts)]
        launch_cubin(cubin, "add", arguments, case.grid)
        case.check()


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_products_are_added_up(kernel: ProductKernel) -> None:
    cubin = compile_for_this_gpu(kernel.text().encode())
    for seed in range(12):
        case = make_case(kernel, seed)
        arguments = case.arguments()
        launch_cubin(cubin, "product", arguments, case.grid)
        assert not case.difference(arguments[2])

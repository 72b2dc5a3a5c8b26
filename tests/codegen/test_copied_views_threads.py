"""Views that threads copy, thread by thread: what lies in the stages is what TMA would have
left.
"""

from __future__ import annotations

import pytest

from tests.kernels.lowered import lower_to_llvm, run_lowered
from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import make_case
from tileiras.driver import read_source

KERNELS = (
    ProductKernel("f16", (64, 64, 64), chunk=4),
    ProductKernel("f16", (128, 64, 64), chunk=8),
    ProductKernel("f16", (64, 128, 64), a="column", b="transposed", chunk=4),
    ProductKernel("bf16", (64, 64, 128), b="permuted", chunk=8),
    ProductKernel("f32", (64, 64, 32), b="transposed", chunk=4),
    ProductKernel("f32", (64, 64, 64), chunk=8),
    ProductKernel("i8", (64, 128, 128), b="transposed", chunk=4),
    ProductKernel("f8E4M3FN", (64, 64, 128), b="transposed", form="batched", chunk=8),
    ProductKernel("f16", (64, 256, 64), a="column", is_aligned=False),
    ProductKernel("bf16", (128, 128, 64), b="transposed", form="batched", is_aligned=False),
    ProductKernel("f32", (64, 64, 32), is_aligned=False),
    ProductKernel("i8", (128, 128, 128), b="transposed", is_aligned=False),
)
CASES = 2


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_stages_hold_what_tma_would_bring(kernel: ProductKernel) -> None:
    module = lower_to_llvm(read_source(kernel.text().encode()))
    for seed in range(CASES):
        case = make_case(kernel, seed, tiles=2)
        arguments = case.arguments()
        run_lowered(module, arguments, case.grid)
        assert not case.difference(arguments[2]), case.name

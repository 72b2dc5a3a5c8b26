"""Waits for products, put off as far as they may be, and found where they were by a second run."""

from __future__ import annotations

import pytest

from tests.passes.nv_tileas.attention import attention
from tests.passes.nv_tileas.gemm import gemm
from tests.passes.nv_tileas.softmax_attention import softmax_attention
from tests.passes.nv_tileas.test_optimize_alloc_tensor import passes, run

NAME = "tileas-optimize-dot-accumulation"
KERNELS = {
    "attention": attention(1),
    "two loops": attention(2),
    "softmax": softmax_attention("masked", 128, 64, 64),
    "gemm": gemm(128, 128, 64),
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_second_run_changes_nothing(kernel: str):
    once = run(KERNELS[kernel], *passes("check-target", NAME))
    assert run(once.encode(), NAME) == once


def test_the_conversion_finishes_every_product_of_attention_at_once():
    """So that its result can be run as it is: the wait is the next operation."""
    lines = run(KERNELS["softmax"], *passes("check-target", "convert-tileaa-to-tileas")).split("\n")
    products = [n for n, line in enumerate(lines) if "nv_tileas.wgmma_dot " in line]
    assert products
    assert all("nv_tileas.dot_wait" in lines[n + 1] for n in products)
    late = run(KERNELS["softmax"], *passes("check-target", NAME)).split("\n")
    apart = [n for n, line in enumerate(late) if "nv_tileas.wgmma_dot " in line]
    assert not all("nv_tileas.dot_wait" in late[n + 1] for n in apart)

"""Waits for products, put off as far as they may be, and found where they were by a second run."""

from __future__ import annotations

import pytest

from tests.kernels.attention import attention
from tests.kernels.gemm import gemm
from tests.kernels.pass_runs import passes_between, run_passes
from tests.kernels.softmax_attention import softmax_attention
from tileiras.errors import BytecodeError

NAME = "tileas-optimize-dot-accumulation"
KERNELS = {
    "attention": attention(1),
    "two loops": attention(2),
    "softmax": softmax_attention("masked", 128, 64, 64),
    "gemm": gemm(128, 128, 64),
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_second_run_changes_nothing(kernel: str):
    once = run_passes(KERNELS[kernel], *passes_between("check-target", NAME))
    assert run_passes(once.encode(), NAME) == once


def test_the_conversion_finishes_every_product_of_attention_at_once():
    """So that its result can be run as it is: the wait is the next operation."""
    lines = run_passes(
        KERNELS["softmax"], *passes_between("check-target", "convert-tileaa-to-tileas")
    ).split("\n")
    products = [n for n, line in enumerate(lines) if "nv_tileas.wgmma_dot " in line]
    assert products
    assert all("nv_tileas.dot_wait" in lines[n + 1] for n in products)
    late = run_passes(KERNELS["softmax"], *passes_between("check-target", NAME)).split("\n")
    apart = [n for n, line in enumerate(late) if "nv_tileas.wgmma_dot " in line]
    assert not all("nv_tileas.dot_wait" in late[n + 1] for n in apart)


def test_only_zeros_are_left_out():
    """A product that accumulates, told to start from zero, is refused in its line."""
    lines = run_passes(KERNELS["gemm"], *passes_between("check-target", NAME)).splitlines()
    found = [number for number, line in enumerate(lines, 1) if "{pending" in line]
    number = next(number for number in found if "wgmma_dot " in lines[number - 1])
    lines[number - 1] = lines[number - 1].replace("{pending", "{from_zero, pending")
    with pytest.raises(BytecodeError, match="from_zero needs an accumulator of zeros") as caught:
        run_passes("\n".join(lines).encode(), NAME)
    assert caught.value.location is not None and caught.value.location.line == number

"""Kept tensor maps and late warpgroups of attention on the PTX machine; no slot is lost."""

from __future__ import annotations

import re

import pytest

from tests.kernels.machine_attention import difference_of
from tests.kernels.softmax_attention import softmax_attention
from tileiras.driver import compile_module
from tileiras.options import CompileOptions

KERNELS = (
    ("full", 128, 128, 128),
    ("full", 128, 64, 64),
    ("causal", 128, 128, 128),
    # Two CTAs on an SM: no prologue fill, so that the first warp could claim a slot, too.
    ("full", 64, 128, 64),
)


def compiled(kind: str, rows: int, columns: int, depth: int) -> str:
    """PTX of attention."""
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_90")
    return compile_module(softmax_attention(kind, rows, columns, depth), options).output.decode()


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_values(kernel: tuple[str, int, int, int]) -> None:
    kind, rows, columns, depth = kernel
    length = 4 * rows if kind == "causal" else 3 * columns
    assert difference_of(kind, compiled(*kernel), length, (rows, depth), 4) < 2e-3


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_only_who_gives_a_slot_back_claims_one(kernel: tuple[str, int, int, int]) -> None:
    """The producer does, where no maps are kept. A second one for the CTA would stay claimed: the
    fifth CTA of an SM would wait for ever.
    """
    text = compiled(*kernel)
    assert len(re.findall(r"atom\.acquire\.gpu\.global\.or", text)) == 1
    assert "ld.relaxed.gpu.global.v2.b64" in text


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_warpgroups_meet_once_in_front_of_the_loop(kernel: tuple[str, int, int, int]) -> None:
    text = compiled(*kernel)
    waits = re.findall(r"bar\.sync\s+9, 256", text)
    arrivals = re.findall(r"bar\.arrive\s+9, 256", text)
    is_late = kernel[1] == 128
    assert len(waits) == len(arrivals) == int(is_late)

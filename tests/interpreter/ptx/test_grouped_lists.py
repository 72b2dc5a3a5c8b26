"""Grouped products over lists of arrays, specialised, on the PTX machine: values and races."""

from __future__ import annotations

import pytest

from tests.kernels.grouped_lists import Sizes, grouped_lists, make_groups
from tileiras.driver import compile_module, read_source
from tileiras.interpreter import run_entry
from tileiras.interpreter.ptx import run_ptx
from tileiras.options import CompileOptions

SIZES: tuple[Sizes, ...] = ((128, 128, 128), (72, 200, 104), (8, 8, 0), (64, 72, 320))
"""Whole tiles, ragged ones, no iteration of K, and a group of fewer tiles than CTAs."""


def ptx_of(source: str) -> str:
    """PTX for sm_90."""
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_90")
    return compile_module(source.encode(), options).output.decode()


@pytest.mark.parametrize("tile", [(64, 64, 64), (128, 128, 64)], ids=str)
@pytest.mark.parametrize("computed_index", [False, True], ids=["known", "computed"])
def test_warp_roles_compute_all_groups(tile: Sizes, computed_index: bool) -> None:
    text = ptx_of(grouped_lists(tile, computed_index=computed_index))
    assert "wgmma.mma_async" in text and "mma.sync" not in text
    groups = make_groups(SIZES)
    assert groups.wrong()
    run_ptx(text, groups.arguments(), (3, 1, 1))
    assert groups.wrong() == []


def test_the_tile_interpreter_computes_the_same() -> None:
    groups = make_groups(SIZES)
    run_entry(read_source(grouped_lists((64, 64, 64)).encode()), "grouped", groups.arguments(), (3, 1, 1))
    assert groups.wrong() == []

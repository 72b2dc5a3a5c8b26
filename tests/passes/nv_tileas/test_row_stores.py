"""Tiles whose rows are scattered, stored row by row from shared memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.kernels.gather import experts, routed_case
from tests.kernels.other_targets import set_multiprocessors
from tests.kernels.stage_comparison import passes
from tests.kernels.unchanged import changing
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.driver import compile_module, read_source
from tileiras.interpreter import run_entry
from tileiras.options import CompileOptions

ROUTED = (Path(__file__).parents[2] / "kernels" / "routed_experts.mlir").read_bytes()


def text_of(source: bytes) -> str:
    """The text at nv_tileas for sm_90."""
    options = CompileOptions(opt_level=3, emit="nv_tileas", gpu_name="sm_90")
    return compile_module(source, options).output.decode()


@pytest.mark.parametrize("multiprocessors", [1, 132])
@pytest.mark.parametrize(("tiles", "wide"), [(3, 208), (2, 128)])
def test_every_stage_computes_the_same(
    monkeypatch: pytest.MonkeyPatch, tiles: int, wide: int, multiprocessors: int
):
    """Pairs where the grid is large for the GPU, and tiles alone; rows that are padding."""
    set_multiprocessors(monkeypatch, multiprocessors)
    module, case = read_source(ROUTED), routed_case(tiles, 80, wide)
    for name, _ in changing(module, passes(module, (), "sm_90")):
        found = routed_case(tiles, 80, wide)
        run_entry(module, "routed", found.arguments, found.grid)
        assert np.array_equal(found.arguments[found.output], case.wanted), name
    assert any(isinstance(op, tas.StoreRowsOp) for op in module.walk())


IN_ROWS = ROUTED.replace(b"%16 = addi %5, %15", b"%16 = maxi %blockId_y, %cst_0_i32_29 signed")
IN_ROWS = IN_ROWS.replace(
    b"%25 = divi %24, %7 signed rounding<negative_inf>",
    b"%25 = maxi %blockId_x, %cst_0_i32_29 signed",
)
"""The same by a grid whose rows are rows of tiles."""


@pytest.mark.parametrize("multiprocessors", [1, 132])
@pytest.mark.parametrize("columns", [1, 2, 3])
def test_pairs_lie_in_a_row_of_the_grid(
    monkeypatch: pytest.MonkeyPatch, columns: int, multiprocessors: int
):
    """Both tiles have their rows in common, which are gathered once; the last may be alone."""
    set_multiprocessors(monkeypatch, multiprocessors)
    module, case = read_source(IN_ROWS), routed_case(3, 80, 128 * columns)
    for name, _ in changing(module, passes(module, (), "sm_90")):
        found = routed_case(3, 80, 128 * columns)
        run_entry(module, "routed", found.arguments, (columns, 3, 1))
        assert np.array_equal(found.arguments[found.output], case.wanted), name
    assert len([op for op in module.walk() if isinstance(op, pl.GatherLoadOp)]) == 1


def test_rows_that_follow_each_other_are_stored_through_a_view():
    assert "store_rows" in text_of(ROUTED)
    assert "store_rows" not in text_of(experts())

"""Tiles whose rows are scattered, stored row by row from shared memory."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.kernels.gather import experts, routed_case
from tests.kernels.other_targets import set_multiprocessors
from tests.kernels.stage_comparison import passes
from tests.kernels.unchanged import changing
from tileiras.codegen.atoms.row_stages import row_stage, rows_layout
from tileiras.dialects import nv_tileas as tas
from tileiras.driver import compile_module, read_source
from tileiras.interpreter import run_entry
from tileiras.options import CompileOptions

ROUTED = (Path(__file__).parents[2] / "kernels" / "routed_experts.mlir").read_bytes()


def text_of(source: bytes, emit: str) -> str:
    """The text of a stage for sm_90."""
    options = CompileOptions(opt_level=3, emit=emit, gpu_name="sm_90")
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


def test_one_thread_of_a_row_says_where_it_goes():
    """A part of a tile is written by eight stmatrix, and stored by eight accesses of 16 bytes."""
    ptx = text_of(ROUTED, "ptx")
    assert ptx.count("stmatrix.sync") == 8
    assert ptx.count("st.global.v4") == 8
    assert re.search(r"@%p\d+ st.shared.b64", ptx)


def test_rows_that_follow_each_other_are_stored_through_a_view():
    assert "store_rows" in text_of(ROUTED, "nv_tileas")
    assert "store_rows" not in text_of(experts(), "nv_tileas")


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", [(128, 128), (128, 64), (64, 128), (128, 256)])
def test_stages_hold_whole_rows_apart(shape: tuple[int, int], transposed: bool):
    """Eight rows of stmatrix lie in different banks, and every row has room behind it."""
    stage = row_stage(shape, 2, 16, transposed=transposed)
    if transposed and shape == (128, 256):
        assert stage is None
        return
    assert stage is not None
    assert stage.rows * stage.columns * stage.parts == shape[0] * shape[1]
    starts = [stage.spread(row * stage.row_bytes) for row in range(stage.rows)]
    assert starts == [row * (stage.row_bytes + 16) for row in range(stage.rows)]
    assert len({start // 16 % 8 for start in starts[:8]}) == 8
    assert stage.bytes <= 36 * 1024


def test_each_row_has_a_thread():
    layout = rows_layout((128, 64), 16, 8)
    assert layout is not None
    rows = {
        layout.apply(register=0, lane=lane, warp=warp) for lane in range(32) for warp in range(4)
    }
    assert rows == {(row, 0) for row in range(128)}
    assert layout.apply(register=3, lane=1, warp=4) == (1, 48)
    assert rows_layout((512, 64), 16, 8) is None

"""Rows that are stored from shared memory: how they lie there, and the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tileiras.codegen.atoms.row_stages import row_stage, rows_layout
from tileiras.driver import compile_module
from tileiras.options import CompileOptions

ROUTED = (Path(__file__).parents[1] / "kernels" / "routed_experts.mlir").read_bytes()


def test_one_thread_of_a_row_says_where_it_goes():
    """A part of a tile is written by eight stmatrix, and stored by eight accesses of 16 bytes."""
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_90")
    ptx = compile_module(ROUTED, options).output.decode()
    assert ptx.count("stmatrix.sync") == 8
    assert ptx.count("st.global.v4") == 8
    assert re.search(r"@%p\d+ st.shared.b64", ptx)


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

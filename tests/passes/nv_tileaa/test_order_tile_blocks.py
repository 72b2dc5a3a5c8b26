"""Tile blocks in the order of memory: each is there once, and which kernels are left."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.stage_comparison import passes
from tests.kernels.tile_copies import FLAT, arrays, copy_kernel
from tileiras.dialects import nv_tileaa as aa
from tileiras.interpreter import run_entry
from tileiras.ir_text import parse_text


def ordered(text: str) -> aa.FuncOp:
    """The kernel behind the pass."""
    module = parse_text(text, "kernel.mlir")
    for name, _ in passes(module, (), "sm_90"):
        if name == "order-tile-blocks":
            module.verify()
            return next(op for op in module.walk() if isinstance(op, aa.FuncOp))
    raise AssertionError("the pass did not run")


def numbered_along(text: str) -> set[int]:
    """The axes whose sizes the pass asks for."""
    func = ordered(text)
    return {op.axis.value.data for op in func.walk() if isinstance(op, aa.GetNumProgramsOp)}


@pytest.mark.parametrize("grid", [(3, 5, 1), (4, 7, 1)])
def test_numbers_are_the_same_in_every_stage(grid: tuple[int, int, int]):
    module = parse_text(copy_kernel(), "kernel.mlir")
    for name, _ in passes(module, (), "sm_90"):
        if name not in ("order-tile-blocks", "tileas-plan-cta"):
            continue
        arguments, wanted = arrays()
        run_entry(module, None, arguments, grid)
        np.testing.assert_array_equal(arguments[1], wanted)


def test_neighbours_along_the_contiguous_dim_start_one_after_another():
    func = ordered(copy_kernel())
    load = next(op for op in func.walk() if isinstance(op, aa.TiledLoadOp))
    row, column = (index.owner for index in load.indices)
    assert isinstance(row, aa.SelectOp) and isinstance(row.operands[1].owner, aa.DivIOp)
    assert isinstance(column, aa.SelectOp) and isinstance(column.operands[1].owner, aa.SubIOp)


def test_axes_between_stay_where_they_are():
    assert numbered_along(copy_kernel("%bx, %bz", "%bx, %bz")) == {0, 2}


LOOP = f"""for %i in (%c0 to %rows, step %c1) : tile<i32> {{
      %b, %s = load_view_tko weak %p[%bx, %i] token = %t : {FLAT}, tile<i32>
        -> tile<8x16xf32>, token
      %c = store_view_tko weak %b, %q[%bx, %by] token = %s : tile<8x16xf32>, {FLAT}, tile<i32>
        -> token
    }}"""
POINTER = "%b, %s = load_ptr_tko weak %x token = %t : tile<ptr<f32>> -> tile<f32>, token"
LEFT = {
    "tiles in the order of memory": copy_kernel("%by, %bx", "%by, %bx"),
    "transposes of tiles": copy_kernel("%bx, %by", "%by, %bx"),
    "one axis": copy_kernel("%bx, %c0", "%bx, %c0"),
    "both axes along one dim": copy_kernel("%bx, %n", "%bx, %n").replace(
        "%v = make", "%n = addi %bx, %by : tile<i32>\n    %v = make"
    ),
    "long rows": copy_kernel().replace("8x16", "8x512"),
    "loops": copy_kernel(between=LOOP),
    "pointers": copy_kernel(between=POINTER),
    "accesses that others see": copy_kernel().replace(
        "load_view_tko weak", "load_view_tko relaxed device"
    ),
}


@pytest.mark.parametrize("text", LEFT.values(), ids=LEFT)
def test_what_is_left(text: str):
    assert numbered_along(text) == set()

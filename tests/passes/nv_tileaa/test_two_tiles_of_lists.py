"""Tile blocks that walk through a list of arrays: which of them exchange tiles."""

from __future__ import annotations

import pytest

from tests.kernels.grouped_lists import grouped_lists
from tests.kernels.tiles_per_cta import placed
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas import wgmma as wg

TEXT = grouped_lists((128, 128, 64))
TEST = """%is_here = cmpi less_than %at, %after, signed : tile<i32> -> tile<i1>"""
BOTH = """%begun = cmpi greater_than_or_equal %at, %before, signed : tile<i32> -> tile<i1>
      %is_here = if %begun -> (tile<i1>) {
        %is_less = cmpi less_than %at, %after, signed : tile<i32> -> tile<i1>
        yield %is_less : tile<i1>
      } else {
        yield %begun : tile<i1>
      }"""
"""As a client writes `tile >= end and tile < end + count`."""


def changed(*pairs: tuple[str, str]) -> str:
    """The kernel with other words in it."""
    text = TEXT
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("test", [TEST, BOTH], ids=["less", "both"])
def test_two_tiles_of_neighbours_are_computed_at_once(test: str) -> None:
    func = placed(changed((TEST, test)))
    assert func.two_tiles is not None and func.two_tiles.data == "rounds"
    both = [op for op in func.walk() if isinstance(op, wg.WgmmaDotsOp)]
    alone = [op for op in func.walk() if isinstance(op, wg.WgmmaDotOp)]
    assert len(both) == 1, "with an operand in common"
    assert len(alone) == 3, "one after the other, and without a second one"
    walks = [op for op in func.walk() if isinstance(op, aa.LoopOp)]
    assert all([str(value.type) for value in op.results].count("i32") == 3 for op in walks)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("iter_values(%before = %zero,", "iter_values(%before = %one,"),
        ("continue %after, %done#0", "continue %tiles, %done#0"),
        ("continue %after, %done#0", "continue %after, %first"),
        ("%tile = %first, %t0", "%tile = %y, %t0"),
        ("break %at, %t1", "break %zero, %t1"),
        ("addi %at, %step :", "addi %at, %bs#1 :"),
        ("addi %at, %step :", "addi %step, %step :"),
        ("cmpi less_than %at, %after, signed", "cmpi less_than %at, %after, unsigned"),
        ("cmpi less_than %at, %after, signed", "cmpi less_than %at, %tiles, signed"),
        ("store_view_tko weak", "store_view_tko release device"),
        ("(%zero to %as#1,", "(%zero to %i,"),
    ],
)
def test_who_computes_a_tile_must_not_matter(old: str, new: str) -> None:
    assert placed(changed((old, new))).two_tiles is None


def test_not_where_registers_do_not_suffice() -> None:
    assert placed(grouped_lists((128, 256, 64))).two_tiles is None

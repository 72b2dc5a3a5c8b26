"""Tile blocks that share a lock side by side: the same sums, one lock, and where it is left."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.kernels.locked_loops import (
    ALWAYS_THE_FIRST_TILE,
    GROUPS,
    LOCKED_LOOP,
    WIDTH,
    LockedLoopCase,
    of_rows,
    ptx_of,
)
from tests.kernels.stage_comparison import passes
from tileiras.dialects import nv_tileaa as aa
from tileiras.interpreter import run_entry
from tileiras.interpreter.ptx import run_ptx
from tileiras.ir_text import parse_text
from tileiras.planning.lock_sharers import MOST_TILE_BLOCKS

SIDE_BY_SIDE = MOST_TILE_BLOCKS * GROUPS
"""Tile blocks of the CTAs that take one lock each."""
NO_REMAINDER = LOCKED_LOOP.replace("%group = remi %b, %c2 signed", "%group = muli %by, %c2")
TEXTS = {
    "a row": LOCKED_LOOP,
    "one tile": ALWAYS_THE_FIRST_TILE,
}
ROWS = [1, SIDE_BY_SIDE - 1, SIDE_BY_SIDE, SIDE_BY_SIDE + 1, 2 * SIDE_BY_SIDE + GROUPS + 1]


@cache
def joined(text: str) -> ModuleOp:
    """The kernel behind the pass."""
    module = parse_text(text, "kernel.mlir")
    for name, _ in passes(module, (), "sm_90"):
        if name == "join-lock-sharers":
            module.verify()
            return module
    raise AssertionError("the pass does not run")


def kinds(module: ModuleOp) -> list[str]:
    """What its loops do, in order: t take a lock, l load, s store, r release."""
    letters = {aa.LoopOp: "t", aa.TiledLoadOp: "l", aa.TiledStoreOp: "s", aa.AtomicRMWOp: "r"}
    loops = [op for op in module.walk() if isinstance(op, aa.ForOp)]
    return ["".join(letters.get(type(op), "") for op in loop.body.block.ops) for loop in loops]


def test_the_lock_is_taken_once_and_each_place_is_loaded_and_stored_once():
    many, one = kinds(joined(LOCKED_LOOP))
    assert many == "l" * MOST_TILE_BLOCKS + "s" * MOST_TILE_BLOCKS + "tlsr"
    assert one == "lstlsr"


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_sums_are_those_of_the_kernel_as_it_was(text: str, rows: int):
    text = of_rows(text, rows)
    for module in (parse_text(text, "kernel.mlir"), joined(text)):
        case = LockedLoopCase(0, 5, rows)
        run_entry(module, None, case.arguments(), case.grid)
        case.check(text)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_ptx_has_no_race_and_the_same_sums(text: str, rows: int):
    text = of_rows(text, rows)
    case = LockedLoopCase(0, 13, rows)
    run_ptx(ptx_of(text), case.arguments(), case.grid)
    case.check(text)


def test_sums_are_rounded_as_those_of_tile_blocks_one_after_another():
    """The same additions in the same order: bits are equal, not only sums of small integers."""
    rows = 2 * SIDE_BY_SIDE + 1
    text = of_rows(LOCKED_LOOP, rows)
    results = []
    for module in (parse_text(text, "kernel.mlir"), joined(text)):
        case = LockedLoopCase(0, 5, rows)
        case.x[:] = np.random.default_rng(rows).standard_normal(case.x.shape) * 1e3
        run_entry(module, None, case.arguments(), case.grid)
        results.append(case.sums.tobytes())
    assert results[0] == results[1]


def test_all_tile_blocks_of_an_axis_may_have_one_lock():
    many, one = kinds(joined(NO_REMAINDER))
    assert (many.count("t"), many.count("l")) == (1, MOST_TILE_BLOCKS + 1)
    assert one == "lstlsr"


CHANGES = {
    "a lock of each tile block": {"offset %locks, %group": "offset %locks, %b"},
    "sums of each tile block": {"%sp[%group, %j]": "%sp[%b, %j]"},
    "loops of each tile block": {"in (%from to %to": "in (%b to %to"},
    "the remainder of another number": {"remi %b, %c2": "remi %twice_b, %c2"}
    | {"    %group =": "    %twice_b = addi %b, %b : tile<i32>\n    %group ="},
    "tiles of two tile blocks are too large": {
        f"x{WIDTH}xf32>": "x16384xf32>",
        f"1x{WIDTH})": "1x16384)",
    },
    "an atomic beside the loop": {
        "    %lock =": "    %sum, %st ="
        " atomic_rmw_tko relaxed device %locks, add, %c0 token=%first\n"
        "        : tile<ptr<i32>>, tile<i32> -> tile<i32>, token\n    %lock =",
    },
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_kernels_of_which_it_is_not_known_stay(changes: dict[str, str]):
    text = LOCKED_LOOP
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    assert len(kinds(joined(text))) == 1

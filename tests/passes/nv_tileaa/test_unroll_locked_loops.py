"""Iterations that have a lock together: the same sums, which loads wait, and where it is left."""

from __future__ import annotations

from functools import cache

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tests.kernels.locked_loops import (
    ALWAYS_THE_FIRST_TILE,
    COLUMNS,
    LOCKED_LOOP,
    WIDTH,
    LockedLoopCase,
    ptx_of,
)
from tests.kernels.stage_comparison import passes
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.types import MemTokenType
from tileiras.interpreter import run_entry
from tileiras.interpreter.ptx import run_ptx
from tileiras.ir_text import parse_text

TEXTS = {"a row": LOCKED_LOOP, "one tile": ALWAYS_THE_FIRST_TILE}
BOUNDS = [(0, 13), (3, 5), (2, 3), (4, 4), (5, 4), (1, 8), (0, 4)]


@cache
def unrolled(text: str) -> ModuleOp:
    """The kernel behind the pass."""
    module = parse_text(text, "kernel.mlir")
    for name, _ in passes(module, (), "sm_90", left_out=["join-lock-sharers"]):
        if name == "unroll-locked-loops":
            module.verify()
            return module
    raise AssertionError("the pass does not run")


def loops(module: ModuleOp) -> list[aa.ForOp]:
    """Its loops over iterations."""
    return [op for op in module.walk() if isinstance(op, aa.ForOp)]


def kinds(loop: aa.ForOp) -> str:
    """What a loop does, in order: t take a lock, l load, s store, r release."""
    letters = {aa.LoopOp: "t", aa.TiledLoadOp: "l", aa.TiledStoreOp: "s", aa.AtomicRMWOp: "r"}
    return "".join(letters.get(type(op), "") for op in loop.body.block.ops)


def follows(later: Operation, earlier: Operation) -> bool:
    """Whether tokens put an operation of a block behind another one."""
    pending, seen = [later], {later}
    while pending:
        for value in pending.pop().operands:
            owner = value.owner
            if owner is earlier and isinstance(value.type, MemTokenType):
                return True
            if isinstance(value.type, MemTokenType) and isinstance(owner, Operation):
                pending += [owner] if owner not in seen else []
                seen.add(owner)
    return False


def test_iterations_take_the_lock_once_and_load_before_they_store():
    four, two, one = map(kinds, loops(unrolled(LOCKED_LOOP)))
    assert four == "lst" + "lll" + "llll" + "s" + "ss" * 3 + "r"
    assert two == "lst" + "l" + "ll" + "s" + "ss" + "r"
    assert one == "lstlsr"


def test_loads_of_what_the_iteration_before_has_stored_follow_it():
    four = kinds(loops(unrolled(ALWAYS_THE_FIRST_TILE))[0])
    assert four == "lst" + "lll" + "ls" + "lss" * 3 + "r"


@pytest.mark.parametrize(
    ("text", "is_behind"), [(LOCKED_LOOP, False), (ALWAYS_THE_FIRST_TILE, True)], ids=TEXTS
)
def test_token_order_of_iterations_stays_where_they_share_a_tile(text: str, is_behind: bool):
    """In the kernel only the lock orders them, which the later iteration does not take any more."""
    ops = list(loops(unrolled(text))[0].body.block.ops)
    wait = next(at for at, op in enumerate(ops) if isinstance(op, aa.LoopOp))
    of_sums = [op for op in ops[wait:] if isinstance(op, aa.TiledLoadOp)][3:]
    stores = [op for op in ops[wait:] if isinstance(op, aa.TiledStoreOp)]
    assert follows(stores[0], of_sums[0])
    assert follows(of_sums[1], stores[0]) is is_behind


def test_what_tokens_order_in_an_iteration_may_be_the_same_memory():
    """The lock is taken behind the store to `y`, so sums may be what has been stored there."""
    text = LOCKED_LOOP.replace("iter_values(%t = %t0)", "iter_values(%t = %w0)")
    assert text != LOCKED_LOOP
    section = kinds(loops(unrolled(text))[0]).partition("t")[2]
    assert section.startswith("lll" + "ls")


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_sums_are_those_of_the_loop_as_it_was(text: str, bounds: tuple[int, int]):
    for module in (parse_text(text, "kernel.mlir"), unrolled(text)):
        case = LockedLoopCase(*bounds)
        run_entry(module, None, case.arguments(), case.grid)
        case.check(text)


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_ptx_has_no_race_and_the_same_sums(text: str, bounds: tuple[int, int]):
    ptx = ptx_of(text)
    assert ptx.count("atom.acquire") == 2 * 3  # for tile blocks side by side, and for one
    case = LockedLoopCase(*bounds)
    run_ptx(ptx, case.arguments(), case.grid)
    case.check(text)


WIDE = {f"x{WIDTH}xf32>": "x16384xf32>", f"1x{WIDTH})": "1x16384)"}
CHANGES = {
    "every other iteration": {"step %c1": "step %c2"},
    "a lock of each iteration": {
        "%mine, %r0": "%other = offset %lock, %j : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>\n"
        "%mine, %r0",
        "acquire device %lock": "acquire device %other",
        "release device %lock": "release device %other",
    },
    "the lock stays taken": {"xchg, %c0": "xchg, %c1"},
    "the lock is not exchanged": {"xchg, %c0": "add, %c0"},
    "the lock is looked at": {"div_by<16>, %sums": "div_by<16>, %floats"}
    | {
        "    %a0 =": "    %floats = ptr_to_ptr %locks : tile<ptr<i32>> -> tile<ptr<f32>>\n    %a0 ="
    },
    "a number is handed on": {
        "iter_values(%t0 = %first) -> (token)": "iter_values(%t0 = %first, %n = %c0) -> "
        "(token, tile<i32>)",
        "%end = for": "%end, %last = for",
        "continue %free : token\n    }\n    return": "%m = muli %j, %n : tile<i32>\n"
        "continue %free, %m : token, tile<i32>\n    }\n    return",
    },
    "something else is stored under the lock": {
        "%done = join_tokens %w0, %w1": "%w2 = store_ptr_tko weak %turn, %j token=%w1\n"
        ": tile<ptr<i32>>, tile<i32> -> token\n%done = join_tokens %w0, %w2",
        "    %lock =": "    %turn = offset %locks, %to : tile<ptr<i32>>, tile<i32> "
        "-> tile<ptr<i32>>\n    %lock =",
    },
    "tiles of four iterations are too large": WIDE,
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_loops_of_which_it_is_not_known_stay(changes: dict[str, str]):
    text = LOCKED_LOOP
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    assert len(loops(unrolled(text))) == 1


def test_arrays_of_one_parameter_may_be_the_same_memory():
    """Then what is loaded waits for what the iterations before have stored."""
    shifted = "%a2 = assume div_by<16>, %z"
    offset = "%z = offset %x, %from : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>"
    text = LOCKED_LOOP.replace("%a2 = assume div_by<16>, %y", f"{offset}\n    {shifted}")
    assert shifted in text
    four = kinds(loops(unrolled(text))[0])
    assert "l" in four[four.index("s", four.index("t")) :]


def test_tiles_that_reach_into_the_next_one_wait_for_it():
    """Rows of fewer elements than a tile has: its end may be the next iteration's tile."""
    text = LOCKED_LOOP.replace(f"strides=[{COLUMNS},1]", f"strides=[1,{COLUMNS}]")
    text = text.replace(f"strides = [{COLUMNS}, 1]", f"strides = [1, {COLUMNS}]")
    section = kinds(loops(unrolled(text))[0]).partition("t")[2]
    assert section == "lll" + "ls" + "lss" * 3 + "r"

"""CTAs that add up what their tile blocks add under a lock: the same sums, fewer turns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.kernels.locked_loops import (
    COLUMNS,
    GROUPS,
    SUMMED_LOOP,
    WIDE,
    LockedLoopCase,
    behind,
    of_rows,
    ptx_of,
)
from tileiras.dialects import nv_tileaa as aa
from tileiras.interpreter import run_entry
from tileiras.interpreter.ptx import run_ptx
from tileiras.ir_text import parse_text
from tileiras.planning import lock_sums
from tileiras.planning.lock_sharers import MOST_TILE_BLOCKS

PASS = "join-lock-sharers"
TILES = -(-COLUMNS // WIDE)
CTAS = 4
"""CTAs that tile blocks are shared out among here, so that each has several."""
ROWS = [1, CTAS, CTAS + 1, 2 * CTAS + 3, MOST_TILE_BLOCKS * CTAS, 9 * CTAS + GROUPS + 1]
FIRST_TILE = SUMMED_LOOP.replace("%sp[%group, %j]", "%sp[%group, %c0]")
TEXTS = {"a row": SUMMED_LOOP, "one tile": FIRST_TILE}


@pytest.fixture(autouse=True)
def few_ctas(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A GPU that holds few CTAs."""
    monkeypatch.setattr(lock_sums.LockSums, "ctas", CTAS)
    for made in (behind, ptx_of):
        made.cache_clear()
    yield
    for made in (behind, ptx_of):
        made.cache_clear()


def kept(module: ModuleOp) -> list[aa.KeepTilesOp]:
    """The memory for sums."""
    return [op for op in module.walk() if isinstance(op, aa.KeepTilesOp)]


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_sums_are_those_of_the_kernel_as_it_was(text: str, rows: int):
    text = of_rows(text, rows)
    joined = behind(text, PASS)
    assert kept(joined)
    for module in (
        parse_text(text, "kernel.mlir"),
        joined,
        behind(text, "convert-tileaa-to-tileas"),
    ):
        case = LockedLoopCase(0, TILES, rows, WIDE)
        run_entry(module, None, case.arguments(), case.grid)
        case.check(text)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_ptx_has_no_race_and_the_same_sums(text: str, rows: int):
    text = of_rows(text, rows)
    case = LockedLoopCase(0, TILES, rows, WIDE)
    run_ptx(ptx_of(text), case.arguments(), case.grid)
    case.check(text)


@pytest.mark.parametrize("count", [2, 4])
def test_tiles_beyond_those_that_are_kept_are_added_under_the_lock(
    count: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lock_sums, "MOST_KEPT_BYTES", lock_sums.LEAST_KEPT_BYTES)
    monkeypatch.setattr(lock_sums, "LEAST_KEPT_BYTES", count * WIDE * 4)
    monkeypatch.setattr(lock_sums, "MOST_KEPT_BYTES", count * WIDE * 4)
    rows = 3 * CTAS + 1
    text = of_rows(SUMMED_LOOP, rows)
    assert [op.count.data for op in kept(behind(text, PASS))] == [count]
    case = LockedLoopCase(0, TILES, rows, WIDE)
    run_entry(behind(text, PASS), None, case.arguments(), case.grid)
    case.check(text)
    case = LockedLoopCase(0, TILES, rows, WIDE)
    run_ptx(ptx_of(text), case.arguments(), case.grid)
    case.check(text)


def test_a_cta_takes_the_lock_once_for_all_of_its_tile_blocks():
    """Behind the loops over tile blocks; in them only where a row has more tiles than are kept."""
    func = next(op for op in behind(SUMMED_LOOP, PASS).walk() if isinstance(op, aa.FuncOp))
    *_, last = [op for op in func.walk() if isinstance(op, aa.ForOp)]
    ops = list(last.body.block.ops)
    assert sum(isinstance(op, aa.LoopOp) for op in ops) == 1
    assert sum(isinstance(op, aa.ReadKeptOp) for op in ops) == 1
    assert sum(isinstance(op, aa.TiledLoadOp) for op in ops) == 1
    assert sum(isinstance(op, aa.TiledStoreOp) for op in ops) == 1


def test_errors_do_not_grow():
    """Sums are rounded otherwise than those of tile blocks one after another, and not worse."""
    rows = 12 * CTAS
    text = of_rows(SUMMED_LOOP, rows)
    errors: list[float] = []
    for module in (parse_text(text, "kernel.mlir"), behind(text, PASS)):
        case = LockedLoopCase(0, TILES, rows, WIDE)
        case.x[:] = np.random.default_rng(rows).standard_normal(case.x.shape)
        run_entry(module, None, case.arguments(), case.grid)
        exact = case.start.astype(np.float64)
        for row in range(rows):
            exact[row % GROUPS] += case.x[row]
        errors.append(float(np.abs(case.sums - exact).mean()))
    assert 0 < errors[1] <= 1.1 * errors[0]


CHANGES = {
    "a difference": {"addf %there, %mine": "subf %there, %mine"},
    "a sum that is rounded to zero": {
        "addf %there, %mine :": "addf %there, %mine rounding<zero> :"
    },
    "twice what is there": {"addf %there, %mine": "addf %there, %there"},
    "rows that start later": {"in (%c0 to": "in (%c1 to"},
    "small tiles": {f"1x{WIDE}": "1x128"},
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_other_sections_are_performed_as_they_come(changes: dict[str, str]):
    text = SUMMED_LOOP
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    assert not kept(behind(text, PASS))

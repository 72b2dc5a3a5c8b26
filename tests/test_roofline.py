"""The roofline: units of the model, what binds, and that its page is what the script prints."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import roofline  # noqa: E402  # pyright: ignore[reportMissingImports]
from loop_figures import LoopFigures  # noqa: E402  # pyright: ignore[reportMissingImports]

from tileiras.codegen.target import TARGET_NAMES, get_target  # noqa: E402
from tileiras.codegen.target.rates import RATES, Rates  # noqa: E402

SIMPLE = Rates("g", 10, {"f16": 10.24, "f4": 40.96}, 100, 1024, "s", mma_sync=0.5)
"""10 SMs at 1 GHz."""
TASK = roofline.Task("t", "f16", "f16", 1.024e9, 1e6)
LOOP = LoopFigures("mma.sync", 100, 10, 10 * roofline.FLOPS_OF_K16, 4096)


def test_the_clock_is_what_the_rate_needs() -> None:
    assert SIMPLE.clock == pytest.approx(1.0)
    assert all(0.5 < rates.clock < 3.5 for rates in RATES.values())


def test_the_floor_is_of_documents_alone() -> None:
    found = roofline.floor(TASK, SIMPLE)
    assert found == pytest.approx({"tensor": 100, "memory": 10, "ex2": 0})
    with_exponentials = replace(TASK, exponentials=1.6e6)
    assert roofline.floor(with_exponentials, SIMPLE)["ex2"] == pytest.approx(10)


def test_a_program_is_charged_for_what_its_loop_does() -> None:
    times = roofline.predicted(TASK, SIMPLE, roofline.Program(LOOP, (128, 128)))
    assert times["tensor"] == pytest.approx(200)
    instructions = 1.024e9 / LOOP.flops * LOOP.instructions
    assert times["issue"] == pytest.approx(instructions / 4 / 10 / 1000)
    read = 1.024e9 / LOOP.flops * LOOP.shared_bytes
    assert times["shared"] == pytest.approx(read / 128 / 10 / 1000)


def test_better_units_and_tiles_are_faster() -> None:
    """Block scales run at the full rate, tcgen05 too; larger tiles load less."""
    plain = roofline.predicted(TASK, SIMPLE, roofline.Program(LOOP, (128, 128)))
    for unit in ("mma.sync block_scale", "tcgen05"):
        program = roofline.Program(replace(LOOP, unit=unit), (128, 256))
        better = roofline.predicted(TASK, SIMPLE, program)
        assert better["tensor"] == pytest.approx(plain["tensor"] / 2)
        assert better["L2"] < plain["L2"]


def test_rates_are_of_targets_and_agree_with_what_schedules_count_on() -> None:
    assert set(RATES) <= set(TARGET_NAMES)
    for name, rates in RATES.items():
        assert rates.multiprocessors == get_target(name).performance.multiprocessors
        assert rates.source


def test_page_is_what_the_script_prints() -> None:
    """Made again by `python benchmarks/roofline.py --page docs/roofline.md`."""
    page = (ROOT / "docs" / "roofline.md").read_text(encoding="utf-8")
    assert roofline.rates_table() in page
    for target in RATES:
        for task in roofline.TASKS:
            assert (f"| {target} | {task.name} |" in page) == task.suits(target)


@pytest.mark.parametrize("task", ["GEMM f16", "GEMM f8", "attention f16"])
def test_mma_sync_on_sm_120_stands_at_the_floor_of_the_model(task: str) -> None:
    [found] = [one for one in roofline.TASKS if one.name == task]
    row = roofline.cells("sm_120", found)
    assert row is not None and float(row[-1]) <= 1.1
    wide = roofline.cells("sm_100", found)
    assert wide is not None and float(wide[-1]) >= 1
    assert roofline.cells("sm_90", roofline.TASKS[2]) is None


@pytest.mark.parametrize("target", ["sm_100", "sm_103", "sm_110"])
@pytest.mark.parametrize("tile", ["256x64", "256x128"])
def test_attention_of_256_rows_stands_at_the_floor_of_the_model(target: str, tile: str) -> None:
    [found] = [one for one in roofline.TASKS if one.name == f"attention f16 {tile}"]
    row = roofline.cells(target, found)
    assert row is not None and float(row[-1]) <= 1.1
    assert roofline.cells("sm_120", found) is None

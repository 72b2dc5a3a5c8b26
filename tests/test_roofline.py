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
            assert (f"| {target} | {task.name} |" in page) == (task.element in RATES[target].tensor)


@pytest.mark.parametrize("task", ["GEMM f16", "GEMM f8", "attention"])
def test_mma_sync_on_sm_120_stands_at_the_floor_of_the_model(task: str) -> None:
    [found] = [one for one in roofline.TASKS if one.name == task]
    [row] = roofline.rows("sm_120", found)
    assert of_floor(row) <= 1.1
    assert not roofline.rows("sm_90", roofline.TASKS[2])


def of_floor(row: list[str]) -> float:
    """What is predicted, by the floor."""
    return float(row[roofline.HEADS_OF_TABLE.index("of floor")])


def program(target: str, kernel: str, shape: tuple[int, int, int]) -> roofline.Program:
    """Our kernel with a tile."""
    found = roofline.gemm_program(kernel, target, shape)
    assert found is not None
    return found


def test_what_a_program_loads_is_read_off_its_loop() -> None:
    """Bytes of A and B for a step of K: rows and columns of the tile, by its flops."""
    alone = program("sm_100", "f16", (128, 128, 1))
    assert alone.traffic == pytest.approx(1000 * 2 * (128 + 128) / (2 * 128 * 128))
    pair = program("sm_100", "f16", (256, 256, 2))
    assert pair.traffic == pytest.approx(1000 * 2 * (256 + 256) / (2 * 256 * 256))
    pairs = program("sm_100", "f16", (512, 256, 4))
    assert pairs.traffic == pytest.approx(1000 * 2 * (512 + 256) / (2 * 512 * 256))


def test_a_pair_reads_half_of_the_columns_each() -> None:
    """Of shared memory: an instruction of two CTAs has 256 rows, and 128 columns of each."""
    alone, pair = (program("sm_100", "nvf4", shape) for shape in ((128, 128, 1), (256, 256, 2)))
    assert pair.loop.bytes_per_kiloflop == pytest.approx(alone.loop.bytes_per_kiloflop / 2, rel=0.1)


@pytest.mark.parametrize("target", ["sm_100", "sm_103", "sm_110"])
@pytest.mark.parametrize("number", [0, 1])
def test_pairs_reach_the_floor_of_the_model(target: str, number: int) -> None:
    """Within a tenth, with the tile of 512x256 by four CTAs."""
    task = roofline.TASKS[number]
    row = roofline.cells(target, task, program(target, task.kernel, (512, 256, 4)))
    assert of_floor(row) <= 1.1


def test_three_tile_blocks_at_once_reach_the_floor_of_the_model() -> None:
    """nvf4 on sm_103, by the eight CTAs of a cluster that every launch allows: each loads, of what
    is 512x768 together, rows and columns once, with scales of a byte for 16 elements.
    """
    [task] = [one for one in roofline.TASKS if one.name == "GEMM nvf4"]
    found = program("sm_103", task.kernel, (512, 256, 8))
    assert found.tiles == 3
    size = (512 + 3 * 256) * (0.5 + 1 / 16)
    assert found.traffic == pytest.approx(1000 * size / (2 * 512 * 3 * 256))
    row = roofline.cells("sm_103", task, found)
    assert "3 of 512x256" in row and of_floor(row) <= 1.1


@pytest.mark.parametrize("target", ["sm_100", "sm_103", "sm_110"])
@pytest.mark.parametrize("tile", [(256, 64), (256, 128)])
def test_attention_of_256_rows_stands_at_the_floor_of_the_model(
    target: str, tile: tuple[int, int]
) -> None:
    [found] = [one for one in roofline.TASKS if one.name == "attention"]
    row = roofline.cells(target, found, roofline.attention_program(tile, target))
    assert of_floor(row) <= 1.1

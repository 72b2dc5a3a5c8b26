"""Loops whose iterations wait for their loads together: which, and with what result."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.row_loops import RowLoop
from tests.passes.nv_tileaa.scheduled_loads import after, run, scheduled
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.text import parse_module
from tileiras.dialects.nv_tileaa.schedule import loop_schedule
from tileiras.errors import BytecodeError
from tileiras.passes.nv_tileaa.schedule.unroll import unroll

BOUNDS = [(0, 0, 1), (0, 1, 1), (0, 2, 1), (0, 3, 1), (1, 6, 1), (2, 1, 1), (-3, 4, 1), (0, 11, 1)]
LARGE = RowLoop(width=2048, latency=2, occupancy=8)


def loops(module) -> list[aa.ForOp]:
    """The loops of a module."""
    return [op for op in module.walk() if isinstance(op, aa.ForOp)]


def unrolled(kernel: RowLoop) -> list[int]:
    """Iterations at a time of the loops that the schedule says it of."""
    module = after(kernel.text, "tileas-generate-schedule")
    found = [loop_schedule(loop) for loop in loops(module)]
    return [s.integer("unrolled") for s in found if s is not None and s.has("unrolled")]


@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@pytest.mark.parametrize(
    "kernel", [RowLoop(), RowLoop("f16"), RowLoop(in_place=True), RowLoop(chained=True)], ids=str
)
def test_unrolled_loops_compute_the_same(
    kernel: RowLoop, bounds: tuple[int, int, int], count: int
) -> None:
    module = after(kernel.text, "convert-cudatile-to-tileaa")
    before = loops(module)
    for loop in before:
        unroll(loop, count)
    assert len(loops(module)) == 2 * len(before)
    wanted = run(parse_module(kernel.text), kernel, bounds)
    np.testing.assert_array_equal(run(module, kernel, bounds), wanted)


def test_bounds_without_sign_are_compared_without_sign() -> None:
    kernel = RowLoop(unsigned=True)
    module = after(kernel.text, "convert-cudatile-to-tileaa")
    for loop in loops(module):
        unroll(loop, 2)
    bounds = (3, 1, 1)
    wanted = run(parse_module(kernel.text), kernel, bounds)
    np.testing.assert_array_equal(run(module, kernel, bounds), wanted)


@pytest.mark.parametrize(("step", "count"), [("%by", 2), ("%one", 3), ("%one", 1)])
def test_a_loop_that_cannot_be_unrolled_is_refused(step: str, count: int) -> None:
    module = after(RowLoop(step=step).text, "convert-cudatile-to-tileaa")
    with pytest.raises(BytecodeError, match="a loop is unrolled, expected a power of two"):
        unroll(loops(module)[-1], count)


def test_quick_loads_of_large_tiles_wait_together() -> None:
    assert unrolled(LARGE) == [8, 8]
    assert len(loops(scheduled(LARGE))) == 4


@pytest.mark.parametrize(
    "kernel",
    [
        RowLoop(width=1024, latency=2, occupancy=8),
        RowLoop("f16", 1024, latency=2, occupancy=8),
        RowLoop(width=2048, latency=0, occupancy=8),
        RowLoop(width=2048, latency=10, occupancy=8),
    ],
    ids=str,
)
def test_smaller_tiles_and_slower_loads_keep_their_stages(kernel: RowLoop) -> None:
    assert unrolled(kernel) == []


def test_tiles_of_4_kilobytes_wait_by_four() -> None:
    assert unrolled(RowLoop("f16", 2048, latency=2, occupancy=8)) == [4, 4]


@pytest.mark.parametrize(("width", "count"), [(4096, [4, 4]), (8192, [2, 2]), (16384, [])])
def test_registers_of_a_thread_say_how_many_iterations(width: int, count: list[int]) -> None:
    assert unrolled(RowLoop(width=width, latency=2, occupancy=8)) == count

"""Attention whose scores are computed in parts: in how many, and for one warpgroup or two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.planning.model.dots import WgmmaDot
from tileiras.planning.resources.cta import MAX_ACCUMULATORS, WARPGROUP_THREADS
from tileiras.planning.schedule.overlap import RESERVED_REGISTERS

if TYPE_CHECKING:
    from tileiras.planning.model.kernel import RolePlan

PARTS = 2
"""Policy: of a tile of keys, where CTAs of one warpgroup have registers for all rows then."""


def fits_one_warpgroup(plan: RolePlan) -> bool:
    """Whether one warpgroup would have registers for all rows, the scores in parts."""
    if plan.shape.ctas > 1 or plan.warpgroups == 1:
        return False
    sums = sum(
        planned.rows * planned.columns // (PARTS if planned.starts_at_zero else 1)
        for planned in plan.dots.values()
    )
    scores = sum(
        planned.rows * planned.columns for planned in plan.dots.values() if planned.starts_at_zero
    )
    # Probabilities are half as large as their scores.
    words = sums + scores // (2 * PARTS)
    return words <= MAX_ACCUMULATORS * WARPGROUP_THREADS


def parts_beside_powers(plan: RolePlan, least: int) -> int:
    """The fewest parts of a tile of keys, of `least` columns at least, for which a thread has
    registers for scores, probabilities and sums; 1 if that is the whole tile, or there are none.
    """
    dots = list(plan.dots.values())
    first = [planned for planned in dots if planned.starts_at_zero]
    if not first or any(not isinstance(planned, WgmmaDot) for planned in dots):
        return 1
    scores = max(planned.accumulator_registers(plan.warpgroups) for planned in first)
    sums = max(
        (
            planned.accumulator_registers(plan.warpgroups)
            for planned in dots
            if planned not in first
        ),
        default=0,
    )
    room = plan.shape.registers - RESERVED_REGISTERS - sums
    parts = 1
    # Probabilities are half as large as their scores.
    while 3 * scores // (2 * parts) > room:
        parts *= 2
    return parts if max(planned.columns for planned in first) // parts >= least else 1

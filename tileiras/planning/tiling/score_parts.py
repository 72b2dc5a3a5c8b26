"""Attention whose scores are computed in parts: whether one warpgroup does for all rows then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.planning.resources.cta import MAX_ACCUMULATORS, WARPGROUP_THREADS

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

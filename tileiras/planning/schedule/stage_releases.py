"""Behind what consumers hand a stage back: the last product that reads it.

A tile that several iterations read stays until the last loop, or branch, with such a product is
over.
"""

from __future__ import annotations

from xdsl.ir import Operation

from tileiras.dialects import nv_tileaa as aa
from tileiras.planning.model.dots import PlannedDot
from tileiras.planning.model.kernel import RolePlan

Releasing = aa.ForOp | aa.LoopOp | aa.IfOp
"""What hands back the stages of tiles that stay throughout it."""


def stage_releases(plan: RolePlan) -> dict[Operation, tuple[int, ...]]:
    """The numbers of the pipelines that get a stage back behind an operation, in rising order."""
    found: dict[Operation, list[int]] = {}
    for planned in plan.dots.values():
        number = plan.pipeline_of(planned.rhs.load)
        if number is not None and is_last_reader(planned, plan):
            found.setdefault(planned.dot, []).append(number)
    for number in range(len(plan.pipelines)):
        if users := resident_users(number, plan):
            found.setdefault(users[-1], []).append(number)
    return {op: tuple(numbers) for op, numbers in found.items()}


def is_last_reader(planned: PlannedDot, plan: RolePlan) -> bool:
    """Whether a product is the last one that reads its stage."""
    return planned is plan.products_sharing_stages(planned)[-1]


def resident_users(number: int, plan: RolePlan) -> list[Operation]:
    """What reads the tile of a pipeline that stays in its stage: operations of the load's block."""
    load = plan.pipelines[number].loads[0]
    readers = [
        planned.dot
        for planned in plan.dots.values()
        if planned.lhs is not None and planned.is_lhs_resident and planned.lhs.load is load
    ]
    block = load.parent_block()
    if block is None or not readers:
        return []
    return [op for op in block.ops if any(op.is_ancestor(dot) for dot in readers)]

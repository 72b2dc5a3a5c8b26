"""Loops of which consumers run nothing: others issue the products and copies of their bodies."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue
from xdsl.traits import Pure

from tileiras.dialects import nv_tileaa as aa
from tileiras.planning.mma.tcgen05 import Tcgen05Dot
from tileiras.planning.model.kernel import RolePlan


def loops_of_others(func: aa.FuncOp, plan: RolePlan) -> Iterator[aa.ForOp]:
    """The loops that consumers need not run: they only sum up products in tensor memory."""
    if plan.is_in_tmem:
        for op in func.body.walk():
            if isinstance(op, aa.ForOp) and is_of_others(op, plan):
                yield op


def is_of_others(loop: aa.ForOp, plan: RolePlan) -> bool:
    """Whether nothing that a loop does or computes is for the consumers."""
    if not all(_is_without_effect(op, plan) for op in loop.body.block.ops):
        return False
    own_sums = (own for own in plan.sums if not own.is_of_iteration)
    sums = {position for own in own_sums for of, position in own.places if of is loop}
    return not any(
        _is_read(result, plan)
        for position, result in enumerate(loop.results)
        if position not in sums and not isinstance(result.type, aa.MemTokenType)
    )


def _is_without_effect(op: Operation, plan: RolePlan) -> bool:
    """Whether consumers do nothing for an operation of a loop that anybody could see."""
    if plan.pipeline_of(op) is not None:
        return True
    planned = plan.dots.get(op)
    if isinstance(planned, Tcgen05Dot):
        return planned.lhs is not None and not planned.accumulator.is_of_iteration
    is_plain = isinstance(op, aa.ContinueOp | aa.CreateMemTokenOp) or op.has_trait(Pure)
    return is_plain and not op.regions


def _is_read(value: SSAValue, plan: RolePlan) -> bool:
    """Whether anything but the copies of other warps reads a value."""
    return any(plan.pipeline_of(use.operation) is None for use in value.uses)

"""Products that a warp of its own issues an iteration ahead of the others of their loop.

    S(0);  for i { S(i + 1); O(i) += P(i) V(i) }

Attention's second product waits until consumers have computed its left operand of the first one.
The tensor core computes the first one of the next iteration meanwhile, and consumers find it ready.
"""

from __future__ import annotations

from xdsl.ir import Operation

from tileiras.dialects import nv_tileaa as aa
from tileiras.planning.mma.tcgen05 import Tcgen05Dot
from tileiras.planning.model.kernel import RolePlan


def products_ahead(plan: RolePlan) -> dict[Operation, None]:
    """The products in front of the first of their loop whose left operand consumers compute.

    They need sums of their own for each iteration, and stages that later products do not read.
    """
    found: dict[Operation, None] = {}
    loops: dict[Operation | None, list[Tcgen05Dot]] = {}
    for planned in plan.dots.values():
        if isinstance(planned, Tcgen05Dot):
            loops.setdefault(planned.dot.parent_op(), []).append(planned)
    for loop, dots in loops.items():
        late = [number for number, planned in enumerate(dots) if planned.lhs is None]
        if not late or not isinstance(loop, aa.ForOp) or _has_others(loop, plan):
            continue
        early, others = dots[: late[0]], dots[late[0] :]
        if all(_may_be_ahead(planned, others, plan) for planned in early):
            found |= dict.fromkeys(planned.dot for planned in early)
    return found


def _has_others(loop: aa.ForOp, plan: RolePlan) -> bool:
    """Whether products stand deeper in a loop."""
    return any(op in plan.dots and op.parent_op() is not loop for op in loop.walk())


def _may_be_ahead(planned: Tcgen05Dot, others: list[Tcgen05Dot], plan: RolePlan) -> bool:
    """Whether a product has nothing in common with those that stay behind."""
    is_apart = all(other not in others for other in plan.products_sharing_stages(planned))
    return is_apart and planned.accumulator.is_of_iteration

"""How many products are at work when the next instruction of their warpgroup runs.

A product that its loop only adds to need not be finished in the iteration that issues it: the
tensor core goes on with it while the next stage is waited for. Products that share stages are
handed back together, so that they stay unfinished together or not at all.
"""

from __future__ import annotations

from xdsl.ir import Operation

from tileiras.planning.mma.accumulation import is_running, running_position
from tileiras.planning.model.dots import PlannedDot, WgmmaDot
from tileiras.planning.model.kernel import RolePlan


def unfinished_products(plan: RolePlan) -> dict[Operation, int]:
    """How many products may be unfinished behind each, the newest ones.

    As many as there may be; those that are not named finish before the first reader of their sum.
    """
    found: dict[Operation, int] = {}
    for planned in plan.dots.values():
        if not isinstance(planned, WgmmaDot):
            continue
        most = most_unfinished(planned, plan)
        if most or finishes_at_once(planned):
            found[planned.dot] = most
    return found


def finishes_at_once(planned: PlannedDot) -> bool:
    """Whether threads take part: they add the sum themselves, or have read an operand.

    An operand that they have transposed is another tile, which stays until the product is over.
    """
    return planned.is_two_level or planned.fragments not in (None, "smem_transpose")


def most_unfinished(planned: WgmmaDot, plan: RolePlan) -> int:
    """How many products may be unfinished when one has been issued and its iteration goes on.

    Of products that share stages all may be; where threads read, only the newest one. None where
    something else reads a sum, or the next iteration writes what the product reads.
    """
    group = plan.products_sharing_stages(planned)
    loop = planned.dot.parent_op()
    if not is_running(group) or loop is None:
        return 0
    # At the next but one turn nobody may read a transposed copy any more, so each turn has to wait
    # for what runs beside it: all such products of the loop, or none.
    if any(other.transposes_words for other in group):
        others = (other for other in plan.dots.values() if loop.is_ancestor(other.dot))
        if any(running_position(other) is None for other in others if other.transposes_words):
            return 0
    return len(group) if all(other.fragments is None for other in group) else 1

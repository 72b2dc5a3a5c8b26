"""Around what a sum in tensor memory belongs to the warp that issues its products.

It waits before it until the consumers have read the sum of before, and gives them the new one
behind it: around a loop that carries the sum, around the product where its loop reads the sum.
"""

from __future__ import annotations

from xdsl.ir import Operation

from tileiras.planning.mma.tcgen05 import Accumulator
from tileiras.planning.model.kernel import RolePlan


def accumulator_use(plan: RolePlan) -> dict[Operation, tuple[Accumulator, ...]]:
    """The sums that are acquired before an operation and committed behind it, in program order."""
    found: dict[Operation, list[Accumulator]] = {}
    for own in plan.sums:
        found.setdefault(summing_op(own), []).append(own)
    return {op: tuple(sums) for op, sums in found.items()}


def summing_op(own: Accumulator) -> Operation:
    """What makes a sum: a loop, or the only product of an iteration's."""
    return own.loop if own.dot is None else own.dot

"""How a tile block of attention starts: whose tensor maps it takes, when its warpgroups begin.

A tile block has its first keys by the prologue fill; all others wait for tensor maps. An earlier
CTA of the SM has made the same ones, so that they are looked for (decision 18). Then warpgroups
would begin together, compute powers together, and leave tensor cores idle meanwhile. So the second
one begins when the first one has its first scores, or its first powers (decision 76).

The times are in decision 76.
"""

from __future__ import annotations

from xdsl.ir import Operation

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.nesting import op_block
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.planning.model.dots import WgmmaDot
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.resources.cta import PRODUCER_REGISTERS

LEAST_BYTES = 256
"""Policy: of a key, if tile blocks have loops of different lengths: products take longer than
powers then.
"""


def keeps_maps(func: aa.FuncOp, plan: RolePlan, *, differ: bool) -> bool:
    """Whether CTAs look for tensor maps that an earlier one has made; `differ`: the lengths of the
    loops of tile blocks do.

    Producers of 24 registers spill then.
    """
    if not _is_attention(plan) or func.static_tile_scheduler is not None:
        return False
    if 0 < plan.shape.producer_registers < PRODUCER_REGISTERS:
        return False
    return _may_begin_at_once(plan, differ=differ)


def late_start(
    func: aa.FuncOp, plan: RolePlan, *, differ: bool
) -> tuple[Operation, Operation] | None:
    """The product that the second warpgroup issues late, and what the first one has come to then:
    that product, finished, or the loop behind it.
    """
    first, loop = _first_product(plan)
    if loop is None or not _is_attention(plan) or plan.shape.ctas > 1 or plan.warpgroups == 1:
        return None
    is_scheduled = func.static_tile_scheduler is not None
    if not is_scheduled and not keeps_maps(func, plan, differ=differ):
        return None
    return (first, loop if is_scheduled or differ else first)


def _is_attention(plan: RolePlan) -> bool:
    """Whether the left operand of a product by wgmma is computed from another product's."""
    dots = list(plan.dots.values())
    is_asynchronous = all(isinstance(planned, WgmmaDot) for planned in dots)
    return is_asynchronous and any(planned.lhs is None for planned in dots)


def _may_begin_at_once(plan: RolePlan, *, differ: bool) -> bool:
    keys = (
        shape_of(planned.dot.lhs)[-1] * planned.operand_bits
        for planned in plan.dots.values()
        if isinstance(planned, WgmmaDot) and planned.lhs is not None
    )
    return not differ or max(keys, default=0) >= 8 * LEAST_BYTES


def _first_product(plan: RolePlan) -> tuple[Operation, aa.ForOp | None]:
    """The first product, and the loop of products behind it in its block."""
    first = next(iter(plan.dots.values())).dot
    behind = False
    for op in op_block(first).ops:
        behind |= op is first
        multiplies = isinstance(op, aa.ForOp) and any(isinstance(i, aa.DotOp) for i in op.walk())
        if behind and isinstance(op, aa.ForOp) and multiplies:
            return first, op
    return first, None

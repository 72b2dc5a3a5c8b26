"""How a tile block of attention starts: whose tensor maps it takes, when its warpgroups begin.

A tile block has its first keys by the prologue fill; all others wait for tensor maps. An earlier
CTA of the SM has made the same ones, so that they are looked for (decision 18). Then warpgroups
would begin together, compute powers together, and leave tensor cores idle meanwhile. So the second
one begins when the first one has its first scores, or its first powers. Decision 76 has the times.
"""

from __future__ import annotations

from math import prod

from xdsl.ir import Block, Operation

from tileiras.codegen.target import Work
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.nesting import op_block
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.dialects.nv_tileaa.views import memref_of
from tileiras.planning.model.dots import WgmmaDot
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.operands.tma import is_by_tma
from tileiras.planning.resources.cta import PRODUCER_REGISTERS, ROWS_PER_WARPGROUP
from tileiras.planning.schedule.costs import kind_of_work

_SMALL_BITS = 8
"""Fixed: of an element of f8."""

BYTES = 256
"""Policy: of a key of 128 elements. Copies of longer ones leave producers too few registers to look
for maps. If tile blocks have loops of different lengths, shorter ones lose: their products take
less time than powers.
"""
OPERANDS = 3
"""Fixed: queries, keys and values; queries may come by threads."""


def keeps_maps(func: aa.FuncOp, plan: RolePlan, *, differ: bool) -> bool:
    """Whether CTAs look for tensor maps that an earlier one has made; `differ`: the lengths of the
    loops of tile blocks do.
    """
    if func.static_tile_scheduler is not None or not _is_attention(plan):
        return False
    if 0 < plan.shape.producer_registers < PRODUCER_REGISTERS:
        return False
    keys = _key_bytes(plan)
    return keys == BYTES if differ else keys <= BYTES


def late_start(
    func: aa.FuncOp, plan: RolePlan, *, differ: bool
) -> tuple[Operation, Operation] | None:
    """The product that the second warpgroup issues late, and what the first one has come to then:
    that product, finished, or the loop behind it.

    Where tile blocks go through the grid, only those of 8 bits gain.
    """
    if plan.shape.ctas > 1 or plan.warpgroups == 1 or not _is_attention(plan):
        return None
    is_small = all(planned.operand_bits == _SMALL_BITS for planned in wgmma_dots(plan))
    is_scheduled = func.static_tile_scheduler is not None and is_small
    if not is_scheduled and not keeps_maps(func, plan, differ=differ):
        return None
    first, loop = _first_product(plan)
    if loop is None:
        return None
    return (first, loop if is_scheduled or differ else first)


def wgmma_dots(plan: RolePlan) -> list[WgmmaDot]:
    """The products of a plan that are computed by wgmma."""
    return [planned for planned in plan.dots.values() if isinstance(planned, WgmmaDot)]


def loads_operands_alone(plan: RolePlan) -> bool:
    """Whether TMA brings queries, keys and values, and nothing else: no gradients."""
    loads = [load for pipeline in plan.pipelines for load in pipeline.loads]
    tensors = {memref_of(load.view).result for load in loads if isinstance(load, aa.TiledLoadOp)}
    return len(tensors) <= OPERANDS and all(map(is_by_tma, loads))


def _is_attention(plan: RolePlan) -> bool:
    """Whether products by wgmma are those of attention: of queries, keys and values, with one power
    for each score and nothing that is as dear.
    """
    dots = wgmma_dots(plan)
    if len(dots) < len(plan.dots) or any(planned.rows < ROWS_PER_WARPGROUP for planned in dots):
        return False
    if not loads_operands_alone(plan):
        return False
    if not any(planned.lhs is None for planned in dots):
        return False
    powers = [_powers(block) for block in dict.fromkeys(op_block(dot.dot) for dot in dots)]
    return max(powers) == 1


def _powers(block: Block) -> int:
    """How many powers, or operations as dear, a block computes of an element of scores."""
    scores = [dot.result for dot in block.ops if isinstance(dot, aa.DotOp)]
    size = min(prod(shape_of(score)) for score in scores)
    dear = (
        op
        for op in block.ops
        if isinstance(op, ElementwiseOp) and kind_of_work(op) in (Work.SPECIAL, Work.ROUTINE)
    )
    return sum(prod(shape_of(op.results[0])) >= size for op in dear)


def _key_bytes(plan: RolePlan) -> int:
    """Bytes of a key."""
    keys = (
        shape_of(planned.dot.lhs)[-1] * planned.operand_bits
        for planned in wgmma_dots(plan)
        if planned.starts_at_zero
    )
    return max(keys, default=0) // 8


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

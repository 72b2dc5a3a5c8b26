"""A loop over two tiles at once, in two forms: the tile that both read is known to be the same, or
to be another one.

    %same = cmpi %i, %j                              %same = cmpi %i, %j
    for %k { %a = load %A[%i, %k]                    if %same { for %k { %a = load %A[%i, %k]; .. } }
             %b = load %A[%j, %k]; .. }      ->      else { for %k { %a = load %A[%i, %k]
                                                                     %b = load %A[%j, %k] {differs}; .. } }

Where it is the same its stages have room for one tile less, so there are more of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import UnitAttr, i1
from xdsl.ir import Block, OpResult, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import ComparisonPredicate
from tileiras.passes.nv_tileaa.cluster_blocks import compared
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.planning.operands.uniform import DIFFERS, differing_indices, uniform_loads_of

if TYPE_CHECKING:
    from tileiras.planning.model.kernel import RolePlan


@dataclass(frozen=True)
class CommonTile:
    """Loads of a loop over K that mostly bring the same tile, the left operand of instructions."""

    loop: aa.ForOp
    first: aa.TiledLoadOp
    second: aa.TiledLoadOp


def common_tile(plan: RolePlan) -> CommonTile | None:
    """Those of a kernel with two tiles, if whether they do is found out while it runs."""
    for second, first in uniform_loads_of(plan.pipelines).items():
        loop = second.parent_op()
        if not isinstance(second, aa.TiledLoadOp) or not isinstance(first, aa.TiledLoadOp):
            continue
        if isinstance(loop, aa.ForOp) and _is_left(second, plan):
            return CommonTile(loop, first, second)
    return None


def _is_left(load: aa.TiledLoadOp, plan: RolePlan) -> bool:
    """Whether a load brings the left operand of instructions."""
    for planned in plan.dots.values():
        left = planned.rhs if planned.transposed else planned.lhs
        if left is not None and left.load is load:
            return True
    return False


def divide(found: CommonTile) -> None:
    """Writes the loop in both forms; what has been planned for it is not good any more."""
    loop, load = found.loop, found.second
    builder = ScalarBuilder()
    builder.location = loop.location
    equal = [
        builder.emit(aa.CmpIOp, pair, [i1], compared(ComparisonPredicate.EQUAL)).results[0]
        for pair in differing_indices(found.first, load)
    ]
    same = equal[0]
    for part in equal[1:]:
        same = builder.emit(aa.AndIOp, [same, part], [i1]).results[0]
    values: dict[SSAValue, SSAValue] = {}
    common = loop.clone(values)
    copy = values[load.result]
    copy.replace_all_uses_with(values[found.first.result])
    if isinstance(copy, OpResult):
        copy.op.detach()
        copy.op.erase()
    branches = [Block([common]), Block()]
    types = [result.type for result in loop.results]
    regions = [Region(branch) for branch in branches]
    made = builder.emit(aa.IfOp, [same], types, {}, regions)
    builder.put_before(loop)
    for result, its in zip(loop.results, made.results, strict=True):
        result.replace_all_uses_with(its)
    loop.detach()
    branches[1].add_op(loop)
    load.attributes[DIFFERS] = UnitAttr()
    for branch, own in zip(branches, (common, loop), strict=True):
        end = aa.YieldOp.create(operands=list(own.results), location=loop.location)
        branch.add_op(end)

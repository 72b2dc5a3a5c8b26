"""A loop over two tiles at once, in two forms: the tile that both read is known to be the same, or
to be another one.

    %same = cmpi %i, %j                              %same = cmpi %i, %j
    for %k { %a = load %A[%i, %k]                    if %same { for %k { %a = load %A[%i, %k]; .. } }
             %b = load %A[%j, %k]; .. }      ->      else { for %k { %a = load %A[%i, %k]
                                                                     %b = load %A[%j, %k] {differs}; .. } }

Where it is the same its stages have room for one tile less, so there are more of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import UnitAttr, i1
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import ComparisonPredicate
from tileiras.dialects.nv_tileaa.nesting import enclosing
from tileiras.passes.nv_tileaa.cluster_blocks import compared
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.planning.operands.uniform import DIFFERS, differing_indices, uniform_loads_of

if TYPE_CHECKING:
    from tileiras.planning.model.kernel import RolePlan


def know_common_tile(plan: RolePlan) -> aa.FuncOp | None:
    """Divides the kernel's loop over two tiles if its products are one instruction where they read
    the same tile; the changed kernel, which is the plan's.

    None where nothing is to be found out while the kernel runs.
    """
    for load, earlier in uniform_loads_of(plan.pipelines).items():
        loop = load.parent_op()
        func = enclosing(load, aa.FuncOp)
        if not isinstance(load, aa.TiledLoadOp) or not isinstance(earlier, aa.TiledLoadOp):
            continue
        if isinstance(loop, aa.ForOp) and isinstance(func, aa.FuncOp) and _is_left(load, plan):
            _divide(loop, load, earlier)
            return func
    return None


def _is_left(load: aa.TiledLoadOp, plan: RolePlan) -> bool:
    """Whether a load brings the left operand of instructions."""
    for planned in plan.dots.values():
        left = planned.rhs if planned.transposed else planned.lhs
        if left is not None and left.load is load:
            return True
    return False


def _divide(loop: aa.ForOp, load: aa.TiledLoadOp, earlier: aa.TiledLoadOp) -> None:
    """The loop in both forms."""
    builder = ScalarBuilder()
    builder.location = loop.location
    same: SSAValue | None = None
    for one, other in differing_indices(earlier, load):
        equal = builder.emit(aa.CmpIOp, [one, other], [i1], compared(ComparisonPredicate.EQUAL))
        part = equal.results[0]
        same = part if same is None else builder.emit(aa.AndIOp, [same, part], [i1]).results[0]
    if same is None:
        return
    values: dict[SSAValue, SSAValue] = {}
    common = loop.clone(values)
    found = values[load.result]
    found.replace_all_uses_with(values[earlier.result])
    _erase(found.owner)
    types = [result.type for result in loop.results]
    regions = [Region(Block([common])), Region(Block())]
    branch = builder.emit(aa.IfOp, [same], types, {}, regions)
    builder.put_before(loop)
    for result, its in zip(loop.results, branch.results, strict=True):
        result.replace_all_uses_with(its)
    loop.detach()
    regions[1].block.add_op(loop)
    load.attributes[DIFFERS] = UnitAttr()
    for region, own in zip(regions, (common, loop), strict=True):
        end = aa.YieldOp.create(operands=list(own.results), location=loop.location)
        region.block.add_op(end)


def _erase(op: Operation | Block) -> None:
    if isinstance(op, Operation):
        op.detach()
        op.erase()

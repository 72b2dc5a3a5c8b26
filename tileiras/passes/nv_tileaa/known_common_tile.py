"""A loop over K of two tiles in two forms: the tile that both read is the same, or another one.

    for %k { %a = load %A[%i, %k]          %same = cmpi %i, %j
             %b = load %A[%j, %k]          if %same { for %k { %a = load %A[%i, %k]
             dot %a, ..; dot %b, .. }  ->                      dot %a, ..; dot %a, .. } }
                                           else { for %k { %a = load ..; dot %a, .. }
                                                  for %k { %b = load ..; dot %b, .. } }

Where it is the same no stage has room for a second one, so there are more stages, or there is room
for tiles on their way out. Where it is not the tiles are computed in turn, or as before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import UnitAttr, i1
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import ComparisonPredicate
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa.cluster_blocks import compared
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.passes.rewriting import erase_op
from tileiras.planning.operands.swap_ab import variation_rate
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
    """Those of a kernel with two tiles, if whether they do is found out while it runs.

    None where neighbours share the other operand more often.
    """
    pairs = uniform_loads_of(plan.pipelines)
    rates = {second: variation_rate(first, second) for second, first in pairs.items()}
    for second, first in pairs.items():
        loop = second.parent_op()
        if not isinstance(second, aa.TiledLoadOp) or not isinstance(first, aa.TiledLoadOp):
            continue
        is_likely = rates[second] == min(rates.values())
        if isinstance(loop, aa.ForOp) and is_likely and _is_left(second, plan):
            return CommonTile(loop, first, second)
    return None


def _is_left(load: aa.TiledLoadOp, plan: RolePlan) -> bool:
    """Whether a load brings the left operand of instructions."""
    for planned in plan.dots.values():
        left = planned.rhs if planned.transposed else planned.lhs
        if left is not None and left.load is load:
            return True
    return False


def is_looked_up(found: CommonTile) -> bool:
    """Whether memory says which tile it is: then neighbours differ where a table says so.

    What is loaded for both, as the size of an array, says nothing of the sort.
    """
    pairs = differing_indices(found.first, found.second)
    first, second = (_loads_behind([pair[number] for pair in pairs]) for number in (0, 1))
    return first.keys() != second.keys()


def _loads_behind(values: list[SSAValue]) -> dict[Operation, None]:
    """The loads that values are computed from."""
    pending, seen, loads = list(values), dict[SSAValue, None](), dict[Operation, None]()
    while pending:
        value = pending.pop()
        if value in seen or not isinstance(value, OpResult):
            continue
        seen[value] = None
        if isinstance(value.op, aa.LoadOp | aa.TiledLoadOp):
            loads[value.op] = None
        pending += value.op.operands
    return loads


def is_same_tile(builder: ScalarBuilder, found: CommonTile) -> SSAValue:
    """i1: whether both loads bring the same tile."""
    equal = [
        builder.emit(aa.CmpIOp, pair, [i1], compared(ComparisonPredicate.EQUAL)).results[0]
        for pair in differing_indices(found.first, found.second)
    ]
    same = equal[0]
    for part in equal[1:]:
        same = builder.emit(aa.AndIOp, [same, part], [i1]).results[0]
    return same


def divide(found: CommonTile, *, in_turn: bool) -> None:
    """Writes the loop in both forms; what has been planned for it is not good any more.

    `in_turn`: where the tile is another one, the tiles are computed one after the other, so that no
    stage has room for both.
    """
    loop, load = found.loop, found.second
    builder = ScalarBuilder()
    builder.location = loop.location
    same = is_same_tile(builder, found)
    values: dict[SSAValue, SSAValue] = {}
    common = loop.clone(values)
    copy = values[load.result]
    copy.replace_all_uses_with(values[found.first.result])
    if isinstance(copy, OpResult):
        erase_op(copy.op)
    branches = [Block([common]), Block()]
    types = [result.type for result in loop.results]
    regions = [Region(branch) for branch in branches]
    made = builder.emit(aa.IfOp, [same], types, {}, regions)
    builder.put_before(loop)
    for result, its in zip(loop.results, made.results, strict=True):
        result.replace_all_uses_with(its)
    loop.detach()
    apart = [_alone(loop, number) for number in range(len(types))] if in_turn else [loop]
    for branch, loops in zip(branches, ([common], apart), strict=True):
        results = [result for own in loops for result in own.results]
        branch.add_ops(op for op in loops if op.parent_block() is None)
        branch.add_op(aa.YieldOp.create(operands=results, location=loop.location))
    if in_turn:
        loop.erase()
        return
    load.attributes[DIFFERS] = UnitAttr()
    # Where there is no second tile its indices are those of the first: here there is one.
    for dot in loop.body.ops:
        if isinstance(dot, aa.DotOp) and dot.condition is not None:
            dot.operands = [dot.lhs, dot.rhs, dot.acc]


def _alone(loop: aa.ForOp, number: int) -> aa.ForOp:
    """The loop with one of the values that it hands on, and what that is made of."""
    source, end = loop.body.block, loop.body.block.last_op
    if end is None:
        raise InternalError("a loop has no end", where="tiles-per-cta")
    needed: dict[Operation, None] = {}
    pending = [end.operands[number]]
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, Operation) and owner.parent_block() is source and owner not in needed:
            needed[owner] = None
            pending += owner.operands
    result = loop.results[number].type
    body = Block(arg_types=[source.args[0].type, result])
    values: dict[SSAValue, SSAValue] = {
        source.args[0]: body.args[0],
        source.args[1 + number]: body.args[1],
    }
    body.add_ops(op.clone(values) for op in source.ops if op in needed)
    end_value = values[end.operands[number]]
    body.add_op(aa.ContinueOp.create(operands=[end_value], location=end.location))
    return aa.ForOp.create(
        operands=[loop.lower_bound, loop.upper_bound, loop.step, loop.init_values[number]],
        result_types=[result],
        properties=dict(loop.properties),
        regions=[Region(body)],
        location=loop.location,
    )

"""Tile blocks that walk through the tiles of a list of arrays, each in steps as long as the grid.

    for %g in the list iter_args(%e = 0, %t = program_id) {
      %u = %e + tiles of array %g
      %t' = loop iter_args(%i = %t) { if %i < %u {} else { break %i }
                                      pre(%i); for %k { body }; post(%i); continue %i + %step }
      continue %u, %t' }

The loop may ask for `%i >= %e`, too, which holds always. A tile block begins with the tile of its
own number, and tile `%i` is the same work for whoever does it: so neighbours may exchange tiles
(`passes/nv_tileaa/two_tiles_of_lists.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import ComparisonPredicate, Signedness
from tileiras.dialects.nv_tileaa.types import MemTokenType
from tileiras.planning.critical_sections import constant_scalar
from tileiras.planning.tile_scheduler.joinable import product_loop


@dataclass(frozen=True)
class ListWalk:
    """The loop over a list, and the loop over tiles in it."""

    groups: aa.ForOp
    tiles: aa.LoopOp
    start: aa.GetProgramIdOp
    carried: int
    """Which value that the loop over the list hands on is the number of the next tile."""
    number: int
    """Which one it is in the loop over tiles."""
    first: SSAValue
    """The first tile of an array; it begins with 0."""
    count: SSAValue
    """How many tiles an array has."""
    step: SSAValue
    body: tuple[Operation, ...]
    """What the loop over tiles does for a tile, its last operation included."""


def list_walk(func: aa.FuncOp) -> ListWalk | None:
    """The walk of a kernel through the tiles of a list, None if it has no such loops."""
    numbers = [op for op in func.walk() if isinstance(op, aa.GetProgramIdOp)]
    used = [op for op in numbers if op.result.first_use is not None]
    if len(used) != 1 or used[0].axis.value.data or len(list(used[0].result.uses)) != 1:
        return None
    [use] = used[0].result.uses
    groups, carried = use.operation, use.index - len(("lower", "upper", "step"))
    if not isinstance(groups, aa.ForOp) or groups.parent_op() is not func or carried < 0:
        return None
    tiles = _tiles(groups)
    if tiles is None or groups.results[carried].first_use is not None:
        return None
    start = groups.body.block.args[1 + carried]
    uses = list(start.uses)
    if len(uses) != 1 or uses[0].operation is not tiles:
        return None
    number = uses[0].index
    if not _is_handed_on(groups, carried, tiles.results[number]):
        return None
    return _walk_of(groups, tiles, used[0], carried, number)


def _tiles(groups: aa.ForOp) -> aa.LoopOp | None:
    """The loop over tiles, which alone has products, and hands on a number and tokens."""
    loops = [op for op in groups.walk() if isinstance(op, aa.LoopOp)]
    if len(loops) != 1 or loops[0].parent_op() is not groups:
        return None
    [tiles] = loops
    if product_loop(tiles.body.block) is None:
        return None
    tokens = [isinstance(result.type, MemTokenType) for result in tiles.results]
    return tiles if tokens.count(False) == 1 else None


def _is_handed_on(groups: aa.ForOp, carried: int, last: SSAValue) -> bool:
    """Whether a value is what the loop over a list hands on, and nobody else wants it."""
    [*uses] = last.uses
    return (
        len(uses) == 1
        and uses[0].operation is groups.body.block.last_op
        and (uses[0].index == carried)
    )


def _walk_of(
    groups: aa.ForOp, tiles: aa.LoopOp, start: aa.GetProgramIdOp, carried: int, number: int
) -> ListWalk | None:
    """The walk, if the loop over tiles asks first whether a tile is of the array."""
    block = tiles.body.block
    counter = block.args[number]
    operations = list(block.ops)
    place = next((n for n, op in enumerate(operations) if _leaves(op, tiles)), None)
    test = operations[place] if place is not None else None
    if place is None or not isinstance(test, aa.IfOp):
        return None
    bounds = _bounds(groups, test.condition, counter)
    if bounds is None:
        return None
    body = operations[place + 1 :]
    if any(isinstance(inner, aa.ReturnOp | aa.BreakOp) for op in body for inner in op.walk()):
        return None
    asking = set(operations[:place])
    if any(use.operation in body for op in asking for value in op.results for use in value.uses):
        return None
    again = body[-1]
    step = _addend(again.operands[number], counter) if isinstance(again, aa.ContinueOp) else None
    if step is None or groups.is_ancestor(step.owner) or not _is_positive(step):
        return None
    first, count = bounds
    if groups.unsigned_cmp is not None or constant_scalar(groups.step) != 1:
        return None
    return ListWalk(groups, tiles, start, carried, number, first, count, step, tuple(body))


def _leaves(op: Operation, tiles: aa.LoopOp) -> bool:
    """Whether an `if` leaves the loop with the values that an iteration began with, or does
    nothing.
    """
    if not isinstance(op, aa.IfOp) or op.results:
        return False
    ends = [region.block.first_op for region in (op.then_region, op.else_region) if region.blocks]
    match ends:
        case [aa.YieldOp(), aa.BreakOp() as leaves]:
            return tuple(leaves.operands) == tuple(tiles.body.block.args)
        case _:
            return False


def _bounds(
    groups: aa.ForOp, condition: SSAValue, counter: SSAValue
) -> tuple[SSAValue, SSAValue] | None:
    """`%e` and `%n` of `counter < %e + %n`, which may be asked only where `counter >= %e`."""
    less, first = condition, None
    both = condition.owner
    if isinstance(both, aa.IfOp):
        less, first = _less_of(both, counter) or (None, None)
        if first is None:
            return None
    end = _compared(less, ComparisonPredicate.LESS_THAN, counter) if less is not None else None
    total = end.owner if end is not None else None
    if not isinstance(total, aa.AddIOp):
        return None
    ways = (tuple(total.operands), tuple(reversed(total.operands)))
    return next(
        ((e, n) for e, n in ways if first in (None, e) and _follow_each_other(groups, e, n)), None
    )


def _less_of(both: aa.IfOp, counter: SSAValue) -> tuple[SSAValue, SSAValue] | None:
    """What is asked where a counter is not less than a value, which comes second."""
    if not both.else_region.blocks:
        return None
    ends = [region.block.last_op for region in (both.then_region, both.else_region)]
    if not all(isinstance(op, aa.YieldOp) and len(op.operands) == 1 for op in ends):
        return None
    [less, otherwise] = [op.operands[0] for op in ends if op is not None]
    first = _compared(both.condition, ComparisonPredicate.GREATER_THAN_OR_EQUAL, counter)
    return (less, first) if otherwise is both.condition and first is not None else None


def _compared(value: SSAValue, how: ComparisonPredicate, counter: SSAValue) -> SSAValue | None:
    """What a counter is compared with, with a sign."""
    op = value.owner
    if not isinstance(op, aa.CmpIOp) or op.lhs is not counter:
        return None
    is_it = op.comparison_predicate.data == how and op.signedness.data == Signedness.SIGNED
    return op.rhs if is_it else None


def _addend(total: SSAValue, value: SSAValue) -> SSAValue | None:
    """What is added to a value."""
    op = total.owner
    if not isinstance(op, aa.AddIOp) or value not in op.operands:
        return None
    lhs, rhs = op.operands
    return rhs if lhs is value else lhs


def _follow_each_other(groups: aa.ForOp, first: SSAValue, count: SSAValue) -> bool:
    """Whether an array's first tile follows the last one of the array before; the first is 0.

    Then no tile block is ever before the first tile of an array.
    """
    block = groups.body.block
    if not isinstance(first, BlockArgument) or first.block is not block or not first.index:
        return False
    end = block.last_op
    if end is None or constant_scalar(groups.init_values[first.index - 1]) != 0:
        return False
    maker = count.owner
    if isinstance(maker, Operation) and maker.parent_block() is not block:
        return False
    return _addend(end.operands[first.index - 1], first) is count


def _is_positive(step: SSAValue) -> bool:
    if isinstance(step, OpResult) and isinstance(step.op, aa.GetNumProgramsOp):
        return True
    return (constant_scalar(step) or 0) > 0

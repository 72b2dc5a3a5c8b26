"""Loops that carry the extremes of rows or columns, and maybe their places, from tile to tile.

    %p = reduce argmax %x dim 0;  %h = reduce max %x dim 0
    %better = %h > %top;  %where2 = select %better, %p + 64 * %j, %where;  %top2 = max(%top, %h)

Nobody but the loop sees what it carries, so each element of the tile may have an extreme of its
own, and the iteration that it is of. The extreme of all of them, the first iteration that has it,
and the first place there, are what the loop would have come to:

- the extreme is the same number, in whatever order numbers are compared;
- of equal ones the loop keeps the first (`>`), and the reduction the least place;
- a NaN is never the larger one, here as there, as long as the number to beat is none at first.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    TensorType,
)
from xdsl.ir import Block, Operation, OpResult, SSAValue

from tileiras.analysis.choosing_body import extreme_with_place
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonOrdering,
    ComparisonPredicate,
    Signedness,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.planning.layouts.reductions import counts_along

MOST_ELEMENTS = 16384
"""Policy: of a tile: an extreme and an iteration of each element stay in registers, 64 of each in a
thread of eight warps.
"""
_INFINITY = {
    Float16Type: 0x7C00,
    BFloat16Type: 0x7F80,
    Float32Type: 0x7F800000,
    Float64Type: 0x7FF0000000000000,
}
"""Fixed: bits of infinity, above which those of NaNs are (IEEE 754)."""
_UPDATES = (aa.MaxFOp, aa.MinFOp, aa.MaxIOp, aa.MinIOp)
_Update = aa.MaxFOp | aa.MinFOp | aa.MaxIOp | aa.MinIOp
_Comparison = aa.CmpFOp | aa.CmpIOp


@dataclass(frozen=True)
class CarriedPlace:
    """A place that a loop carries: its number, and the choice between it and that of the tile.

    `found`: the reduction that finds the place in the tile. `chain`: what is computed of that and
    of the number of the iteration, in order; its last result is what the loop would carry.
    """

    number: int
    choice: aa.SelectOp
    found: aa.ReduceOp
    chain: tuple[Operation, ...]


@dataclass(frozen=True)
class CarriedExtreme:
    """An extreme that a loop carries, and the places that go with it.

    `number` of what the loop carries; `update` combines it with the result of `reduction`, and
    `comparison` asks whether that is a new extreme, where places are wanted.
    """

    loop: aa.ForOp
    number: int
    update: _Update
    reduction: aa.ReduceOp
    comparison: _Comparison | None
    places: tuple[CarriedPlace, ...]

    @property
    def tile(self) -> SSAValue:
        """What is reduced in each iteration."""
        return self.reduction.arguments[0]

    @property
    def dim(self) -> int:
        """Along which dim."""
        return self.reduction.dim.value.data


def find_carried_extremes(loop: aa.ForOp) -> list[CarriedExtreme]:
    """The extremes that a loop carries, if all that it reduces is for them; none otherwise."""
    end = loop.body.block.last_op
    if loop.takes_over is not None or not isinstance(end, aa.ContinueOp):
        return []
    combined = [op for op in loop.body.block.ops if op.regions or isinstance(op, aa.ProductOp)]
    if not combined or not all(isinstance(op, aa.ReduceOp) for op in combined):
        return []
    found = [_extreme(loop, end, number) for number in range(len(loop.results))]
    extremes = [each for each in found if each is not None]
    used: dict[Operation, None] = {}
    for each in extremes:
        used.update(dict.fromkeys([each.reduction, *(place.found for place in each.places)]))
    total = sum(prod(shape_of(each.tile)) for each in extremes)
    return extremes if list(used) and set(used) == set(combined) and total <= MOST_ELEMENTS else []


def _extreme(loop: aa.ForOp, end: aa.ContinueOp, number: int) -> CarriedExtreme | None:
    """What is to know of a carried value; None if it is no such extreme."""
    carried, new = loop.body.block.args[number + 1], end.arguments[number]
    if not isinstance(new.owner, _UPDATES) or not isinstance(carried.type, TensorType):
        return None
    update = new.owner
    if update.parent_block() is not loop.body.block or _users(new) != [end]:
        return None
    if carried not in update.operands or update.operands[0] is update.operands[1]:
        return None
    highest = update.operands[1 if update.operands[0] is carried else 0]
    reduction = _reduction(highest, loop.body.block, number=0)
    if reduction is None or not _combines_alike(reduction, update):
        return None
    comparisons = [user for user in _users(carried) if user is not update]
    if any(user not in (update, *comparisons) for user in _users(highest)):
        return None
    if not comparisons:
        return CarriedExtreme(loop, number, update, reduction, None, ())
    [comparison, *others] = comparisons
    if others or not _is_better(comparison, highest, carried, update):
        return None
    if not _is_beaten(loop.init_values[number]) or update.properties.keys() - {"signedness"}:
        return None
    choices = _users(comparison.results[0])
    places = [_place(loop, end, choice, reduction, update) for choice in choices]
    known = tuple(place for place in places if place is not None)
    if not known or len(known) < len(places) or not isinstance(comparison, _Comparison):
        return None
    return CarriedExtreme(loop, number, update, reduction, comparison, known)


def _users(value: SSAValue) -> list[Operation]:
    return list(dict.fromkeys(use.operation for use in value.uses))


def _reduction(value: SSAValue, block: Block, number: int) -> aa.ReduceOp | None:
    """The reduction along a longer dim whose result a value is, but for its shape; nobody else
    sees it.
    """
    while isinstance(value.owner, aa.ReshapeOp):
        value = value.owner.source
        if len(_users(value)) != 1:
            return None
    if not isinstance(value, OpResult) or value.index != number:
        return None
    op = value.op
    if not isinstance(op, aa.ReduceOp) or op.parent_block() is not block:
        return None
    [tile, *_] = op.arguments
    is_long = isinstance(tile.type, TensorType) and shape_of(tile)[op.dim.value.data] > 1
    return op if is_long and isinstance(value.type, TensorType) else None


def _combines_alike(reduction: aa.ReduceOp, update: _Update) -> bool:
    """Whether a reduction of one tile combines its elements as the loop combines the results."""
    body = list(reduction.body.block.ops)
    if len(reduction.arguments) != 1 or not body or type(body[0]) is not type(update):
        return False
    both = set(body[0].operands) == set(reduction.body.block.args)
    return both and len(body) == 2 and body[0].properties == update.properties


def _is_better(op: Operation, new: SSAValue, old: SSAValue, update: _Update) -> bool:
    """Whether an operation asks if a new number is beyond the old one, and NaNs are not."""
    match op:
        case aa.CmpFOp() if isinstance(update, aa.MaxFOp | aa.MinFOp):
            if op.comparison_ordering.data is not ComparisonOrdering.ORDERED:
                return False
        case aa.CmpIOp() if isinstance(update, aa.MaxIOp | aa.MinIOp):
            if op.signedness != update.signedness:
                return False
        case _:
            return False
    is_largest = isinstance(update, aa.MaxFOp | aa.MaxIOp)
    if (op.lhs, op.rhs) == (old, new):
        is_largest = not is_largest
    elif (op.lhs, op.rhs) != (new, old):
        return False
    asked = ComparisonPredicate.GREATER_THAN if is_largest else ComparisonPredicate.LESS_THAN
    return op.comparison_predicate.data is asked


def _is_beaten(start: SSAValue) -> bool:
    """Whether a tile is a constant that is the same everywhere, and no NaN."""
    if not isinstance(start.owner, aa.ConstantOp):
        return False
    constant = start.owner.value
    if not isinstance(constant, DenseAttr) or not constant.is_splat:
        return False
    element, bits = element_of(start), int.from_bytes(constant.raw.data, "little")
    if isinstance(element, IntegerType):
        return True
    infinity = _INFINITY.get(type(element))
    return infinity is not None and bits & ((1 << 8 * len(constant.raw.data) - 1) - 1) <= infinity


def _place(
    loop: aa.ForOp, end: aa.ContinueOp, choice: Operation, reduction: aa.ReduceOp, update: _Update
) -> CarriedPlace | None:
    """A place that is chosen where the extreme is new; None if it is none, or used otherwise."""
    block = loop.body.block
    if not isinstance(choice, aa.SelectOp) or choice.end_of_rows is not None:
        return None
    here, before = choice.operands[1:]
    if not isinstance(before.owner, Block) or before.owner is not block or before is here:
        return None
    number = block.args.index(before) - 1
    if number < 0 or end.arguments[number] is not choice.result:
        return None
    if _users(choice.result) != [end] or _users(before) != [choice]:
        return None
    chain = _chain(here, block, choice)
    found = [op for op in chain or () if isinstance(op, aa.ReduceOp)]
    if chain is None or len(found) != 1:
        return None
    [finds] = found
    if not _finds_place(finds, reduction, update):
        return None
    rest = tuple(op for op in chain if op is not finds)
    is_known = _follows(finds, rest, choice)
    return CarriedPlace(number, choice, finds, rest) if is_known else None


def _finds_place(finds: aa.ReduceOp, reduction: aa.ReduceOp, update: _Update) -> bool:
    """Whether a reduction finds the places of what the other one finds, and no more is wanted."""
    if len(finds.arguments) != 2 or finds.dim != reduction.dim or finds.results[0].first_use:
        return False
    if finds.arguments[0] is not reduction.arguments[0]:
        return False
    word = "max" if isinstance(update, aa.MaxFOp | aa.MaxIOp) else "min"
    kind = f"{word}num"
    if isinstance(update, aa.MaxIOp | aa.MinIOp):
        kind = f"{'u' if update.signedness.data is Signedness.UNSIGNED else 's'}{word}"
    is_counted = counts_along(finds.arguments[1], finds.dim.value.data)
    return is_counted and extreme_with_place(finds.body.block) == kind


def _chain(here: SSAValue, block: Block, choice: Operation) -> list[Operation] | None:
    """The operations of a body that make a value of places and of the number of the iteration, in
    order; None if there are others.
    """
    needed: dict[Operation, None] = {}
    pending = [here]
    while pending:
        value = pending.pop()
        if value is block.args[0] or _is_outside(value, block):
            continue
        op = value.owner
        if isinstance(op, Block):
            return None
        needed[op] = None
        if isinstance(op, aa.ReduceOp):
            continue
        if not isinstance(op, ElementwiseOp | aa.ReshapeOp | aa.SplatOp | aa.ConstantOp):
            return None
        pending += op.operands
    return [op for op in block.ops if op in needed]


def _is_outside(value: SSAValue, block: Block) -> bool:
    """Whether a value is made before the loop."""
    owner = value.owner
    home = owner if isinstance(owner, Block) else owner.parent_block()
    return home is not block


def _follows(finds: aa.ReduceOp, chain: tuple[Operation, ...], choice: Operation) -> bool:
    """Whether a chain may be computed of all places at once, each with its own iteration, and
    nobody else wants what it makes of them.

    Scalars become tiles then, of the shape of the splat that made a tile of them.
    """
    count = prod(shape_of(finds.results[1]))
    of_places = {finds.results[1]: None}
    for op in chain:
        tiles = [value for value in op.results if isinstance(value.type, TensorType)]
        if any(prod(shape_of(value)) != count for value in tiles):
            return False
        if any(operand in of_places for operand in op.operands):
            of_places.update(dict.fromkeys(op.results))
    return all(user in (*chain, choice) for value in of_places for user in _users(value))

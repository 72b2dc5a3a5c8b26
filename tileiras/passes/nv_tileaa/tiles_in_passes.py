"""Two tiles in one pass, or in two: the loop over K and what follows it, compiled once.

    for %k { %a = load %A[%i, %k]     %same = cmpi %i, %j
             %b = load %A[%j, %k]     for %p in [0, %same ? 1 : 2) iter_args(%t = %i) {
             dot %a, ..; dot %b, .. }   for %k { %a = load %A[%t, %k]
    for each tile { post }        ->             dot %a, ..; dot %a, .. if %same }
                                        for the tile of %t, with %same for each { post }
                                        continue %j }

Where the tile that both mostly read turns out to be another one for each, the first pass computes
the first tile and the second pass the second one. It is for loops whose rows are gathered: of
others consumers would fill the first stages before their loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import UnitAttr, i1, i32
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa.known_common_tile import CommonTile, is_same_tile
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.planning.operands.tma_stores import EACH_TILE

BOTH = 2
"""Fixed: the tiles that are computed at once."""


@dataclass
class _Operands:
    """What the product of the second tile reads in place of what the first one's does.

    `differing` has the operands of operations of the loop, by operation and number, that are made
    before the loop: the first tile's and the second's.
    """

    block: Block
    differing: dict[tuple[Operation, int], tuple[SSAValue, SSAValue]] = field(
        default_factory=dict[tuple[Operation, int], tuple[SSAValue, SSAValue]]
    )
    seen: set[tuple[SSAValue, SSAValue]] = field(default_factory=set[tuple[SSAValue, SSAValue]])

    def compare(self, first: Operation, second: Operation) -> bool:
        """Whether two operations of the loop do the same with other operands; notes which."""
        if type(first) is not type(second) or len(first.operands) != len(second.operands):
            return False
        pairs = zip(first.operands, second.operands, strict=True)
        return all(self._compare(first, n, *pair) for n, pair in enumerate(pairs))

    def _compare(self, op: Operation, number: int, one: SSAValue, other: SSAValue) -> bool:
        if one is other:
            return True
        other = _unguarded(other)
        if self._is_outside(one) and self._is_outside(other):
            self.differing[op, number] = (one, other)
            return one.type == other.type and not isinstance(one.owner, aa.BlockTileOp)
        if (one, other) in self.seen:
            return True
        self.seen.add((one, other))
        if not isinstance(one, OpResult) or not isinstance(other, OpResult):
            return False
        return one.index == other.index and self.compare(one.op, other.op)

    def _is_outside(self, value: SSAValue) -> bool:
        owner = value.owner
        return (owner.parent_block() if isinstance(owner, Operation) else owner) is not self.block


def _unguarded(value: SSAValue) -> SSAValue:
    """A mask without the condition that there is a second tile."""
    if not isinstance(value, OpResult) or not isinstance(value.op, aa.AndIOp):
        return value
    mask, spread = value.op.operands
    maker = spread.owner
    is_spread = isinstance(maker, aa.SplatOp) and maker.parent_block() is value.op.parent_block()
    return mask if is_spread else value


def run_in_passes(found: CommonTile) -> bool:
    """Writes the loops so; False, with nothing changed, where tiles are computed differently."""
    loop, block = found.loop, found.loop.body.block
    dots = [op for op in block.ops if isinstance(op, aa.DotOp)]
    each = next((use.operation for use in loop.results[0].uses), None)
    condition = dots[1].condition if len(dots) == BOTH else None
    if condition is None or not isinstance(each, aa.ForOp):
        return False
    users = [use.operation for result in loop.results for use in result.uses]
    if EACH_TILE not in each.attributes or not all(map(each.is_ancestor, users)):
        return False
    first, second = dots
    operands = _Operands(block)
    for one, other in ((first.lhs, second.lhs), (first.rhs, second.rhs)):
        if one is other:
            continue
        if not isinstance(one, OpResult) or not isinstance(other, OpResult):
            return False
        if not operands.compare(one.op, other.op):
            return False
    _Passes(found, condition, each).write(operands)
    return True


class _Passes:
    """Writes the loop around a loop over K, and around `each`, which goes on with its sums."""

    def __init__(self, found: CommonTile, both: SSAValue, each: aa.ForOp):
        self.found = found
        self.both = both
        self.each = each
        self.builder = ScalarBuilder()
        self.builder.location = found.loop.location
        self.around = Block(arg_types=[i32])
        self.handed: dict[tuple[SSAValue, SSAValue], SSAValue] = {}
        """What the first pass gets of the first tile and the next one of the second."""

    def write(self, operands: _Operands) -> None:
        """Puts it in place of both loops; without a second tile `same` holds."""
        builder, loop, each, around = self.builder, self.found.loop, self.each, self.around
        same = is_same_tile(builder, self.found)
        at_once = builder.emit(aa.AndIOp, [self.both, same], [i1]).results[0]
        zero, one, two = (builder.integer(number, i32) for number in (0, 1, BOTH))
        passes, count = (
            builder.emit(aa.SelectOp, chosen, [i32]).results[0]
            for chosen in ([same, one, two], [at_once, two, one])
        )
        own = {place: self._of_pass(*pair) for place, pair in operands.differing.items()}
        starts = [zero, count, one, *self._starts()]
        around.add_op(copied := self._copied(own, at_once))
        ends = [other for _, other in self.handed]
        around.add_op(end := aa.ContinueOp.create(operands=ends, location=loop.location))
        operands_of_loop = [zero, passes, one, *(first for first, _ in self.handed)]
        types = [first.type for first, _ in self.handed]
        properties = {"no_unroll": UnitAttr()}
        made = builder.emit(aa.ForOp, operands_of_loop, types, properties, [Region(around)])
        made.attributes[EACH_TILE] = UnitAttr()
        builder.put_before(each)
        each.detach()
        around.insert_op_before(each, end)
        each.operands = starts
        for result, its in zip(loop.results, copied.results, strict=True):
            result.replace_all_uses_with(its)
        loop.detach()
        loop.erase()

    def _starts(self) -> list[SSAValue]:
        """What goes into `each`: sums, and of the tile that they are of what it needs."""
        end = self.each.body.block.last_op
        if end is None:
            raise InternalError("a loop has no end", where="tiles-per-cta")
        return [
            one if one in self.found.loop.results else self._of_pass(one, other)
            for one, other in zip(self.each.init_values, end.operands, strict=True)
        ]

    def _of_pass(self, first: SSAValue, second: SSAValue) -> SSAValue:
        """Of a value of the first tile and one of the second that of the tile of the pass."""
        if (first, second) not in self.handed:
            argument = self.around.insert_arg(first.type, len(self.around.args))
            self.handed[first, second] = argument
        return self.handed[first, second]

    def _copied(self, own: dict[tuple[Operation, int], SSAValue], at_once: SSAValue) -> aa.ForOp:
        """The loop over K: the common tile comes once, and the second product is done `at_once`."""
        loop, values = self.found.loop, dict[SSAValue, SSAValue]()
        copy = loop.clone(values)
        pairs = dict(zip(loop.body.block.ops, copy.body.block.ops, strict=True))
        for (op, number), value in own.items():
            pairs[op].operands[number] = value
        for op in copy.body.block.ops:
            for number, operand in enumerate(op.operands):
                if operand is self.both:
                    op.operands[number] = at_once
        common = pairs[self.found.second]
        common.results[0].replace_all_uses_with(pairs[self.found.first].results[0])
        common.detach()
        common.erase()
        return copy

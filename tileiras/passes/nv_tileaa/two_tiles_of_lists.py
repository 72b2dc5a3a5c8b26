"""Neighbouring tile blocks that walk through a list of arrays exchange tiles, to do two at once.

    tile block %p:  for %g { while %t is a tile of %g { tile(%t); %t += %s } }

Tile blocks 2q and 2q + 1 have tiles a(j) = 2q + j * %s and b(j) = a(j) + 1. The first one of them
does a(j) and b(j) at once where j is even, the second one where it is odd:

    %a = first of its own a(j);  %b = %a + 1
    for %g { while %a or %b is a tile of %g {
               if both are { pre(%a); pre(%b); for %k { body of %a; body of %b }; post; post }
               else { tile(whichever is one) }
               those that were go on by 2 * %s } }

If no a(j + 1) follows an even j, each tile block does one of a(j) and b(j): the first one leaves
b(j), and the second one takes it, behind its own tiles of that array. How many tiles the list has
nobody knows before the last array. So it is estimated, by both from the same numbers: arrays behind
this one are taken to be as large. A tile block without a neighbour has its own
tiles, as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import i1, i32
from xdsl.ir import Block, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import ComparisonPredicate
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa.two_tiles_of_loop import TwoTilesOfLoop
from tileiras.passes.rewriting import replace_op_by
from tileiras.planning.tile_scheduler.joinable import TILES
from tileiras.planning.tile_scheduler.list_walk import ListWalk

_FAR = (1 << 31) - 1
"""Fixed: what no number of a tile is."""


@dataclass(frozen=True)
class _Numbers:
    """What a tile block knows of itself: its first two tiles, how it goes on, who it is."""

    first: SSAValue
    second: SSAValue
    step: SSAValue
    none: SSAValue
    """What is the number of no tile."""
    leaves: SSAValue
    """i1: whether it is the first one of two neighbours, which may leave a last tile."""
    takes: SSAValue
    """i1: whether it is the second one."""


@dataclass(frozen=True)
class _Turn:
    """An iteration: whether there are tiles, which, and which numbers have been passed."""

    exists: SSAValue
    both: SSAValue
    one: SSAValue
    has_first: SSAValue
    has_second: SSAValue
    taken: SSAValue
    """The tile that the neighbour has left last."""


class TwoTilesOfLists(TwoTilesOfLoop):
    """Rewrites the loops of a walk."""

    def __init__(self, walk: ListWalk):
        super().__init__(_as_for(walk))
        self.walk = walk

    def join(self) -> bool:
        """Does so; False where the loops over K of two tiles differ."""
        walk, builder = self.walk, self.builder
        groups, tiles = walk.groups, walk.tiles
        builder.location = groups.location
        numbers = self._numbers()
        builder.put_before(groups)
        source = groups.body.block
        more = [source.insert_arg(i32, len(source.args)) for _ in range(2)]
        builder.location = tiles.location
        builder.block = Block()
        end = self._expected_end()
        builder.put_before(tiles)
        body = self._iterations(numbers, end)
        if body is None:
            return False
        made = aa.LoopOp.create(
            operands=[*tiles.init_values, *more],
            result_types=[*(result.type for result in tiles.results), *(arg.type for arg in more)],
            properties=dict(tiles.properties),
            regions=[Region(body)],
            location=tiles.location,
        )
        replace_op_by(tiles, made)
        end = source.last_op
        if end is None:
            raise InternalError("a loop has no end", where="tiles-per-cta")
        end.operands = [*end.operands, *made.results[-len(more) :]]
        self._rebuild_groups(numbers)
        self.loop.erase()
        return True

    def _numbers(self) -> _Numbers:
        """The tiles of two neighbours, from this one's number."""
        builder, walk = self.builder, self.walk
        mine = walk.start.result
        odd = builder.emit(aa.AndIOp, [mine, builder.integer(1, i32)], [i32]).results[0]
        even = builder.binary(aa.SubIOp, mine, odd)
        partner = builder.binary(aa.AddIOp, even, builder.integer(1, i32))
        total = builder.place(aa.GetNumProgramsOp, 0)
        has_partner = self._compare(ComparisonPredicate.LESS_THAN, partner, total)
        is_odd = self._compare(ComparisonPredicate.EQUAL, odd, builder.integer(1, i32))
        is_even = self._compare(ComparisonPredicate.LESS_THAN, odd, builder.integer(1, i32))
        ahead = builder.binary(aa.MulIOp, odd, walk.step)
        pair = builder.binary(aa.AddIOp, even, ahead)
        after = builder.binary(aa.AddIOp, pair, builder.integer(1, i32))
        twice = builder.scaled(walk.step, TILES)
        none = builder.integer(_FAR, i32)
        return _Numbers(
            self._select(has_partner, pair, mine),
            self._select(has_partner, after, none),
            self._select(has_partner, twice, walk.step),
            none,
            self._and(has_partner, is_even),
            self._and(has_partner, is_odd),
        )

    def _expected_end(self) -> SSAValue:
        """The end of the list's tiles, if all arrays behind this one are as large."""
        builder, walk = self.builder, self.walk
        number, groups = walk.groups.body.block.args[0], walk.groups
        arrays = builder.binary(aa.SubIOp, groups.upper_bound, number)
        count = builder.binary(aa.MulIOp, walk.count, arrays)
        return builder.binary(aa.AddIOp, walk.first, count)

    def _iterations(self, numbers: _Numbers, expected: SSAValue) -> Block | None:
        """The body of the loop over tiles."""
        walk, builder = self.walk, self.builder
        types = [arg.type for arg in walk.tiles.body.block.args]
        builder.block = body = Block(arg_types=[*types, i32, i32])
        own, second, taken = body.args[: len(types)], *body.args[len(types) :]
        tokens = [arg for n, arg in enumerate(own) if n != walk.number]
        first = own[walk.number]
        turn = self._turn(numbers, expected, first, second, taken)
        stay, leave = Block(), Block()
        stay.add_op(aa.YieldOp.create(location=builder.location))
        leave.add_op(aa.BreakOp.create(operands=body.args, location=builder.location))
        builder.emit(aa.IfOp, [turn.exists], (), {}, [Region(stay), Region(leave)])
        branches = [
            self._two_tiles([first, second], tokens),
            self._one_tile(turn.one, tokens),
        ]
        if branches[0] is None:
            return None
        regions = [region for region in branches if region is not None]
        made = builder.emit(aa.IfOp, [turn.both], [t.type for t in tokens], {}, regions)
        handed: list[SSAValue] = list(made.results)
        handed.insert(walk.number, self._go_on(first, turn.has_first, numbers))
        handed += [self._go_on(second, turn.has_second, numbers), turn.taken]
        builder.emit(aa.ContinueOp, handed)
        return body

    def _turn(
        self,
        numbers: _Numbers,
        expected: SSAValue,
        first: SSAValue,
        second: SSAValue,
        taken: SSAValue,
    ) -> _Turn:
        """Which of two tiles belong to an array, and whether the second one is left or taken."""
        builder, walk = self.builder, self.walk
        end = builder.binary(aa.AddIOp, walk.first, walk.count)
        has_first, has_second = (self._is_in(number, end) for number in (first, second))
        left = self._and(self._is_last(second, expected), numbers.leaves)
        keeps = self._and(has_second, self._not(left))
        behind = builder.binary(aa.SubIOp, second, walk.step)
        is_left = self._and(self._is_in(behind, end), self._is_last(behind, expected))
        is_new = self._compare(ComparisonPredicate.NOT_EQUAL, behind, taken)
        is_free = self._and(self._not(self._or(has_first, has_second)), numbers.takes)
        takes = self._and(self._and(is_left, is_new), is_free)
        alone = self._select(keeps, second, behind)
        return _Turn(
            self._or(self._or(has_first, keeps), takes),
            self._and(has_first, keeps),
            self._select(has_first, first, alone),
            has_first,
            has_second,
            self._select(takes, behind, taken),
        )

    def _is_last(self, number: SSAValue, expected: SSAValue) -> SSAValue:
        """Whether the neighbours are expected to have no tiles behind a second one."""
        following = self.builder.binary(aa.AddIOp, number, self.walk.step)
        return self._compare(ComparisonPredicate.GREATER_THAN, following, expected)

    def _is_in(self, number: SSAValue, end: SSAValue) -> SSAValue:
        """Whether a tile belongs to the array."""
        is_begun = self._compare(ComparisonPredicate.GREATER_THAN_OR_EQUAL, number, self.walk.first)
        return self._and(is_begun, self._compare(ComparisonPredicate.LESS_THAN, number, end))

    def _go_on(self, number: SSAValue, is_done: SSAValue, numbers: _Numbers) -> SSAValue:
        return self._select(is_done, self.builder.binary(aa.AddIOp, number, numbers.step), number)

    def _rebuild_groups(self, numbers: _Numbers) -> None:
        """The loop over the list hands on two numbers."""
        groups, carried = self.walk.groups, self.walk.carried
        inits = list(groups.init_values)
        inits[carried] = numbers.first
        inits += [numbers.second, numbers.none]
        body = groups.body.block
        groups.body.detach_block(body)
        made = aa.ForOp.create(
            operands=[groups.lower_bound, groups.upper_bound, groups.step, *inits],
            result_types=[value.type for value in inits],
            properties=dict(groups.properties),
            regions=[Region(body)],
            location=groups.location,
        )
        replace_op_by(groups, made)

    # arithmetic

    def _and(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.builder.emit(aa.AndIOp, [lhs, rhs], [i1]).results[0]

    def _or(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.builder.emit(aa.OrIOp, [lhs, rhs], [i1]).results[0]

    def _not(self, value: SSAValue) -> SSAValue:
        true = self.builder.integer(1, i1)
        return self.builder.emit(aa.XOrIOp, [value, true], [i1]).results[0]

    def _select(self, condition: SSAValue, yes: SSAValue, no: SSAValue) -> SSAValue:
        return self.builder.emit(aa.SelectOp, [condition, yes, no], [yes.type]).results[0]


def _as_for(walk: ListWalk) -> aa.ForOp:
    """What the loop over tiles does for a tile, as the body of a `for` that stands nowhere."""
    source = walk.tiles.body.block
    tokens = [arg for n, arg in enumerate(source.args) if n != walk.number]
    block = Block(arg_types=[i32, *(token.type for token in tokens)])
    values: dict[SSAValue, SSAValue] = dict(
        zip([source.args[walk.number], *tokens], block.args, strict=True)
    )
    for op in walk.body[:-1]:
        block.add_op(op.clone(values))
    end = [values.get(v, v) for n, v in enumerate(walk.body[-1].operands) if n != walk.number]
    block.add_op(aa.ContinueOp.create(operands=end, location=walk.body[-1].location))
    bounds: Sequence[SSAValue] = [walk.start.result, walk.step, walk.step]
    inits = [v for n, v in enumerate(walk.tiles.init_values) if n != walk.number]
    return aa.ForOp.create(
        operands=[*bounds, *inits],
        result_types=[token.type for token in tokens],
        regions=[Region(block)],
        location=walk.tiles.location,
    )

"""Tile blocks that divide all tiles of the grid, two at once while there are enough of them.

    for %t in [%p, %n) step %s {            for %t in [2 * %p, %whole) step 2 * %s {
      pre(%t); for %k { body }; post(%t)      pre(%t); pre(%t + 1)
    }                                  ->     for %k { body of %t; body of %t + 1 }
                                              post(%t); post(%t + 1)
                                            }
                                            %t = %whole + %p
                                            pre(%t); for %k { body }; post(%t)

The loop stores while the next tiles are loaded. What is left, no more than a tile for each tile
block, comes behind it: of a grid that does not fill the GPU that is all, and nothing is done for
it but what a kernel of one tile a block does.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import i1, i32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import Pure

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    RoundingMode,
    RoundingModeAttr,
)
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa.two_tiles_of_loop import TwoTilesOfLoop
from tileiras.passes.rewriting import erase_op
from tileiras.planning.tile_scheduler.guards import guard_of, made_from
from tileiras.planning.tile_scheduler.joinable import TILES, product_loop


@dataclass
class _Single:
    """A last tile: its loop over K, which ends at `upper`, and what comes before and after."""

    products: aa.ForOp
    exists: SSAValue
    values: dict[SSAValue, SSAValue]
    before: list[Operation]
    after: list[Operation]
    upper: SSAValue | None = None


class TwoTilesInRounds(TwoTilesOfLoop):
    """Rewrites the loop of a static tile scheduler, whose iterations hand nothing on."""

    def join(self) -> bool:
        """Does so; False where the loops over K of two tiles differ."""
        loop, builder = self.loop, self.builder
        builder.location = loop.location
        block, total, blocks = loop.lower_bound, loop.upper_bound, loop.step
        first, size = builder.scaled(block, TILES), builder.scaled(blocks, TILES)
        whole = self._whole(total, blocks, size)
        last = builder.binary(aa.AddIOp, whole, block)
        self._leave_unless(first, whole, last, total)
        single = self._start_single(last)
        pairs = self._rounds()
        if pairs is None:
            return False
        builder.emit(aa.ForOp, [first, whole, size], (), loop.properties, [Region(pairs)])
        self._end_single(single)
        builder.put_before(loop)
        erase_op(loop)
        return True

    def _whole(self, total: SSAValue, blocks: SSAValue, size: SSAValue) -> SSAValue:
        """The number of tiles that rounds of two for each tile block take."""
        builder = self.builder
        down = {"rounding": RoundingModeAttr(RoundingMode.ZERO), "signedness": self.sign}
        rounds = builder.emit(aa.DivIOp, [total, size], [i32], down).results[0]
        whole = builder.binary(aa.MulIOp, rounds, size)
        rest = builder.binary(aa.SubIOp, total, whole)
        is_more = self._compare(ComparisonPredicate.GREATER_THAN, rest, blocks)
        return builder.emit(aa.SelectOp, [is_more, total, whole], [i32]).results[0]

    def _leave_unless(
        self, first: SSAValue, whole: SSAValue, last: SSAValue, total: SSAValue
    ) -> None:
        """Ends the tile blocks that have neither two tiles nor one."""
        no_pair = self._compare(ComparisonPredicate.GREATER_THAN_OR_EQUAL, first, whole)
        no_single = self._compare(ComparisonPredicate.GREATER_THAN_OR_EQUAL, last, total)
        leaves = self.builder.emit(aa.AndIOp, [no_pair, no_single], [i1]).results[0]
        then = Block([aa.ReturnOp.create(location=self.builder.location)])
        self.builder.only_if(leaves, then)

    def _rounds(self) -> Block | None:
        """What is done for two neighbouring tiles; without the second one the first one twice."""
        outer = self.builder.block
        self.builder.block = body = Block(arg_types=[i32])
        number = body.args[0]
        following = self.builder.binary(aa.AddIOp, number, self.builder.integer(1, i32))
        both = self._compare(ComparisonPredicate.LESS_THAN, following, self.loop.upper_bound)
        second = self.builder.emit(aa.SelectOp, [both, following, number], [i32]).results[0]
        numbers = self._those_that_exist([number, second])
        region = self._two_tiles(numbers, ()) if numbers is not None else None
        self.builder.block = outer
        if region is None:
            return None
        for op in list(region.block.ops):
            op.detach()
            body.add_op(op)
        self._end_iteration(body)
        return body

    def _those_that_exist(self, numbers: list[SSAValue]) -> list[SSAValue] | None:
        """The numbers of two tiles; of one twice if the guard of the other does not hold.

        The guard is then that of either. None if it is not made by arithmetic.
        """
        products = product_loop(self.loop.body.block)
        guard = guard_of(products) if products is not None else None
        if guard is None:
            return numbers
        makers = made_from(guard)
        if makers is None:
            return None
        builder, argument = self.builder, self.loop.body.block.args[0]
        exists: list[SSAValue] = []
        for number in numbers:
            values: dict[SSAValue, SSAValue] = {argument: number}
            for op in makers:
                builder.block.add_op(op.clone(values))
            exists.append(values[guard])
        either = builder.emit(aa.OrIOp, exists, [i1]).results[0]
        for values in self.values:
            values[guard] = either
        choices = ([exists[0], *numbers], [exists[1], *reversed(numbers)])
        return [builder.emit(aa.SelectOp, choice, [i32]).results[0] for choice in choices]

    def _end_iteration(self, body: Block) -> None:
        """An iteration ends where a branch of two tiles would."""
        end = body.last_op
        if not isinstance(end, aa.YieldOp):
            raise InternalError("an iteration has no end", where="tiles-per-cta")
        body.erase_op(end)
        body.add_op(aa.ContinueOp.create(location=self.loop.location))

    def _start_single(self, last: SSAValue) -> _Single:
        """What a last tile is, and whether there is one: all that is known before the rounds.

        Without one nothing is multiplied, and none is stored. It stands in no branch, so that
        consumers may fetch its first operands early, and use what the stages leave free.
        """
        builder, loop = self.builder, self.loop
        products = product_loop(loop.body.block)
        if products is None:
            raise InternalError("a tile has no products", where="tiles-per-cta")
        exists = self._compare(ComparisonPredicate.LESS_THAN, last, loop.upper_bound)
        number = builder.emit(aa.SelectOp, [exists, last, loop.lower_bound], [i32]).results[0]
        values: dict[SSAValue, SSAValue] = {loop.body.block.args[0]: number}
        operations = list(loop.body.block.ops)[:-1]
        place = operations.index(products)
        before = operations[:place]
        single = _Single(products, exists, values, before, operations[place + 1 :])
        while before and before[0].has_trait(Pure) and not before[0].regions:
            builder.block.add_op(before.pop(0).clone(values))
        if not before:
            self._bound(single)
        return single

    def _bound(self, single: _Single) -> None:
        """Where the loop over K ends: at once, if there is no tile."""
        lower, upper = (
            single.values.get(bound, bound)
            for bound in (single.products.lower_bound, single.products.upper_bound)
        )
        operands = [single.exists, upper, lower]
        single.upper = self.builder.emit(aa.SelectOp, operands, [upper.type]).results[0]

    def _end_single(self, single: _Single) -> None:
        """What is left to do for it."""
        builder, values = self.builder, single.values
        for op in single.before:
            builder.block.add_op(op.clone(values))
        if single.upper is None:
            self._bound(single)
        products = single.products.clone(values)
        if single.upper is not None:
            products.operands[1] = single.upper
        builder.block.add_op(products)
        then = Block()
        for op in single.after:
            then.add_op(op.clone(values))
        builder.only_if(single.exists, then)

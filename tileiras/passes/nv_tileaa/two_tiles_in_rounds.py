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

from xdsl.dialects.builtin import i1, i32
from xdsl.ir import Block, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    RoundingMode,
    RoundingModeAttr,
)
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa.two_tiles import TILES, product_loop
from tileiras.passes.nv_tileaa.two_tiles_of_loop import TwoTilesOfLoop


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
        pairs = self._rounds()
        if pairs is None:
            return False
        builder.emit(aa.ForOp, [first, whole, size], (), loop.properties, [Region(pairs)])
        self._single(last)
        builder.put_before(loop)
        loop.detach()
        loop.erase()
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
        region = self._two_tiles([number, second], ())
        self.builder.block = outer
        if region is None:
            return None
        for op in list(region.block.ops):
            op.detach()
            body.add_op(op)
        self._end_iteration(body)
        return body

    def _end_iteration(self, body: Block) -> None:
        """An iteration ends where a branch of two tiles would."""
        end = body.last_op
        if not isinstance(end, aa.YieldOp):
            raise InternalError("an iteration has no end", where="tiles-per-cta")
        body.erase_op(end)
        body.add_op(aa.ContinueOp.create(location=self.loop.location))

    def _single(self, last: SSAValue) -> None:
        """What is done for the last tile: without one nothing is multiplied, and none is stored.

        It stands in no branch, so that consumers may fetch its first operands early, and use what
        the stages leave free.
        """
        builder, loop = self.builder, self.loop
        source, products = loop.body.block, product_loop(loop.body.block)
        if products is None:
            raise InternalError("a tile has no products", where="tiles-per-cta")
        exists = self._compare(ComparisonPredicate.LESS_THAN, last, loop.upper_bound)
        number = builder.emit(aa.SelectOp, [exists, last, loop.lower_bound], [i32]).results[0]
        values: dict[SSAValue, SSAValue] = {source.args[0]: number}
        operations = list(source.ops)[:-1]
        place = operations.index(products)
        for op in operations[:place]:
            builder.block.add_op(op.clone(values))
        bounds = [
            values.get(bound, bound) for bound in (products.lower_bound, products.upper_bound)
        ]
        upper = builder.emit(aa.SelectOp, [exists, *reversed(bounds)], [bounds[1].type]).results[0]
        multiplied = products.clone(values)
        multiplied.operands[1] = upper
        builder.block.add_op(multiplied)
        then = Block()
        for op in operations[place + 1 :]:
            then.add_op(op.clone(values))
        builder.only_if(exists, then)

"""Rewrites a loop over tiles so that two of them are computed at once (`tiles_per_cta`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    RoundingMode,
    RoundingModeAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.nv_tileaa.types import MEM_TOKEN
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa.two_tiles import TwoTiles
from tileiras.planning.tile_scheduler.joinable import TILES, product_loop


@dataclass(frozen=True)
class _Rounds:
    """How tile blocks go through the tiles: two each in every round; in the last one, if there are
    no more tiles than tile blocks, one each.

    `last` is the first tile of the last round, `alone` (i1) whether each has one tile of it, and
    `single` which.
    """

    last: SSAValue
    alone: SSAValue
    single: SSAValue


class TwoTilesOfLoop(TwoTiles):
    """Rewrites a loop over tiles for two of them at once."""

    def __init__(self, loop: aa.ForOp):
        is_signed = loop.unsigned_cmp is None
        super().__init__(SignednessAttr(Signedness.SIGNED if is_signed else Signedness.UNSIGNED))
        self.loop = loop

    def join(self) -> bool:
        """Does so; False where the loops over K of two tiles differ."""
        loop, source = self.loop, self.loop.body.block
        builder = self.builder
        builder.location = loop.location
        rounds = self._divide()
        builder.put_before(loop)
        builder.block = body = Block(arg_types=[arg.type for arg in source.args])
        number = body.args[0]
        ends = self._compare(ComparisonPredicate.GREATER_THAN_OR_EQUAL, number, rounds.last)
        is_single = builder.emit(aa.AndIOp, [ends, rounds.alone], [i1]).results[0]
        operands = [is_single, rounds.single, number]
        first = builder.emit(aa.SelectOp, operands, [number.type]).results[0]
        second = builder.binary(aa.AddIOp, number, self._integer(1))
        # With one tile the second is the next block's, which is there, too, but for the last one.
        limit = builder.emit(
            aa.SelectOp, [is_single, number, self.loop.upper_bound], [number.type]
        ).results[0]
        both = self._compare(ComparisonPredicate.LESS_THAN, second, limit)
        tokens = list(body.args[1:])
        branches = [self._two_tiles([number, second], tokens), self._one_tile(first, tokens)]
        if branches[0] is None:
            return False
        types = [token.type for token in tokens]
        branch = builder.emit(aa.IfOp, [both], types, {}, [r for r in branches if r is not None])
        builder.emit(aa.ContinueOp, branch.results)
        loop.operands[0], loop.operands[1], loop.operands[2] = self._bounds
        loop.body.detach_block(source)
        source.erase()
        loop.body.add_block(body)
        return True

    def _integer(self, value: int) -> SSAValue:
        """A constant of the type of tile numbers."""
        type = self.loop.lower_bound.type
        if not isinstance(type, IntegerType):
            raise InternalError("a loop does not count in integers", where="tiles-per-cta")
        return self.builder.integer(value, type)

    def _divide(self) -> _Rounds:
        """Who does what, and the new bounds of the loop: in the last round some have nothing."""
        builder, loop = self.builder, self.loop
        block, total, blocks = loop.lower_bound, loop.upper_bound, loop.step
        type, less = total.type, ComparisonPredicate.LESS_THAN
        pair, size = builder.scaled(block, TILES), builder.scaled(blocks, TILES)
        down = {"rounding": RoundingModeAttr(RoundingMode.ZERO), "signedness": self.sign}
        whole = builder.emit(aa.DivIOp, [total, size], [type], down).results[0]
        last = builder.binary(aa.MulIOp, whole, size)
        rest = builder.binary(aa.SubIOp, total, last)
        alone = self._compare(ComparisonPredicate.LESS_THAN_OR_EQUAL, rest, blocks)
        first = builder.emit(aa.SelectOp, [alone, block, pair], [type]).results[0]
        has_more = self._compare(less, first, rest)
        after = builder.binary(aa.AddIOp, last, size)
        end = builder.emit(aa.SelectOp, [has_more, after, last], [type]).results[0]
        self._bounds = (pair, end, size)
        return _Rounds(last, alone, builder.binary(aa.AddIOp, last, block))

    def _one_tile(self, number: SSAValue, tokens: Sequence[SSAValue]) -> Region:
        """What the loop did, for a tile."""
        source, block = self.loop.body.block, Block()
        values: dict[SSAValue, SSAValue] = dict(zip(source.args, [number, *tokens], strict=True))
        for op in source.ops:
            if isinstance(op, aa.ContinueOp):
                operands = [values.get(value, value) for value in op.operands]
                block.add_op(aa.YieldOp.create(operands=operands, location=op.location))
            else:
                block.add_op(op.clone(values))
        return Region(block)

    def _two_tiles(self, numbers: Sequence[SSAValue], tokens: Sequence[SSAValue]) -> Region | None:
        """What the loop did, for two tiles; None where their loops over K differ."""
        source, outer = self.loop.body.block, self.builder.block
        products = product_loop(source)
        self.builder.block = block = Block()
        for values, number in zip(self.values, numbers, strict=True):
            values.update(zip(source.args, [number, *tokens], strict=True))
        behind = _scattering(source, products)
        for op in source.ops:
            self.builder.location = op.location
            if products is not None and op is products:
                if not self._join_products(products):
                    return None
            elif op in behind:
                self.builder.block.add_op(op.clone(self.values[0]))
            elif isinstance(op, aa.ContinueOp):
                self._end(op)
            elif not self._is_known(op):
                self._copy(op)
        self.builder.block, self.builder.location = outer, self.loop.location
        return Region(block)

    def _end(self, op: aa.ContinueOp) -> None:
        """What both tiles do comes before what follows the iteration."""
        tokens: list[SSAValue] = []
        for other in _scattering(self.loop.body.block, product_loop(self.loop.body.block)):
            self._copy_second(other)
        for token in op.operands:
            first, second = self._both([token])
            if first is not second:
                first = self.builder.emit(aa.JoinMemTokensOp, [first, second], [MEM_TOKEN]).results[
                    0
                ]
            tokens.append(first)
        self.builder.emit(aa.YieldOp, tokens)


def _scattering(block: Block, products: aa.ForOp | None) -> dict[Operation, None]:
    """What stores the sum through pointers, which take registers: it is done for one tile, then for
    the other. Nothing where TMA may store both, or the sums leave by views.
    """
    operations = list(block.ops)
    behind = operations[operations.index(products) + 1 : -1] if products is not None else []
    stores = [op for op in behind if isinstance(op, aa.StoreOp)]
    return dict.fromkeys(behind) if stores else {}

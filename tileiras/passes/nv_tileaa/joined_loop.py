"""Rewrites a loop over tiles so that two of them are computed at once (`join_tiles`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import Pure

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
    RoundingMode,
    RoundingModeAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.nv_tileaa.types import MEM_TOKEN
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder

TILES = 2


def product_loop(loop: aa.ForOp) -> aa.ForOp | None:
    """The only loop with products in a loop over tiles, which has no other products."""
    found = [op for op in loop.body.block.ops if any(isinstance(i, aa.DotOp) for i in op.walk())]
    if len(found) != 1 or not isinstance(found[0], aa.ForOp):
        return None
    inner = found[0]
    products = [op for op in inner.walk() if isinstance(op, aa.DotOp)]
    return inner if all(op.parent_op() is inner for op in products) else None


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


class TileJoiner:
    """Rewrites a loop over tiles for two of them at once."""

    def __init__(self, loop: aa.ForOp):
        self.loop = loop
        self.builder = ScalarBuilder()
        self.values: tuple[dict[SSAValue, SSAValue], dict[SSAValue, SSAValue]] = ({}, {})
        """What stands for values of one tile in the first and in the second."""
        is_signed = loop.unsigned_cmp is None
        self.sign = SignednessAttr(Signedness.SIGNED if is_signed else Signedness.UNSIGNED)

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
            raise InternalError("a loop does not count in integers", where="join-tiles")
        return self.builder.integer(value, type)

    def _compare(self, how: ComparisonPredicate, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """i1: a comparison of tile numbers."""
        properties = {"comparison_predicate": ComparisonPredicateAttr(how), "signedness": self.sign}
        return self.builder.emit(aa.CmpIOp, [lhs, rhs], [i1], properties).results[0]

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
        products = product_loop(self.loop)
        self.builder.block = block = Block()
        for values, number in zip(self.values, numbers, strict=True):
            values.update(zip(source.args, [number, *tokens], strict=True))
        for op in source.ops:
            self.builder.location = op.location
            if products is not None and op is products:
                if not self._join_products(products):
                    return None
            elif isinstance(op, aa.ContinueOp):
                self._end(op)
            else:
                self._copy(op)
        self.builder.block, self.builder.location = outer, self.loop.location
        return Region(block)

    def _copy(self, op: Operation) -> None:
        """An operation of one tile, for each of them; once if it is the same for both."""
        first, second = self.values
        self.builder.block.add_op(op.clone(first))
        if op.has_trait(Pure) and not op.regions and self._are_same(op.operands):
            second.update((result, first[result]) for result in op.results)
        else:
            self.builder.block.add_op(op.clone(second))

    def _are_same(self, values: Sequence[SSAValue]) -> bool:
        """Whether values are the same for both tiles."""
        first, second = self.values
        return all(first.get(value, value) is second.get(value, value) for value in values)

    def _both(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """Values of the first tile, then those of the second."""
        return [copies.get(value, value) for copies in self.values for value in values]

    def _join_products(self, loop: aa.ForOp) -> bool:
        """One loop over K for both tiles, operation by operation."""
        bounds = [loop.lower_bound, loop.upper_bound, loop.step]
        if not self._are_same(bounds):
            return False
        source, outer = loop.body.block, self.builder.block
        carried = [arg.type for arg in source.args[1:]]
        operands = [*self._both(bounds)[: len(bounds)], *self._both(loop.init_values)]
        block = Block(arg_types=[source.args[0].type, *carried, *carried])
        for number, values in enumerate(self.values):
            start = 1 + number * len(carried)
            own = [block.args[0], *block.args[start : start + len(carried)]]
            values.update(zip(source.args, own, strict=True))
        self.builder.block = block
        for op in source.ops:
            if isinstance(op, aa.ContinueOp):
                self.builder.location = op.location
                self.builder.emit(aa.ContinueOp, self._both(op.operands))
            else:
                self._copy(op)
        self.builder.block, self.builder.location = outer, loop.location
        types = [*carried, *carried]
        made = self.builder.emit(aa.ForOp, operands, types, loop.properties, [Region(block)])
        for number, values in enumerate(self.values):
            start = number * len(carried)
            own = made.results[start : start + len(carried)]
            values.update(zip(loop.results, own, strict=True))
        return True

    def _end(self, op: aa.ContinueOp) -> None:
        """What both tiles do comes before what follows the iteration."""
        tokens: list[SSAValue] = []
        for token in op.operands:
            first, second = self._both([token])
            if first is not second:
                first = self.builder.emit(aa.JoinMemTokensOp, [first, second], [MEM_TOKEN]).results[
                    0
                ]
            tokens.append(first)
        self.builder.emit(aa.YieldOp, tokens)

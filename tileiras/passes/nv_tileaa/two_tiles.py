"""What the passes that join tiles share: the same operations for two tiles, and one loop over K."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import UnitAttr, i1, i32
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
    SignednessAttr,
)
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.planning.operands.tma_stores import EACH_TILE
from tileiras.planning.tile_scheduler.joinable import TILES, is_same_for_both


class TwoTiles:
    """Writes operations once for each of two tiles; `sign` is how numbers of tiles compare."""

    def __init__(self, sign: SignednessAttr):
        self.builder = ScalarBuilder()
        self.sign = sign
        self.values: tuple[dict[SSAValue, SSAValue], dict[SSAValue, SSAValue]] = ({}, {})
        """What stands for values of one tile in the first and in the second."""

    def _compare(self, how: ComparisonPredicate, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """i1: a comparison of tile numbers."""
        properties = {"comparison_predicate": ComparisonPredicateAttr(how), "signedness": self.sign}
        return self.builder.emit(aa.CmpIOp, [lhs, rhs], [i1], properties).results[0]

    def _is_known(self, op: Operation, tile: int = 0) -> bool:
        """Whether it has been decided what stands for all that an operation gives for a tile."""
        known = self.values[tile]
        return bool(op.results) and all(result in known for result in op.results)

    def _copy(self, op: Operation) -> None:
        """An operation of one tile, for each of them; once if it is the same for both."""
        self.builder.block.add_op(op.clone(self.values[0]))
        self._copy_second(op)

    def _copy_second(self, op: Operation) -> None:
        """An operation for the second tile, unless what it gives is the same for both."""
        first, second = self.values
        if is_same_for_both(op) and self._are_same(op.operands):
            second.update((result, first[result]) for result in op.results)
        else:
            self.builder.block.add_op(op.clone(second))

    def _leave_out(self, op: Operation, second_if: SSAValue) -> None:
        """Leaves out what a copied operation does for the second tile alone, if there is none."""
        first, second = (values[op.results[0]].owner for values in self.values)
        if first is second:
            return
        if isinstance(second, aa.DotOp):
            second.operands = [*second.operands, second_if]
        elif isinstance(second, aa.LoadOp) and second.mask is not None:
            place, type = second.location, second.mask.type
            spread = aa.SplatOp.create(operands=[second_if], result_types=[type], location=place)
            mask = aa.AndIOp.create(
                operands=[second.mask, spread.result], result_types=[type], location=place
            )
            self.builder.block.insert_ops_before([spread, mask], second)
            second.operands[second.operands.index(second.mask)] = mask.results[0]

    def _are_same(self, values: Sequence[SSAValue]) -> bool:
        """Whether values are the same for both tiles."""
        first, second = self.values
        return all(first.get(value, value) is second.get(value, value) for value in values)

    def _both(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """Values of the first tile, then those of the second."""
        return [copies.get(value, value) for copies in self.values for value in values]

    def _join_products(self, loop: aa.ForOp, second_if: SSAValue | None = None) -> bool:
        """One loop over K for both tiles, operation by operation.

        `second_if` (i1): whether there is a second tile, if that is not known.
        """
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
                if second_if is not None and isinstance(op, aa.DotOp | aa.LoadOp):
                    self._leave_out(op, second_if)
        self.builder.block, self.builder.location = outer, loop.location
        types = [*carried, *carried]
        made = self.builder.emit(aa.ForOp, operands, types, loop.properties, [Region(block)])
        for number, values in enumerate(self.values):
            start = number * len(carried)
            own = made.results[start : start + len(carried)]
            values.update(zip(loop.results, own, strict=True))
        return True

    def _finish_each(self, loop: aa.ForOp, after: Sequence[Operation], both: SSAValue) -> None:
        """What follows the products: a loop that does it for the first tile, and the second if
        there is one.

        Views are made again there: their users must see how.
        """
        builder, outer, (first, second) = self.builder, self.builder.block, self.values
        sums = set(loop.results)
        used = [value for value in _needed(after) if value not in sums]
        views, others = apart([value for value in used if not self._are_same([value])])
        needed = [value for value in others if not self._are_same([value])]
        handed = [*loop.results, *needed]
        types = [value.type for value in handed]
        builder.block = body = Block(arg_types=[i32, *types])
        values = first | dict(zip(handed, body.args[1:], strict=True))
        for op in (*views, *after):
            body.add_op(op.clone(values))
        builder.emit(aa.ContinueOp, [second[value] for value in handed])
        builder.block = outer
        one, two = (builder.integer(count, i32) for count in (1, TILES))
        count = builder.emit(aa.SelectOp, [both, two, one], [i32]).results[0]
        operands = [builder.integer(0, i32), count, one, *(first[value] for value in handed)]
        made = builder.emit(aa.ForOp, operands, types, {"no_unroll": UnitAttr()}, [Region(body)])
        made.attributes[EACH_TILE] = UnitAttr()


def apart(values: Sequence[SSAValue]) -> tuple[list[Operation], list[SSAValue]]:
    """What makes those of the values that are views, in order, and all else that is needed."""
    makers: dict[Operation, None] = {}
    others: dict[SSAValue, None] = {}
    pending = list(values)
    while pending:
        value = pending.pop()
        if isinstance(value, OpResult) and isinstance(value.op, aa.MakeMemRefOp | aa.BlockTileOp):
            makers[value.op] = None
            pending += value.op.operands
        else:
            others[value] = None
    block = next(iter(makers)).parent_block() if makers else None
    in_order = [op for op in block.ops if op in makers] if block is not None else []
    return in_order, list(others)


def _needed(after: Sequence[Operation]) -> list[SSAValue]:
    """What operations need, and those in them."""
    operands = (operand for outer in after for op in outer.walk() for operand in op.operands)
    return list(dict.fromkeys(operands))

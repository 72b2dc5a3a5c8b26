"""Rebuilds a loop so that several iterations are one (`join-iterations`)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, TensorType, UnitAttr, i1
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonOrdering,
    ComparisonOrderingAttr,
    ComparisonPredicate,
    ComparisonPredicateAttr,
    IntTupleAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.dialects.nv_tileaa.schedule import REMAINDER
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder, type_of
from tileiras.passes.rewriting import replace_op
from tileiras.planning.tiling.joined_iterations import JoinedIterations
from tileiras.planning.tiling.online_sums import fixed_scalar
from tileiras.planning.tiling.slicing import operand_dims


def join(found: JoinedIterations, count: int, parts: int = 1) -> None:
    """Puts a loop over `count` tiles at a time in front of the loop, which does what is left.

    Or one over each of `parts` of a tile. Both are powers of two, and one of them is 1.
    """
    _Joining(found, count, parts).run()


class _Joining(ScalarBuilder):
    """The rebuild of one loop. `wide` and `plain`: what stands for values of its body."""

    def __init__(self, found: JoinedIterations, count: int, parts: int):
        super().__init__()
        self.count, self.parts = count, parts
        self.loop, self.dims = found.loop, found.dims
        # Maxima of parts times what is below zero are larger than those of the whole, so that
        # powers below them are smaller; sums that are scaled by them are the same.
        asked = found.late if parts > 1 else [*found.factors, *found.late]
        self.factors = list(dict.fromkeys(asked))
        self.unscaled = found.scaled
        self.location = self.loop.location
        self.old = self.loop.body.block
        self.outer = self.block
        self.wide: dict[SSAValue, SSAValue] = {}
        self.plain: dict[SSAValue, SSAValue] = {}

    def run(self) -> None:
        """Builds what is new before the loop."""
        loop, type = self.loop, self.loop.step.type
        if not isinstance(type, IntegerType):
            raise InternalError("a loop counts in no integer")
        middle, step = self._middle(type), self.integer(self.count, type)
        made = self._loop(loop.lower_bound, middle, step, loop.init_values)
        if middle is loop.upper_bound:
            self.put_before(loop)
            replace_op(loop, made.results)
            return
        if self.parts > 1:
            self._leave_parts(middle, step, made.results)
            return
        self.put_before(loop)
        loop.operands = [middle, loop.upper_bound, loop.step, *made.results]
        loop.attributes[REMAINDER] = UnitAttr()

    def _leave_parts(self, middle: SSAValue, step: SSAValue, sums: Sequence[SSAValue]) -> None:
        """What is left in parts, too, whose scores are scaled where they were."""
        self.unscaled, self.wide, self.plain = {}, {}, {}
        left = self._loop(middle, self.loop.upper_bound, step, sums)
        left.attributes[REMAINDER] = UnitAttr()
        self.put_before(self.loop)
        replace_op(self.loop, left.results)

    def _loop(
        self, lower: SSAValue, upper: SSAValue, step: SSAValue, sums: Sequence[SSAValue]
    ) -> Operation:
        """A loop over the tiles between bounds of the old one."""
        body, loop = self._body(), self.loop
        self.block, self.location = self.outer, loop.location
        bounds = [self.scaled(bound, self.parts) for bound in (lower, upper)]
        types = [result.type for result in loop.results]
        return self.emit(aa.ForOp, [*bounds, step, *sums], types, loop.properties, [Region(body)])

    def _middle(self, type: IntegerType) -> SSAValue:
        """Where so many iterations at a time end: at once where a factor is not above zero."""
        loop, conditions = self.loop, [self._is_positive(factor) for factor in self.factors]
        end = loop.upper_bound
        if self.count > 1:
            left = self.binary(aa.SubIOp, loop.upper_bound, loop.lower_bound)
            mask = self.integer((1 << type.width.data) - self.count, type)
            whole = self.emit(aa.AndIOp, [left, mask], [type]).results[0]
            end = self.binary(aa.AddIOp, loop.lower_bound, whole)
            conditions.append(self._is_entered())
        if not conditions:
            return end
        runs = conditions[0]
        for condition in conditions[1:]:
            runs = self.emit(aa.AndIOp, [runs, condition], [i1]).results[0]
        return self.emit(aa.SelectOp, [runs, end, loop.lower_bound], [type]).results[0]

    def _is_entered(self) -> SSAValue:
        """i1: the loop has an iteration; else what is left of it may be any number."""
        loop = self.loop
        signed = Signedness.UNSIGNED if loop.unsigned_cmp is not None else Signedness.SIGNED
        properties = {
            "comparison_predicate": ComparisonPredicateAttr(ComparisonPredicate.LESS_THAN),
            "signedness": SignednessAttr(signed),
        }
        bounds = [loop.lower_bound, loop.upper_bound]
        return self.emit(aa.CmpIOp, bounds, [i1], properties).results[0]

    def _is_positive(self, factor: SSAValue) -> SSAValue:
        """i1: a scalar is above zero."""
        tile = TileType(factor.type)
        zero = {"value": DenseAttr(tile, bytes(4))}
        none = self.emit(aa.ConstantOp, (), [factor.type], zero).results[0]
        properties = {
            "comparison_predicate": ComparisonPredicateAttr(ComparisonPredicate.GREATER_THAN),
            "comparison_ordering": ComparisonOrderingAttr(ComparisonOrdering.ORDERED),
        }
        return self.emit(aa.CmpFOp, [factor, none], [i1], properties).results[0]

    def _body(self) -> Block:
        """The body for several tiles as one."""
        block = Block(arg_types=[arg.type for arg in self.old.args])
        self.plain.update(zip(self.old.args, block.args, strict=True))
        for op in self.old.ops:
            self.block, self.location = block, op.location
            if op in self.unscaled:
                continue
            if any(operand.owner in self.unscaled for operand in op.operands):
                self._scale_late(op)
            elif any(result in self.dims for result in op.results):
                self._widen(op)
            elif isinstance(op, aa.DotOp | aa.ReduceOp):
                self._sum_up(op)
            elif isinstance(op, aa.TiledStoreOp):
                self._store(op)
            elif not isinstance(op, aa.BlockTileOp):
                self._copy(op)
        return block

    def _copy(self, op: Operation) -> None:
        """What has the size that it had."""
        values = {operand: self._plain(operand) for operand in op.operands}
        self.block.add_op(copy := op.clone(values))
        self.plain.update(zip(op.results, copy.results, strict=True))

    def _store(self, op: aa.TiledStoreOp) -> None:
        """A store of a larger tile."""
        view = self._longer_view(op, self.dims[op.value])
        operands = [self._wide(op.value), view, *(self._plain(v) for v in op.operands[2:])]
        self.emit(aa.TiledStoreOp, operands, [op.result_token.type], op.properties)

    def _sum_up(self, op: aa.DotOp | aa.ReduceOp) -> None:
        """A reduction or a product along what is longer, or as it was."""
        values = {operand: self._plain_or_wide(operand, op) for operand in op.operands}
        self.block.add_op(copy := op.clone(values))
        self.plain.update(zip(op.results, copy.results, strict=True))

    def _scale_late(self, op: Operation) -> None:
        """The maximum of a scaled tile, or what is below it: made of the tile."""
        scaled = op.operands[0].owner
        if not isinstance(scaled, aa.MulFOp):
            raise InternalError(f"'{op.name}' of a scaled tile")
        place = self.unscaled[scaled]
        tile, factor = (self._wide(scaled.operands[at]) for at in (place, 1 - place))
        [result] = op.results
        if isinstance(op, aa.SubFOp):
            type = self._type(result)
            negative = self.emit(aa.NegFOp, [self._wide(op.rhs)], [type]).results[0]
            made = self.emit(aa.FmaOp, [tile, factor, negative], [type], op.properties)
            self.wide[result] = made.results[0]
            return
        regions = [region.clone() for region in op.regions]
        top = self.emit(type_of(op), [tile], [result.type], op.properties, regions).results[0]
        number = self._as_large_as(scaled.operands[1 - place], result.type)
        made = self.emit(aa.MulFOp, [top, number], [result.type], scaled.properties)
        self.plain[result] = made.results[0]

    def _as_large_as(self, factor: SSAValue, type: Attribute) -> SSAValue:
        """A tile of a type whose elements are all a number."""
        number = fixed_scalar(factor)
        if isinstance(number, bytes) and isinstance(type, TensorType):
            value = {"value": DenseAttr(TileType(type.element_type, type.get_shape()), number)}
            return self.emit(aa.ConstantOp, (), [type], value).results[0]
        if not isinstance(number, SSAValue):
            raise InternalError("a factor of maxima is no number")
        return self.emit(aa.SplatOp, [self._plain(number)], [type]).results[0]

    def _plain_or_wide(self, operand: SSAValue, op: aa.DotOp | aa.ReduceOp) -> SSAValue:
        is_acc = isinstance(op, aa.DotOp) and operand is op.acc
        return self._wide(operand) if operand in self.dims and not is_acc else self._plain(operand)

    def _plain(self, value: SSAValue) -> SSAValue:
        """What stands for a value of the size that it had; made where it is not there."""
        if value in self.plain:
            return self.plain[value]
        if isinstance(value, OpResult) and value.op.parent_block() is self.old:
            self._copy(value.op)
            return self.plain[value]
        return value

    def _wide(self, value: SSAValue) -> SSAValue:
        """What stands for a value that is larger; in front of the loop where it is from there."""
        if value not in self.wide:
            if not isinstance(value, OpResult):
                raise InternalError("what is carried is larger")
            block = self.block
            if value.op.parent_block() is not self.old:
                self.block = self.outer
            self._widen(value.op)
            self.block = block
        return self.wide[value]

    def _type(self, value: SSAValue) -> Attribute:
        """The larger type."""
        if value not in self.dims or not isinstance(value.type, TensorType):
            return value.type
        shape = list(value.type.get_shape())
        shape[self.dims[value]] = shape[self.dims[value]] * self.count // self.parts
        return TensorType(value.type.element_type, shape)

    def _widen(self, op: Operation) -> None:
        """An operation whose result is larger."""
        types = [self._type(result) for result in op.results]
        properties = dict(op.properties)
        if isinstance(op, aa.TiledLoadOp):
            view = self._longer_view(op, self.dims[op.result])
            operands = [view, *(self._plain(value) for value in op.operands[1:])]
        elif isinstance(op, aa.ScanOp):
            operands = [self._wide(value) for value in op.operands]
        else:
            needed = operand_dims(op, self.dims[op.results[0]], self.count * self.parts)
            if needed is None:
                raise InternalError(f"'{op.name}' cannot be cut")
            pairs = zip(op.operands, needed, strict=True)
            operands = [self._plain(v) if at is None else self._wide(v) for v, at in pairs]
        if isinstance(op, aa.ConstantOp):
            shape = types[0].get_shape() if isinstance(types[0], TensorType) else ()
            tile = TileType(op.value.type.element_type, shape)
            properties["value"] = DenseAttr(tile, op.value.raw.data)
        regions = [region.clone() for region in op.regions]
        made = self.emit(type(op), operands, types, properties, regions)
        self.wide.update(zip(op.results, made.results, strict=True))

    def _longer_view(self, op: aa.TiledLoadOp | aa.TiledStoreOp, dim: int) -> SSAValue:
        """The view of a larger access: it moves on by the tile that it had, or its part."""
        view = view_type_of(op.view)
        tile, steps = list(view.tile_shape), list(view.steps)
        tile[dim] = tile[dim] * self.count // self.parts
        steps[dim] //= self.parts
        moves = (view.dim_map_dims, IntTupleAttr(steps), view.padding, view.sparse)
        type = aa.TiledViewType(view.memref, IntTupleAttr(tile), *moves)
        block, self.block = self.block, self.outer
        memref = memref_of(op.view).result
        made = self.emit(aa.BlockTileOp, [memref], [type]).results[0]
        self.block = block
        return made

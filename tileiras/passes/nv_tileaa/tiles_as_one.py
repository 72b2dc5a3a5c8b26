"""Two neighbouring tiles as one of twice the rows, where the second continues the first.

    for %t in [2 * %p, %whole) step 2 * %s {
      pre(%t); pre(%t + 1)
      if the second tile's rows come next, and all else is the same {
        for %k { %a = load %A[%row, %k] of 128 rows; dot %a, .. of 128 rows }
        store of 128 rows
      } else { for %u in [%t, %t + 2) { pre(%u); for %k { body }; post(%u) } }
    }
    %t = %whole + %p; pre(%t); for %k { body }; post(%t)

A tile of 64x256 has one warpgroup whose instructions read 64 rows of the left operand and all of
the right one for 128 cycles of the tensor cores: 80 bytes a cycle, beside 80 that TMA writes, of
128 that shared memory gives. One of 128x256 has two warpgroups, and TMA writes 48 bytes a cycle.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType, TensorType, i1, i32
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import ComparisonPredicate, IntTupleAttr
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa.two_tiles_in_rounds import TwoTilesInRounds
from tileiras.planning.tile_scheduler.joinable import TILES, product_loop
from tileiras.planning.tiling.product_cut import ProductCut


class TilesAsOne(TwoTilesInRounds):
    """Rewrites the loop of a static tile scheduler whose tiles can be one (`rows_of_two`)."""

    def __init__(self, loop: aa.ForOp):
        super().__init__(loop)
        self.cut = ProductCut(loop.body.block, TILES, lambda _: False)
        """What has twice the rows, and along which dim these are."""
        self.wide: dict[SSAValue, SSAValue] = {}
        self.common: dict[SSAValue, SSAValue] = {}
        """What stands for values of twice the rows, and for other tiles, which are the same."""
        self.equal: dict[tuple[SSAValue, SSAValue], SSAValue] = {}
        self.following: dict[tuple[SSAValue, SSAValue], SSAValue] = {}
        """Numbers of the first and the second tile that have to be equal, or to follow: copies of
        one of the kernel.
        """
        self.views: dict[tuple[SSAValue, int], SSAValue] = {}
        self.makers = Block()

    def join(self) -> bool:
        """Does so."""
        [dot] = [op for op in self.loop.walk() if isinstance(op, aa.DotOp)]
        self.cut.cut([(dot.result, 0)])
        return super().join()

    def _rounds(self) -> Block:
        """What is done for two neighbouring tiles."""
        loop, builder, outer = self.loop, self.builder, self.builder.block
        builder.block = body = Block(arg_types=[i32])
        number, source = body.args[0], loop.body.block
        following = builder.binary(aa.AddIOp, number, builder.integer(1, i32))
        both = self._compare(ComparisonPredicate.LESS_THAN, following, loop.upper_bound)
        second = builder.emit(aa.SelectOp, [both, following, number], [i32]).results[0]
        for values, its in zip(self.values, (number, second), strict=True):
            values[source.args[0]] = its
        wide = self._one_tile_of_both(source, body)
        builder.block, builder.location = body, loop.location
        for op in list(self.makers.ops):
            op.detach()
            body.add_op(op)
        is_one = both
        for how, pairs in (("equal", self.equal), ("following", self.following)):
            for first, after in pairs:
                is_one = self._and(is_one, first, after, is_next=how == "following")
        end = builder.binary(aa.AddIOp, following, self._integer_of(both))
        branches = [Region(wide), Region(self._in_turn(number, end))]
        builder.emit(aa.IfOp, [is_one], (), {}, branches)
        builder.emit(aa.ContinueOp)
        builder.block = outer
        return body

    def _integer_of(self, condition: SSAValue) -> SSAValue:
        """1 where a condition holds, else 0."""
        one, zero = self.builder.integer(1, i32), self.builder.integer(0, i32)
        return self.builder.emit(aa.SelectOp, [condition, one, zero], [i32]).results[0]

    def _and(
        self, condition: SSAValue, first: SSAValue, second: SSAValue, *, is_next: bool
    ) -> SSAValue:
        """i1: the condition, and a number of the second tile is that of the first, or the next."""
        builder, type = self.builder, first.type
        if not isinstance(type, IntegerType):
            raise InternalError("what differs is no number", where="tiles-per-cta")
        if is_next:
            first = builder.binary(aa.AddIOp, first, builder.integer(1, type))
        holds = self._compare(ComparisonPredicate.EQUAL, first, second)
        return builder.emit(aa.AndIOp, [condition, holds], [i1]).results[0]

    def _in_turn(self, number: SSAValue, end: SSAValue) -> Block:
        """Both tiles one after the other, or the only one."""
        builder, outer, loop = self.builder, self.builder.block, self.loop
        builder.block = block = Block()
        body = Block(arg_types=[i32])
        values: dict[SSAValue, SSAValue] = {loop.body.block.args[0]: body.args[0]}
        for op in loop.body.block.ops:
            body.add_op(op.clone(values))
        bounds = [number, end, builder.integer(1, i32)]
        builder.emit(aa.ForOp, bounds, (), loop.properties, [Region(body)])
        builder.emit(aa.YieldOp)
        builder.block = outer
        return block

    def _one_tile_of_both(self, source: Block, body: Block) -> Block:
        """The tile of twice the rows; what numbers it needs is made in `body` for both tiles."""
        products = product_loop(source)
        wide = Block()
        for op in source.ops:
            self.builder.block, self.builder.location = wide, op.location
            if op is products and isinstance(op, aa.ForOp):
                self._widen_loop(op)
            elif isinstance(op, aa.ContinueOp):
                self.builder.emit(aa.YieldOp)
            elif self._is_wide(op):
                self._widen(op)
            elif any(isinstance(result.type, TensorType) for result in op.results):
                self._share(op)
            else:
                self._copy_number(op, body)
        return wide

    def _is_wide(self, op: Operation) -> bool:
        """Whether an operation makes, or stores, anything of twice the rows."""
        return op in self.cut.sinks or any(result in self.cut.dims for result in op.results)

    def _copy_number(self, op: Operation, body: Block) -> None:
        """What is no tile, for both tiles."""
        self.builder.block = body
        self._copy(op)

    def _share(self, op: Operation) -> None:
        """A tile that must be the same for both."""
        operands = [self._same(value) for value in op.operands]
        types = [result.type for result in op.results]
        made = self.builder.emit(type(op), operands, types, op.properties)
        self.common.update(zip(op.results, made.results, strict=True))

    def _same(self, value: SSAValue) -> SSAValue:
        """What is not of twice the rows: the same for both tiles, or has to turn out to be; or a
        token of what is.
        """
        if value in self.common:
            return self.common[value]
        if value in self.wide:
            return self.wide[value]
        first, second = (values.get(value, value) for values in self.values)
        if first is not second:
            self.equal[first, second] = value
        return first

    def _value(self, value: SSAValue) -> SSAValue:
        """What stands for an operand of an operation that makes something of twice the rows."""
        if value not in self.cut.dims:
            return self._same(value)
        if value not in self.wide:
            if not isinstance(value, OpResult) or value.op.parent_block() is self.loop.body.block:
                raise InternalError("a tile that is made later", where="tiles-per-cta")
            self._widen(value.op)
        return self.wide[value]

    def _type(self, value: SSAValue) -> Attribute:
        """The type of a value of twice the rows."""
        if value not in self.cut.dims or not isinstance(value.type, TensorType):
            return value.type
        [dim] = self.cut.dims[value]
        shape = list(value.type.get_shape())
        shape[dim] *= TILES
        return TensorType(value.type.element_type, shape)

    def _widen(self, op: Operation) -> None:
        """An operation on twice the rows."""
        types = [self._type(result) for result in op.results]
        properties = dict(op.properties)
        if isinstance(op, aa.TiledLoadOp | aa.TiledStoreOp):
            operands = self._access(op)
        else:
            operands = [self._value(value) for value in op.operands]
        if isinstance(op, aa.ConstantOp):
            shape = types[0].get_shape() if isinstance(types[0], TensorType) else ()
            tile = TileType(op.value.type.element_type, shape)
            properties["value"] = DenseAttr(tile, op.value.raw.data)
        made = self.builder.emit(type(op), operands, types, properties)
        self.wide.update(zip(op.results, made.results, strict=True))

    def _access(self, op: aa.TiledLoadOp | aa.TiledStoreOp) -> list[SSAValue]:
        """The operands of an access to twice the rows, which start at those of the first tile."""
        [dim] = self.cut.dims_of(op)
        view = view_type_of(op.view)
        tile = list(view.tile_shape)
        tile[dim] *= TILES
        kept = (view.step_dims, view.padding, view.sparse)
        type = aa.TiledViewType(view.memref, IntTupleAttr(tile), view.dim_map_dims, *kept)
        key = (op.view, dim)
        if key not in self.views:
            memref = self._same(memref_of(op.view).result)
            made = aa.BlockTileOp.create(
                operands=[memref], result_types=[type], location=op.location
            )
            self.makers.add_op(made)
            self.views[key] = made.result
        indices: list[SSAValue] = []
        for at, index in enumerate(op.indices):
            if at != dim:
                indices.append(self._same(index))
                continue
            first, second = (values.get(index, index) for values in self.values)
            self.following[first, second] = index
            indices.append(first)
        token = [self._same(op.token)] if op.token is not None else []
        stored = [self._value(op.value)] if isinstance(op, aa.TiledStoreOp) else []
        return [*stored, self.views[key], *indices, *token]

    def _widen_loop(self, loop: aa.ForOp) -> None:
        """The loop over K; what it computes beside tiles is the same for both."""
        builder, outer, source = self.builder, self.builder.block, loop.body.block
        operands = [self._value(value) for value in loop.operands]
        block = Block(arg_types=[self._type(arg) for arg in source.args])
        for arg, made in zip(source.args, block.args, strict=True):
            (self.wide if arg in self.cut.dims else self.common)[arg] = made
        for op in source.ops:
            builder.block, builder.location = block, op.location
            if isinstance(op, aa.ContinueOp):
                builder.emit(aa.ContinueOp, [self._value(value) for value in op.operands])
            elif self._is_wide(op):
                self._widen(op)
            else:
                self._share(op)
        builder.block, builder.location = outer, loop.location
        types = [self._type(result) for result in loop.results]
        made_loop = builder.emit(aa.ForOp, operands, types, loop.properties, [Region(block)])
        for result, made in zip(loop.results, made_loop.results, strict=True):
            (self.wide if result in self.cut.dims else self.common)[result] = made

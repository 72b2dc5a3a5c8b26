"""Rebuilds a loop so that maxima and sums are those of groups of columns (`join-iterations`)."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.passes.rewriting import erase_op
from tileiras.planning.tiling.online_columns import OnlineColumns


def keep_groups(found: OnlineColumns) -> None:
    """Puts a loop that carries an element for each group of columns in the place of the loop."""
    _Grouping(found).run()


class _Grouping(ScalarBuilder):
    """The rebuild of one loop. `values`: what stands for values of its body, and behind it.

    Narrow ones have an element for each group. `spread`: the same, once for each column.
    """

    def __init__(self, found: OnlineColumns):
        super().__init__()
        self.found, self.loop = found, found.loop
        self.old = self.loop.body.block
        self.dim, self.group = found.dim, found.group
        self.values: dict[SSAValue, SSAValue] = {}
        self.spread: dict[SSAValue, SSAValue] = {}

    def run(self) -> None:
        """Builds the loop, and what follows it up to its reductions."""
        loop, narrow = self.loop, self.found.narrow
        self.location = loop.location
        starts = [self._narrow(value) for value in loop.init_values]
        outer, body = self.block, self._body()
        self.block, self.location = outer, loop.location
        types = [value.type for value in starts]
        bounds = loop.operands[:3]
        made = self.emit(aa.ForOp, [*bounds, *starts], types, loop.properties, [Region(body)])
        made.attributes.update(loop.attributes)
        self.put_before(loop)
        self.values = dict(zip(loop.results, made.results, strict=True))
        behind = self._behind()
        for op in reversed(behind):
            erase_op(op)
        for old, new in zip(loop.results, made.results, strict=True):
            if old not in narrow:
                old.replace_all_uses_with(new)
        erase_op(loop)

    def _body(self) -> Block:
        """The body with an element for each group in what it carries."""
        types = [self._type(arg) for arg in self.old.args]
        block = Block(arg_types=types)
        self.values = dict(zip(self.old.args, block.args, strict=True))
        for op in self.old.ops:
            self.block, self.location = block, op.location
            if isinstance(op, aa.ContinueOp):
                copy = op.clone({value: self.values.get(value, value) for value in op.operands})
            elif op.results and op.results[0] in self.found.narrow:
                self._compute(op)
                continue
            else:
                copy = op.clone(self.values | {v: self._each_column(v) for v in op.operands})
            block.add_op(copy)
            self.values.update(zip(op.results, copy.results, strict=True))
        return block

    def _behind(self) -> list[Operation]:
        """Makes what follows the loop narrow; returns what nobody uses any more."""
        ends = [*self.found.maximum, *self.found.sums]
        left: list[Operation] = []
        for value in self.found.narrow:
            op = value.owner
            if isinstance(op, Block) or op is self.loop or op.parent_block() is self.old:
                continue
            self.block, self.location = Block(), op.location
            self._compute(op)
            self.put_before(op)
            left.append(op)
        for end in ends:
            end.operands = [self.values[end.arguments[0]]]
        return left

    def _compute(self, op: Operation) -> None:
        """An operation of which there is one for each group."""
        operands = [self._of_groups(operand, op) for operand in op.operands]
        types = [self._type(result) for result in op.results]
        made = self.emit(type(op), operands, types, op.properties)
        self.values.update(zip(op.results, made.results, strict=True))

    def _of_groups(self, value: SSAValue, user: Operation) -> SSAValue:
        """An operand of such an operation."""
        if not isinstance(value.type, TensorType):
            return self.values.get(value, value)
        if value in self.found.narrow:
            return self.values[value]
        if value in self.found.fixed:
            return self._narrow(value)
        end = self.found.maximum[0] if isinstance(user, aa.MaxFOp) else self.found.sums[0]
        return self._reduced(self.values[value], end)

    def _reduced(self, value: SSAValue, end: aa.ReduceOp) -> SSAValue:
        """The maximum or the sum of each group, as a reduction behind the loop makes it of all."""
        shape = list(shape_of(value))
        shape[self.dim : self.dim + 1] = [shape[self.dim] // self.group, self.group]
        tile = self._reshaped(value, shape)
        del shape[self.dim + 1]
        type = TensorType(element_of(value), shape)
        properties = dict(end.properties) | {"dim": IntegerAttr(self.dim + 1, end.dim.type)}
        regions = [region.clone() for region in end.regions]
        return self.emit(aa.ReduceOp, [tile], [type], properties, regions).results[0]

    def _each_column(self, value: SSAValue) -> SSAValue:
        """What an operation of the body gets that has an element for each column."""
        if value not in self.found.narrow:
            return self.values.get(value, value)
        if value not in self.spread:
            shape = list(shape_of(value))
            split = [*shape[: self.dim], shape[self.dim] // self.group, 1, *shape[self.dim + 1 :]]
            tile = self._reshaped(self.values[value], split)
            split[self.dim + 1] = self.group
            type = TensorType(element_of(value), split)
            wide = self.emit(aa.BroadcastOp, [tile], [type]).results[0]
            self.spread[value] = self._reshaped(wide, shape)
        return self.spread[value]

    def _reshaped(self, value: SSAValue, shape: list[int]) -> SSAValue:
        type = TensorType(element_of(value), shape)
        return self.emit(aa.ReshapeOp, [value], [type]).results[0]

    def _type(self, value: SSAValue) -> Attribute:
        """The type with an element for each group, of what is carried."""
        if value not in self.found.narrow:
            return value.type
        return self._narrow_type(value)

    def _narrow_type(self, value: SSAValue) -> TensorType[Attribute]:
        shape = list(shape_of(value))
        shape[self.dim] //= self.group
        return TensorType(element_of(value), shape)

    def _narrow(self, value: SSAValue) -> SSAValue:
        """A value that is the same for all columns, for each group."""
        if not isinstance(value.type, TensorType):
            return self.values.get(value, value)
        if not isinstance(value, OpResult):
            raise InternalError("a tile of unknown origin is made narrow")
        op, type = value.op, self._narrow_type(value)
        properties = dict(op.properties)
        match op:
            case aa.ConstantOp():
                tile = TileType(op.value.type.element_type, type.get_shape())
                properties["value"] = DenseAttr(tile, op.value.raw.data)
                operands: list[SSAValue] = []
            case aa.BroadcastOp() if shape_of(op.source)[self.dim] == 1:
                operands = [self.values.get(op.source, op.source)]
            case _:
                operands = [self._narrow(operand) for operand in op.operands]
        return self.emit(op.__class__, operands, [type], properties).results[0]

"""Builds the body of a loop over the parts of a cut tile."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, IntegerType, TensorType, i32, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    IntegerOverflow,
    IntegerOverflowAttr,
    IntTupleAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import DYNAMIC, TileType
from tileiras.dialects.nv_tileaa.memory import LoadBase, StoreBase
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of
from tileiras.errors import InternalError, required
from tileiras.passes.op_builder import OpBuilder
from tileiras.planning.tiling.slicing import cut_type, operand_dims

_I32_LIMIT = 1 << 31
"""Fixed: what no signed 32-bit integer reaches."""


class ScalarBuilder(OpBuilder):
    """Writes arithmetic on scalars into one block."""

    def binary(self, op_class: type[Operation], lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """`addi` or `muli` of two values of one type, wrapping."""
        properties = {"overflow": IntegerOverflowAttr(IntegerOverflow.NONE)}
        return self.emit(op_class, [lhs, rhs], [lhs.type], properties).results[0]

    def scaled(self, value: SSAValue, factor: int) -> SSAValue:
        """A scalar times a constant."""
        if factor == 1 or not isinstance(value.type, IntegerType):
            return value
        return self.binary(aa.MulIOp, value, self.integer(factor, value.type))

    def converted(self, value: SSAValue, type: IntegerType, signed: bool) -> SSAValue:
        """A scalar integer of another width."""
        if value.type == type or not isinstance(value.type, IntegerType):
            return value
        if value.type.width.data > type.width.data:
            overflow = {"overflow": IntegerOverflowAttr(IntegerOverflow.NONE)}
            return self.emit(aa.TruncIOp, [value], [type], overflow).results[0]
        sign = SignednessAttr(Signedness.SIGNED if signed else Signedness.UNSIGNED)
        return self.emit(aa.ExtIOp, [value], [type], {"signedness": sign}).results[0]

    def place(self, op_class: type[Operation], axis: int) -> SSAValue:
        """i32: the tile block's place in the grid, or a size of the grid, along an axis."""
        return self.emit(op_class, (), [i32], {"axis": IntegerAttr(axis, i32)}).results[0]

    def put_before(self, place: Operation) -> dict[Operation, None]:
        """Moves what has been built in front of an operation; returns it."""
        block = required(place.parent_block(), "an operation stands in no block")
        made = dict.fromkeys(self.block.ops)
        for op in made:
            op.detach()
            block.insert_op_before(op, place)
        return made


class PartBuilder(ScalarBuilder):
    """Writes, into one block, what the operations of a cut do for part number `part`."""

    def __init__(self, parts: int, block: Block, part: SSAValue):
        super().__init__()
        self.parts = parts
        self.block = block
        self.part = part
        self.values: dict[SSAValue, SSAValue] = {}
        """What stands for a value that is not cut; itself where it is absent."""
        self.cut_values: dict[tuple[SSAValue, int], SSAValue] = {}
        """The parts of values that are cut, by the dim of the cut."""

    def part_of(self, value: SSAValue, dim: int | None) -> SSAValue:
        """The part of a value cut along `dim`; with None, what stands for the whole value."""
        if dim is None:
            return self.values.get(value, value)
        return self.cut_values[value, dim]

    # parts of operations

    def add(self, op: Operation, dim: int) -> Operation:
        """The part of an operation whose result (or stored value) is cut along `dim`."""
        self.location = op.location
        match op:
            case aa.ConstantOp():
                built = self._constant(op, dim)
            case aa.MakeRangeOp():
                built = self._range(op)
            case aa.TiledLoadOp() | aa.TiledStoreOp():
                built = self._tiled(op, dim)
            case _:
                regions = [self._combination(region) for region in op.regions]
                operands = self._operands(op, dim)
                properties = dict(op.properties)
                if isinstance(op, LoadBase | StoreBase):
                    properties |= self._facts(op, dim)
                built = self.emit(type(op), operands, self._types(op, dim), properties, regions)
        for old, new in zip(op.results, built.results, strict=True):
            if isinstance(old.type, TensorType):
                self.cut_values[old, dim] = new
            else:
                self.values[old] = new
        return built

    def _combination(self, region: Region) -> Region:
        """The body of a reduction or scan."""
        copy = Region()
        region.clone_into(copy, None, dict(self.values))
        return copy

    def _operands(self, op: Operation, dim: int) -> list[SSAValue]:
        dims = operand_dims(op, dim, self.parts)
        if dims is None:
            raise InternalError(f"'{op.name}' cannot be cut along dim {dim}")
        return [self.part_of(value, at) for value, at in zip(op.operands, dims, strict=True)]

    def _types(self, op: Operation, dim: int) -> list[Attribute]:
        return [cut_type(result.type, dim, self.parts) for result in op.results]

    def _constant(self, op: aa.ConstantOp, dim: int) -> Operation:
        """The one element, as often as the part has room for."""
        (type,) = self._types(op, dim)
        shape = type.get_shape() if isinstance(type, TensorType) else ()
        tile = TileType(op.value.type.element_type, shape)
        value = {"value": DenseAttr(tile, op.value.raw.data)}
        return self.emit(aa.ConstantOp, (), [type], value)

    def _range(self, op: aa.MakeRangeOp) -> Operation:
        """`first .. first + size` for the part."""
        (type,) = self._types(op, 0)
        local = self.emit(aa.MakeRangeOp, (), [type], op.properties).results[0]
        if not isinstance(type, TensorType) or not isinstance(type.element_type, IntegerType):
            raise InternalError("a range of something that is no integer")
        first = self.converted(
            self.scaled(self.part, type.get_shape()[0]), type.element_type, signed=False
        )
        spread = self.emit(aa.SplatOp, [first], [type]).results[0]
        overflow = {"overflow": IntegerOverflowAttr(IntegerOverflow.NONE)}
        return self.emit(aa.AddIOp, [local, spread], [type], overflow)

    def _tiled(self, op: aa.TiledLoadOp | aa.TiledStoreOp, dim: int) -> Operation:
        """The access through a view of smaller tiles: index * step + part * size."""
        view = view_type_of(op.view)
        size = view.tile_shape[dim] // self.parts
        steps, tile = list(view.steps), list(view.tile_shape)
        ratio = steps[dim] // size if steps[dim] % size == 0 else steps[dim]
        part_steps = 1 if steps[dim] % size == 0 else size
        steps[dim] = size if part_steps == 1 else 1
        tile[dim] = size
        type = aa.TiledViewType(
            view.memref,
            IntTupleAttr(tile),
            view.dim_map_dims,
            IntTupleAttr(steps),
            view.padding,
            view.sparse,
        )
        memref = self.part_of(memref_of(op.view).result, None)
        part_view = self.emit(aa.BlockTileOp, [memref], [type]).results[0]
        indices = [self.part_of(index, None) for index in op.indices]
        indices[dim] = self._index(op, indices[dim], dim, ratio, part_steps)
        token = [self.part_of(op.token, None)] if op.token is not None else []
        stored = [self.part_of(op.value, dim)] if isinstance(op, aa.TiledStoreOp) else []
        operands = [*stored, part_view, *indices, *token]
        return self.emit(type_of(op), operands, self._types(op, dim), op.properties)

    def _index(
        self,
        op: aa.TiledLoadOp | aa.TiledStoreOp,
        index: SSAValue,
        dim: int,
        ratio: int,
        part_steps: int,
    ) -> SSAValue:
        """`index * ratio + part * part_steps`, as i64 where i32 might not do."""
        view = view_type_of(op.view)
        extent = view.memref.shape[view.dim_map[dim]]
        is_wide = extent != DYNAMIC and extent >= _I32_LIMIT
        type = i64 if is_wide else i32
        if isinstance(index.type, IntegerType) and index.type.width.data > type.width.data:
            type = index.type
        wide = self.converted(index, type, signed=True)
        offset = self.converted(self.scaled(self.part, part_steps), type, signed=False)
        return self.binary(aa.AddIOp, self.scaled(wide, ratio), offset)

    def _facts(self, op: LoadBase | StoreBase, dim: int) -> dict[str, Attribute]:
        """Runs of pointers are no longer than the part."""
        pointers = op.pointers.type
        facts: dict[str, Attribute] = {}
        if not isinstance(pointers, TensorType):
            return facts
        size = pointers.get_shape()[dim] // self.parts
        for name in ("contiguity", "mask_constancy"):
            known = op.properties.get(name)
            if isinstance(known, IntTupleAttr) and dim < len(known.data):
                runs = list(known.data)
                runs[dim] = min(runs[dim], size)
                facts[name] = IntTupleAttr(runs)
        element = pointers.element_type
        known = op.properties.get("alignment")
        if isinstance(known, IntTupleAttr) and isinstance(element, aa.PointerType):
            limit = size * storage_bytes(element.pointee)
            facts["alignment"] = IntTupleAttr([min(value, limit) for value in known.data])
        return facts


def type_of(op: Operation) -> type[Operation]:
    """The class of an operation."""
    return type(op)

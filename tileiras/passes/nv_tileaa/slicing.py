"""Which values must be cut, and along which dim, for an operation to work on a part of a tile.

A cut goes through the operations backwards: elementwise operations hand it to their operands at
the same dim, permutations at another, reductions along other dims keep it and loads end it. A value
that does not change along the cut (broadcast from size 1, a scalar) is used whole by all parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.views import view_type_of


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """Shape of a tensor; () for a scalar."""
    return value.type.get_shape() if isinstance(value.type, TensorType) else ()


def cut_type(type: Attribute, dim: int, parts: int) -> Attribute:
    """A tensor type with one dim divided."""
    if not isinstance(type, TensorType):
        return type
    shape = list(type.get_shape())
    shape[dim] //= parts
    return TensorType(type.element_type, shape)


@dataclass
class Cut:
    """Dims of all values that are cut into `parts`, and their operations, operands first."""

    block: Block
    parts: int
    dims: dict[SSAValue, int] = field(default_factory=dict)
    ops: dict[Operation, None] = field(default_factory=dict)

    def needs(self, value: SSAValue, dim: int) -> bool:
        """Cuts a value and whatever it is made from; False if that cannot be."""
        if not isinstance(value.type, TensorType):
            return True
        if value in self.dims:
            return self.dims[value] == dim
        if shape_of(value)[dim] % self.parts or not isinstance(value, OpResult):
            return False
        op = value.op
        if op.parent_block() is not self.block and isinstance(op, aa.LoadOp | aa.TiledLoadOp):
            return False
        for result in op.results:
            if isinstance(result.type, TensorType):
                self.dims[result] = dim
        if not self._needs_operands(op, dim):
            return False
        self.ops[op] = None
        return True

    def _needs_operands(self, op: Operation, dim: int) -> bool:
        """Cuts the operands of an operation whose result is cut."""
        match op:
            case ElementwiseOp() | aa.LoadOp():
                return self._need_all(op.operands, dim)
            case aa.SplatOp() | aa.MakeRangeOp():
                return True
            case aa.ConstantOp():
                return op.value.is_splat
            case aa.BroadcastOp():
                is_whole = shape_of(op.source)[dim] != shape_of(op.result)[dim]
                return is_whole or self.needs(op.source, dim)
            case aa.PermuteOp():
                return self.needs(op.source, int(op.permutation.get_values()[dim]))
            case aa.ReshapeOp():
                source = self._reshaped_dim(op, dim)
                return source is not None and self.needs(op.source, source)
            case aa.TiledLoadOp():
                return self.divides(op.view, dim)
            case aa.ReduceOp():
                along = op.dim.value.data
                inner = dim if dim < along else dim + 1
                return self._need_all(op.arguments, inner)
            case aa.ScanOp():
                return dim != op.dim.value.data and self._need_all(op.arguments, dim)
            case aa.CatOp():
                return dim != op.dim.value.data and self._need_all((op.lhs, op.rhs), dim)
            case aa.ExtractOp():
                # Where the slice is as long as its source, its index is 0 for every part.
                is_whole = shape_of(op.source)[dim] == shape_of(op.result)[dim]
                return is_whole and self.needs(op.source, dim)
            case aa.PackOp() | aa.UnpackOp():
                return self.needs(op.source, dim)
            case _:
                return False

    def _need_all(self, values: Sequence[SSAValue], dim: int) -> bool:
        """Cuts several values along one dim."""
        return all(self.needs(value, dim) for value in values)

    def divides(self, view: SSAValue, dim: int) -> bool:
        """Whether accesses through a view can be cut: not along gathered coordinates."""
        type = view_type_of(view)
        return type.sparse_dim is None and type.tile_shape[dim] % self.parts == 0

    def _reshaped_dim(self, op: aa.ReshapeOp, dim: int) -> int | None:
        """The dim of the source whose highest index bits are those of the result's `dim`."""
        if not isinstance(op.source.type, TensorType):
            return None
        shape, source = shape_of(op.result), shape_of(op.source)
        end = prod(shape[dim:])
        for axis, size in enumerate(source):
            if prod(source[axis:]) == end and size >= self.parts:
                return axis
        return None

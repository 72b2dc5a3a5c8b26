"""Which values must be cut, and along which dim, for an operation to work on a part of a tile.

A cut goes through the operations backwards: elementwise operations hand it to their operands at
the same dim, permutations at another, reductions along other dims keep it and loads end it. A value
that does not change along the cut (broadcast from size 1, a scalar) is used whole by all parts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.dialects.nv_tileaa.views import view_type_of


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
    repeats_loads: bool = False
    """Whether loads around the block may be made anew in it, if nothing waits for them."""

    def needs(self, value: SSAValue, dim: int) -> bool:
        """Cuts a value and whatever it is made from; False if that cannot be."""
        if not isinstance(value.type, TensorType):
            return True
        if value in self.dims:
            return self.dims[value] == dim
        if shape_of(value)[dim] % self.parts or not isinstance(value, OpResult):
            return False
        op = value.op
        if isinstance(op, aa.ProductOp):
            return False
        if op.parent_block() is not self.block and not self._is_repeatable(op):
            return False
        for result in op.results:
            if isinstance(result.type, TensorType):
                self.dims[result] = dim
        dims = operand_dims(op, dim, self.parts)
        if dims is None:
            return False
        pairs = zip(op.operands, dims, strict=True)
        if not all(self.needs(operand, at) for operand, at in pairs if at is not None):
            return False
        self.ops[op] = None
        return True

    def _is_repeatable(self, op: Operation) -> bool:
        """Whether an operation around the block may be made anew in it."""
        if not isinstance(op, aa.LoadOp | aa.TiledLoadOp):
            return True
        is_weak = op.ordering.data == MemoryOrdering.WEAK
        return self.repeats_loads and is_weak and not any(True for _ in op.result_token.uses)


def operand_dims(op: Operation, dim: int, parts: int) -> list[int | None] | None:
    """Where the operands are cut if the results, or the value stored, are cut along `dim`.

    None stands for an operand that every part uses whole; None instead of the list, for an
    operation that cannot be cut there.
    """
    whole: list[int | None] = [None] * len(op.operands)
    every: list[int | None] = [dim] * len(op.operands)
    match op:
        case ElementwiseOp() | aa.LoadOp() | aa.StoreOp():
            return [dim if isinstance(v.type, TensorType) else None for v in op.operands]
        case aa.SplatOp() | aa.MakeRangeOp():
            return whole
        case aa.ConstantOp():
            return whole if op.value.is_splat else None
        case aa.BroadcastOp():
            is_whole = shape_of(op.source)[dim] != shape_of(op.result)[dim]
            return whole if is_whole else [dim]
        case aa.PermuteOp():
            return [int(op.permutation.get_values()[dim])]
        case aa.ReshapeOp():
            source = _reshaped_dim(op, dim, parts)
            return None if source is None else [source]
        case aa.TiledLoadOp():
            return whole if divides(op.view, dim, parts) else None
        case aa.TiledStoreOp():
            return [dim, *whole[1:]] if divides(op.view, dim, parts) else None
        case aa.DotOp():
            return _dot_dims(op, dim)
        case aa.DotScaledOp():
            lhs, rhs, acc = _dot_dims(op, dim)
            return [lhs, rhs, acc, lhs, rhs]
        case aa.ReduceOp():
            inner = dim if dim < op.dim.value.data else dim + 1
            return [inner for _ in whole]
        case aa.ScanOp() | aa.CatOp():
            return None if dim == op.dim.value.data else every
        case aa.ExtractOp():
            # Where the slice is as long as its source, its index is 0 for every part.
            is_whole = shape_of(op.source)[dim] == shape_of(op.result)[dim]
            return [dim, *whole[1:]] if is_whole else None
        case aa.PackOp() | aa.UnpackOp():
            return [dim]
        case _:
            return None


def _dot_dims(op: aa.ProductOp, dim: int) -> list[int | None]:
    """Rows come from the left operand, columns from the right one, batches from both."""
    shape = shape_of(op.result)
    if dim == len(shape) - 1:
        return [None, dim, dim]
    return [dim, dim if dim < len(shape) - 2 else None, dim]


def divides(view: SSAValue, dim: int, parts: int) -> bool:
    """Whether accesses through a view can be cut: not along gathered coordinates."""
    type = view_type_of(view)
    return type.sparse_dim is None and type.tile_shape[dim] % parts == 0


def _reshaped_dim(op: aa.ReshapeOp, dim: int, parts: int) -> int | None:
    """The dim of the source whose highest index bits are those of the result's `dim`."""
    if not isinstance(op.source.type, TensorType):
        return None
    shape, source = shape_of(op.result), shape_of(op.source)
    end = prod(shape[dim:])
    for axis, size in enumerate(source):
        if prod(source[axis:]) == end and size >= parts:
            return axis
    return None

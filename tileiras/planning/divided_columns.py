"""Kernels that go down columns tile after tile, whose columns the CTAs of a cluster may divide.

    for %i { %x = load %a[%i, %pid] of 64x128; %s = scan %x dim 0; store %s + %before, .. }
    -> for %i { %x = load %a[%i, 2 * %pid + %rank] of 64x64; .. }

Such a grid has a tile block for 128 columns, which may be fewer than there are SMs, and what an
iteration waits for is long beside what it loads. Columns have nothing to do with each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue
from xdsl.traits import Pure

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.planning.memory_order import follows_write
from tileiras.planning.tile_scheduler.communication import may_communicate
from tileiras.planning.tiling.slicing import operand_dims

LEAST_COLUMNS = 64
"""Policy: columns of a part."""
LEAST_ROW_BITS = 8 * 128
"""Policy: of a row of a part: a line of the caches."""
LEAST_SCANNED, LEAST_REDUCED = 1024, 4096
"""Policy: elements of a tile that is scanned, or reduced, in every iteration."""
_COMBINES = (aa.ReduceOp, aa.ScanOp)
_ALLOWED = (
    *(aa.TiledLoadOp, aa.TiledStoreOp, aa.ForOp, aa.ReduceOp, aa.ScanOp),
    *(aa.ContinueOp, aa.ReturnOp, aa.YieldOp, aa.JoinMemTokensOp, aa.CreateMemTokenOp),
)


@dataclass(frozen=True)
class DividedColumns:
    """A kernel of such a loop: along which dim each tile is cut, and into how many parts at most.

    The rows of parts are whole lines of memory.
    """

    loop: aa.ForOp
    dims: dict[SSAValue, int]
    parts: int


def find_divided_columns(func: aa.FuncOp) -> DividedColumns | None:
    """How CTAs divide the columns of a kernel, None if that is not known to be right or good."""
    loops = [op for op in func.body.block.ops if isinstance(op, aa.ForOp)]
    loops = list(filter(_goes_down_columns, loops))
    if not loops:
        return None
    operations = [op for op in func.walk() if op is not func]
    if not all(map(_is_allowed, operations)) or any(map(may_communicate, operations)):
        return None
    columns = _Columns()
    stores = [op for op in operations if isinstance(op, aa.TiledStoreOp)]
    if not all(columns.cut(op.value, _contiguous_dim(op.view)) for op in stores):
        return None
    loads = [op for op in operations if isinstance(op, aa.TiledLoadOp)]
    if any(columns.dims.get(op.result) != _contiguous_dim(op.view) for op in loads):
        return None
    if any(map(follows_write, loads)):  # What another CTA of the cluster writes, maybe.
        return None
    if not stores or not all(columns.is_cut(op) for op in operations):
        return None
    parts = min(_most_parts(op.view) for op in (*loads, *stores))
    return DividedColumns(loops[0], columns.dims, parts) if parts > 1 else None


def _goes_down_columns(loop: aa.ForOp) -> bool:
    """Whether a loop scans or reduces large tiles in every iteration."""
    combined = [op for op in loop.body.block.ops if isinstance(op, _COMBINES)]
    sizes = [prod(shape_of(op.operands[0])) for op in combined]
    has_scan = any(isinstance(op, aa.ScanOp) for op in combined)
    return max(sizes, default=0) >= (LEAST_SCANNED if has_scan else LEAST_REDUCED)


def _is_allowed(op: Operation) -> bool:
    """Whether an operation may be done for a part of the columns."""
    if isinstance(op, _ALLOWED) or isinstance(op.parent_op(), _COMBINES):
        return True
    return op.has_trait(Pure) and not op.regions


def _contiguous_dim(view: SSAValue) -> int:
    """The dim of a view's tiles whose elements lie side by side; -1 if there is none."""
    type = view_type_of(view)
    if type.sparse_dim is not None:
        return -1
    strides = [type.memref.strides[dim] for dim in type.dim_map]
    return strides.index(1) if strides.count(1) == 1 else -1


def _most_parts(view: SSAValue) -> int:
    """Into how many parts the columns of a view's tiles may be cut; those of results have any."""
    type, dim = view_type_of(view), _contiguous_dim(view)
    columns, parts = type.tile_shape[dim], 1
    bits = LEAST_ROW_BITS // storage_bits(type.memref.element_type)
    least = max(LEAST_COLUMNS, bits) if prod(type.tile_shape) > columns else LEAST_COLUMNS
    while columns % (2 * parts) == 0 and columns // (2 * parts) >= least:
        parts *= 2
    return parts


class _Columns:
    """What is cut along which dim, so that a part of each store needs a part of everything."""

    def __init__(self) -> None:
        self.dims: dict[SSAValue, int] = {}

    def cut(self, value: SSAValue, dim: int) -> bool:
        """Cuts a value and what it is made of; False if that cannot be."""
        if not isinstance(value.type, TensorType):
            return True
        if value in self.dims:
            return self.dims[value] == dim
        if not 0 <= dim < len(shape_of(value)) or shape_of(value)[dim] % 2:
            return False
        self.dims[value] = dim
        return all(self.cut(needed, at) for needed, at in self._needed(value, dim))

    def _needed(self, value: SSAValue, dim: int) -> list[tuple[SSAValue, int]]:
        """What is needed of other values; something that cannot be where that is not known."""
        if isinstance(value, BlockArgument):
            return self._carried(value, value.owner.parent_op(), value.index - 1, dim)
        op = value.owner
        if isinstance(op, aa.ForOp) and isinstance(value, OpResult):
            return self._carried(value, op, value.index, dim)
        dims = operand_dims(op, dim, 2) if isinstance(op, Operation) else None
        if dims is None or not isinstance(op, Operation) or isinstance(op, aa.ProductOp):
            return [(value, -1)]
        pairs = zip(op.operands, dims, strict=True)
        needed = [(operand, at) for operand, at in pairs if at is not None]
        return [*((other, dim) for other in op.results), *needed]

    def _carried(
        self, value: SSAValue, loop: Operation | None, number: int, dim: int
    ) -> list[tuple[SSAValue, int]]:
        """The same tile in all iterations, before and behind them."""
        last = loop.body.block.last_op if isinstance(loop, aa.ForOp) else None
        if not isinstance(loop, aa.ForOp) or not isinstance(last, aa.ContinueOp):
            return [(value, -1)]
        tiles = (loop.init_values[number], last.operands[number], loop.results[number])
        return [(tile, dim) for tile in (*tiles, loop.body.block.args[number + 1])]

    def is_cut(self, op: Operation) -> bool:
        """Whether an operation has parts of all that it makes, if it gets a part of anything."""
        if isinstance(op.parent_op(), _COMBINES) or isinstance(op, aa.ForOp | aa.ContinueOp):
            return True
        if not any(operand in self.dims for operand in op.operands):
            return True
        tiles = [value for value in op.results if isinstance(value.type, TensorType)]
        if isinstance(op, aa.TiledStoreOp):
            return op.value in self.dims
        return bool(tiles) and all(value in self.dims for value in tiles)

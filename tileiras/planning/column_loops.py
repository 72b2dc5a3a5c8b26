"""Loops that reduce in every iteration, along a dim whose elements lie apart in memory.

    for %j .. { %x = load %a[%j, %pid]; %m = reduce %x dim 0; .. }

The tile blocks of such a kernel are those of the columns, of which there may be fewer than an SM
could hold: one of them must keep it busy.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.dialects.nv_tileaa.views import view_type_of

LEAST_ELEMENTS = 1024
"""Policy: of a tile that is loaded: smaller ones are no part of a matrix that is read."""
MOST_SCANNED_BITS, MOST_SCANNED_WORDS = 16, 4096
"""Policy: of elements that are scanned, and how many wider ones of a tile; others keep their
accesses, in which warps exchange totals. Prefix sums down the columns of 8192x8192, us on one H200,
so and with columns within warps: f16 64x64 85 and 76, 64x128 164 and 126; f32 32x64 147 and 140,
16x64 265 and 164, 64x64 146 and 146, 64x128 146 and 178, 128x64 143 and 151.
"""
FEW_TILE_BLOCKS_FROM = 32
"""Policy: rows, or columns, of a tile of which a matrix has so few that an SM may have one."""
_OTHER_WORK = (aa.ProductOp, aa.ForOp, aa.LoopOp)


def column_dim(loop: Operation | None) -> int | None:
    """The dim along which a loop does so with all tiles that it loads; None for other loops.

    Those with products, scans of many wide elements, or loops within are others.
    """
    if not isinstance(loop, aa.ForOp):
        return None
    inside = list(loop.body.block.ops)
    if any(isinstance(op, _OTHER_WORK) for op in inside):
        return None
    dims = {
        op.dim.value.data
        for op in inside
        if isinstance(op, aa.ReduceOp | aa.ScanOp) and _elements(op.operands[0]) >= LEAST_ELEMENTS
    }
    views = [view_type_of(load.view) for load in large_loads(loop)]
    if len(dims) != 1 or not views:
        return None
    if any(isinstance(op, aa.ScanOp) for op in inside) and any(map(_is_wide, views)):
        return None
    dim = dims.pop()
    if any(len(v.tile_shape) <= dim or v.memref.strides[v.dim_map[dim]] == 1 for v in views):
        return None
    return dim


def _is_wide(view: aa.TiledViewType) -> bool:
    """Whether a view's tiles have more wide elements than are scanned within warps."""
    bits = storage_bits(view.memref.element_type)
    return bits > MOST_SCANNED_BITS and prod(view.tile_shape) > MOST_SCANNED_WORDS


def scans_large_tiles(loop: aa.ForOp) -> bool:
    """Whether a loop scans tiles of so many rows, or columns, that there may be few tile blocks."""
    return any(
        size >= FEW_TILE_BLOCKS_FROM
        for op in loop.body.block.ops
        if isinstance(op, aa.ScanOp) and _elements(op.operands[0]) >= LEAST_ELEMENTS
        for dim, size in enumerate(shape_of(op.operands[0]))
        if dim != op.dim.value.data
    )


def large_loads(loop: aa.ForOp) -> list[aa.TiledLoadOp | aa.ReadStageOp]:
    """The loads of large tiles of a loop."""
    loads = [op for op in loop.body.block.ops if isinstance(op, aa.TiledLoadOp | aa.ReadStageOp)]
    return [load for load in loads if _elements(load.result) >= LEAST_ELEMENTS]


def _elements(value: SSAValue) -> int:
    """Elements of a tensor, 1 for a scalar."""
    return prod(value.type.get_shape()) if isinstance(value.type, TensorType) else 1

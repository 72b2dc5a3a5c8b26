"""Loops that reduce or scan in every iteration, along a dim whose elements lie apart in memory.

    for %j .. { %x = load %a[%j, %pid]; %m = reduce %x dim 0; .. }

The tile blocks of such a kernel are those of the columns, of which there may be fewer than an SM
could hold: one of them must keep it busy.
"""

from __future__ import annotations

from xdsl.ir import Operation

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.types import element_count, shape_of
from tileiras.dialects.nv_tileaa.views import view_type_of

LEAST_ELEMENTS = 1024
"""Policy: of a tile that is loaded: smaller ones are no part of a matrix that is read."""
FEW_TILE_BLOCKS_FROM = 32
"""Policy: rows, or columns, of a tile of which a matrix has so few that an SM may have one."""
_OTHER_WORK = (aa.ProductOp, aa.ForOp, aa.LoopOp)


def column_dim(loop: Operation | None) -> int | None:
    """The dim along which a loop does so with all tiles that it loads; None for other loops.

    Those with products, scans or loops within are others.
    """
    if not isinstance(loop, aa.ForOp):
        return None
    inside = list(loop.body.block.ops)
    if any(isinstance(op, (aa.ScanOp, *_OTHER_WORK)) for op in inside):
        return None
    dims = {
        op.dim.value.data
        for op in inside
        if isinstance(op, aa.ReduceOp) and element_count(op.operands[0]) >= LEAST_ELEMENTS
    }
    views = [view_type_of(load.view) for load in large_loads(loop)]
    if len(dims) != 1 or not views:
        return None
    dim = dims.pop()
    return dim if all(_lies_apart(view, dim) for view in views) else None


def _lies_apart(view: aa.TiledViewType, dim: int) -> bool:
    """Whether elements along a dim of a view's tiles lie apart in memory."""
    return dim < len(view.tile_shape) and view.memref.strides[view.dim_map[dim]] != 1


def scans_down_columns(loop: Operation | None) -> bool:
    """Whether a loop scans large tiles along a dim whose elements lie apart in memory.

    Warps have rows, and exchange totals once for each tile: a thread loads 16 bytes, past L1, and
    stores what it has. Where warps had columns of their own, threads loaded 8 bytes of f16 through
    L1, which is small where shared memory is large. Prefix sums of 8192x8192 f16 in 64x64, us on
    one H200, with six tiles on their way 74.8 and so 68.7; 2048x65536 161.0 and 152.5.
    """
    if not isinstance(loop, aa.ForOp):
        return False
    inside = list(loop.body.block.ops)
    dims = {
        op.dim.value.data
        for op in inside
        if isinstance(op, aa.ScanOp) and element_count(op.operands[0]) >= LEAST_ELEMENTS
    }
    views = [view_type_of(load.view) for load in large_loads(loop)]
    if len(dims) != 1 or not views or any(isinstance(op, _OTHER_WORK) for op in inside):
        return False
    dim = dims.pop()
    return all(_lies_apart(view, dim) for view in views)


def scans_large_tiles(loop: aa.ForOp) -> bool:
    """Whether a loop scans tiles of so many rows, or columns, that there may be few tile blocks."""
    return any(
        size >= FEW_TILE_BLOCKS_FROM
        for op in loop.body.block.ops
        if isinstance(op, aa.ScanOp) and element_count(op.operands[0]) >= LEAST_ELEMENTS
        for dim, size in enumerate(shape_of(op.operands[0]))
        if dim != op.dim.value.data
    )


def large_loads(loop: aa.ForOp) -> list[aa.TiledLoadOp | aa.ReadStageOp]:
    """The loads of large tiles of a loop."""
    loads = [op for op in loop.body.block.ops if isinstance(op, aa.TiledLoadOp | aa.ReadStageOp)]
    return [load for load in loads if element_count(load.result) >= LEAST_ELEMENTS]

"""Loops that reduce or scan, in every iteration, along a dim whose elements lie apart in memory.

    for %j .. { %x = load %a[%j, %pid]; %m = reduce %x dim 0; .. }

The tile blocks of such a kernel are those of the columns, of which there may be fewer than an SM
could hold: one of them must keep it busy.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.views import view_type_of

LEAST_ELEMENTS = 1024
"""Policy: of a tile that is loaded: smaller ones are no part of a matrix that is read."""


def goes_down_columns(loop: Operation) -> bool:
    """Whether a loop does so with all tiles that it loads, and has no products."""
    if not isinstance(loop, aa.ForOp):
        return False
    inside = list(loop.body.block.ops)
    if any(isinstance(op, aa.ProductOp | aa.ForOp | aa.LoopOp) for op in inside):
        return False
    dims = combined_dims(inside)
    loads = [op for op in inside if isinstance(op, aa.TiledLoadOp | aa.ReadStageOp)]
    loads = [op for op in loads if _elements(op.result) >= LEAST_ELEMENTS]
    if not dims or not loads:
        return False
    views = [view_type_of(load.view) for load in loads]
    return not any(
        len(view.tile_shape) <= dim or view.memref.strides[view.dim_map[dim]] == 1
        for view in views
        for dim in dims
    )


def combined_dims(ops: list[Operation]) -> set[int]:
    """The dims along which large tiles are reduced or scanned."""
    return {
        op.dim.value.data
        for op in ops
        if isinstance(op, aa.ReduceOp | aa.ScanOp) and _elements(op.operands[0]) >= LEAST_ELEMENTS
    }


def _elements(value: SSAValue) -> int:
    """Elements of a tensor, 1 for a scalar."""
    return prod(value.type.get_shape()) if isinstance(value.type, TensorType) else 1

"""Loops that stream: they load tiles and combine them element by element, and do nothing else.

Column sums are such loops. A grid of them may be smaller than the GPU has SMs, so one tile block
must be able to keep an SM busy: with more warps, more bytes on the way, and copies that leave no
tile behind in L1, where nobody reads it again. Sums of the columns of 65536x2048 f32 by 16 tile
blocks, tiles of 64x128, us on one H200: with tiles in L1 313, without 244.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa

STREAMED_ELEMENTS = 4096
"""Policy: smaller tiles are parts of rows, of which there are many tile blocks."""
_OTHER_WORK = (aa.ProductOp, aa.TiledStoreOp, aa.ReduceOp, aa.ScanOp)


def only_combines_tiles(op: Operation, least: int = STREAMED_ELEMENTS) -> bool:
    """Whether this is a loop that loads tiles of so many elements and combines them, no more."""
    if not isinstance(op, aa.ForOp):
        return False
    inside = list(op.body.block.ops)
    if any(isinstance(inner, _OTHER_WORK) or inner.regions for inner in inside):
        return False
    loads = [inner for inner in inside if isinstance(inner, aa.TiledLoadOp | aa.ReadStageOp)]
    carried = any(isinstance(arg.type, TensorType) for arg in op.body.block.args)
    return carried and any(_elements(load.result) >= least for load in loads)


def _elements(value: SSAValue) -> int:
    """Elements of a tensor, 1 for a scalar."""
    return prod(value.type.get_shape()) if isinstance(value.type, TensorType) else 1

"""Scales of products that tcgen05 computes: how they come to stages, whence it takes them.

A tile of scales qualifies if it is loaded through a view, at most reshaped and permuted, and two of
its dims count: rows (of A, columns of B), and blocks along K. The producer's threads copy it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering, PaddingValue
from tileiras.dialects.layout.scale_factors import WORD_BLOCKS
from tileiras.dialects.layout.shared import row_major
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of
from tileiras.errors import InternalError
from tileiras.planning.operands.tma import (
    FIRST_SCALE,
    SharedOperand,
    pushed,
    scale_uses,
    tile_uses,
    underneath,
)
from tileiras.planning.operands.view_copy import MAX_COPIES, alignment

LEAST_BLOCKS = 2
"""Policy: scales of a row in a stage. Of one it could not be told which dim is along K."""
COPY_THREADS = 128
"""Fixed: those of the producer that copy."""


@dataclass(frozen=True)
class ScaleDims:
    """The dims of a loaded tile along the rows and along K."""

    rows: int
    k: int


def scale_operand(op: aa.DotScaledOp, index: int) -> SharedOperand | str:
    """The scales that are operand `index` of a product as stages bring them, or why they cannot."""
    value = op.operands[index]
    load = underneath(value)
    if not isinstance(load, OpResult) or not isinstance(load.op, aa.TiledLoadOp):
        return "scales are not loaded through a view"
    if load.op.parent_block() is not op.parent_block():
        return "scales are not loaded beside the product"
    uses, type = list(tile_uses(load.op)), view_type_of(load.op.view)
    is_plain = load.op.ordering.data == MemoryOrdering.WEAK and type.sparse_dim is None
    has_zeros = type.padding_value in (None, PaddingValue.ZERO)
    if not is_plain or not has_zeros or storage_bits(type.memref.element_type) != 8:
        return "scales are loaded in a way that a copy does not know"
    # Else a tile could start below the tensor and end in it.
    if any(step % extent for step, extent in zip(type.steps, type.tile_shape, strict=True)):
        return "tiles of scales overlap or leave gaps"
    if len(uses) != len(list(scale_uses(load.op))) or any(
        use.operation.parent_block() is not op.parent_block() for use in uses
    ):
        return "scales are read by others than products"
    k_axis = 1 if index == FIRST_SCALE else 0
    if shape_of(value)[k_axis] < LEAST_BLOCKS:
        return f"fewer than {LEAST_BLOCKS} scales along K"
    dims = [_dims(use.operation.operands[use.index], load.op, use.index) for use in uses]
    if dims[0] is None or any(other != dims[0] for other in dims):
        return "a reshape mixes scales of rows"
    words = -(-shape_of(value)[k_axis] // WORD_BLOCKS) * shape_of(value)[1 - k_axis]
    if words > MAX_COPIES * COPY_THREADS:
        return "there are too many scales"
    return SharedOperand(load.op, k_axis, 0)


def scale_dims(load: aa.TiledLoadOp) -> ScaleDims:
    """The dims of a tile of scales that a pipeline brings."""
    for use in scale_uses(load):
        found = _dims(use.operation.operands[use.index], load, use.index)
        if found is not None:
            return found
    raise InternalError("a tile of scales has no dim along K")


def scale_vector(load: aa.TiledLoadOp) -> int:
    """Scales along K that one copy moves: a word by cp.async, or single ones."""
    type, axis = view_type_of(load.view), scale_dims(load).k
    is_along = type.memref.strides[type.dim_map[axis]] == 1
    is_whole = type.tile_shape[axis] >= WORD_BLOCKS
    known = alignment(type, memref_of(load.view), axis)
    return WORD_BLOCKS if is_along and is_whole and known % WORD_BLOCKS == 0 else 1


def _dims(value: SSAValue, load: aa.TiledLoadOp, index: int) -> ScaleDims | None:
    """Which dims of the loaded tile are those of the scales that a product reads."""
    shape, k_axis = shape_of(load.result), 1 if index == FIRST_SCALE else 0
    rows, blocks = shape_of(value)[1 - k_axis], shape_of(value)[k_axis]
    for k in [dim for dim, extent in enumerate(shape) if extent == blocks]:
        others = [dim for dim in reversed(range(len(shape))) if dim != k]
        seen = pushed(value, row_major(shape, (k, *others)))
        found = [dim for dim in others if shape[dim] == rows]
        if found and seen == row_major(seen.shape, (k_axis, 1 - k_axis)):
            return ScaleDims(found[0], k)
    return None

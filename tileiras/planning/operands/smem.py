"""Loads whose tiles mma.sync reads where cp.async has copied them to.

Without TMA and wgmma a product's operands pass through registers and are staged, which takes two
meetings of the threads and a copy. Loaded early, a tile may lie in its stage as a staged one would
(`dialects/layout/operands`): fragments are read from there.
"""

from __future__ import annotations

from xdsl.ir import OpResult, SSAValue

from tileiras.codegen.target import Feature
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import PaddingValue
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.blocked import contiguous_vector
from tileiras.dialects.layout.offsets import owner_mask
from tileiras.dialects.layout.operands import OperandTile, plan_operand
from tileiras.dialects.nv_tileaa.rearranged import source_layout
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.planning.access import plan_view_access
from tileiras.planning.mma.dots import plan_dot
from tileiras.planning.model.cta import CtaPlan
from tileiras.planning.operands.tma import (
    pushed,
    rounds_to_tf32,
    tile_uses,
    transparent_users,
    underneath,
)

BYTE_BITS = 8
"""Fixed: bits of a byte."""
COPY_BITS = (32, 64, 128)
"""Fixed: what cp.async copies at once."""


def stage_layout(load: aa.TiledLoadOp | aa.ReadStageOp, plan: CtaPlan) -> LinearLayout | None:
    """Where the elements of a tile lie in a stage ("offset" -> coordinates of the loaded tile).

    None if the tile has to pass through registers: something else than products of the same block
    reads it, or they want it in different ways; it is rounded; copies would tear elements apart
    that fragments have together; several threads would copy the same; or what stands for elements
    out of bounds is not zero.
    """
    type = view_type_of(load.view)
    bits = storage_bits(type.memref.element_type)
    if type.padding_value not in (None, PaddingValue.ZERO) or bits < BYTE_BITS:
        return None
    # With mma.sync a rounding to tf32 stays one (decision 0009): it is done in registers.
    if type.sparse_dim is not None or any(map(rounds_to_tf32, transparent_users(load))):
        return None
    access = plan_view_access(load.view, plan.num_warps)
    run = contiguous_vector(access.layout, access.axis, access.vector)
    if run * bits not in COPY_BITS or owner_mask(access.layout) != (0, 0):
        return None
    found: LinearLayout | None = None
    for use in tile_uses(load):
        dot = use.operation
        if not isinstance(dot, aa.ProductOp) or dot.parent_block() is not load.parent_block():
            return None
        layout = _for_product(dot, use.index, access.layout, bits, run, plan)
        if layout is None or (found is not None and layout != found):
            return None
        found = layout
    return found


def is_in_smem(value: SSAValue) -> bool:
    """Whether an operand is a tile that products read in a stage."""
    value = underneath(value)
    if not isinstance(value, OpResult) or not isinstance(value.op, aa.ReadStageOp):
        return False
    buffer = value.op.buffer.owner
    return isinstance(buffer, aa.CircularBufferOp) and buffer.shared is not None


def _for_product(
    dot: aa.ProductOp, index: int, source: LinearLayout, bits: int, run: int, plan: CtaPlan
) -> LinearLayout | None:
    """The stage of one of a product's operands, of which `run` elements are copied at once."""
    product = plan_dot(dot, plan)
    if index > 1 or product.lhs is None or product.rhs is None or product.widens_to_f16:
        return None
    value, fragment = ((dot.lhs, product.lhs), (dot.rhs, product.rhs))[index]
    placed, k_dim = pushed(value, source), -1 - index
    tile = plan_operand(placed, fragment, k_dim, bits, plan.target.has(Feature.LDMATRIX))
    return _pulled(value, tile) if tile.is_matrix and tile.store_vector >= run else None


def _pulled(value: SSAValue, tile: OperandTile) -> LinearLayout:
    """The layout of the operand as the load sees it, under reshapes and permutations."""
    layout = tile.shared
    while isinstance(value, OpResult) and isinstance(value.op, aa.ReshapeOp | aa.PermuteOp):
        layout, value = source_layout(value.op, layout), value.op.source
    return layout

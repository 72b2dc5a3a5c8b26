"""Operands of tcgen05 in their stages: what they are, and which columns their scales take."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tileiras.codegen.atoms.shared_operands import SharedOperand
from tileiras.codegen.lowering.types import storage_bits
from tileiras.dialects.layout.scale_factors import scale_columns
from tileiras.dialects.nv_tileas.memdesc import is_in_smem
from tileiras.dialects.nv_tileas.tcgen05 import Tcgen05DotScaledOp
from tileiras.errors import InternalError


def operand_in_stage(tile: SSAValue, k_axis: int) -> SharedOperand:
    """How a tile lies, seen from the product: K runs along dim `k_axis`.

    Of one that a pair of CTAs shares, what this CTA has of it.
    """
    type = tile.type
    if not is_in_smem(type):
        raise InternalError("an operand of tcgen05 is not in shared memory", where="tcgen05")
    major = "k" if type.major == k_axis else "mn"
    extent, k = type.own_shape[1 - k_axis], type.own_shape[k_axis]
    return SharedOperand(major, extent, k, storage_bits(type.element_type), type.swizzle, type.atom)


def scale_columns_end(op: Tcgen05DotScaledOp) -> int:
    """The column behind the scales of a product."""
    (rows, _), (_, columns) = scale_shapes(op)
    blocks = scale_blocks(op.lhs_scale)
    return op.column.data + scale_columns(rows, blocks) + scale_columns(columns, blocks)


def scale_shapes(op: Tcgen05DotScaledOp) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of both operands, whole also where a pair of CTAs shares one."""
    if not is_in_smem(op.lhs.type) or not is_in_smem(op.rhs.type):
        raise InternalError("operands are not in stages", where="tcgen05")
    return op.lhs.type.shape, op.rhs.type.shape


def scale_blocks(lhs_scale: SSAValue) -> int:
    """Scales along K."""
    if not is_in_smem(lhs_scale.type):
        raise InternalError("scales are not in a stage", where="tcgen05")
    return lhs_scale.type.shape[1]

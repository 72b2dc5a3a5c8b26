"""Operands of mma.sync in stages of pipelines, where TMA has written them through its swizzle."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tileiras.codegen.atoms.shared_operands import SharedOperand
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.smem_tiles import SmemTile
from tileiras.codegen.lowering.types import storage_bits
from tileiras.dialects.nv_tileas.memdesc import is_in_smem


def is_in_stage(value: SSAValue) -> bool:
    """Whether an operand lies in a stage of a pipeline."""
    return is_in_smem(value.type)


def operand_shape(ctx: KernelLowering, value: SSAValue) -> tuple[int, ...]:
    """Shape of an operand, in registers or in a stage."""
    if is_in_smem(value.type):
        return value.type.shape
    return ctx.layout(value.type).shape


def tile_of(ctx: KernelLowering, value: SSAValue, k_axis: int) -> SmemTile | None:
    """Where an operand lies that was copied to shared memory; None if it is in registers."""
    type = value.type
    if not is_in_smem(type):
        return ctx.smem_tiles.get(value)
    major = "k" if type.major == k_axis else "mn"
    extent, k = type.shape[1 - k_axis], type.shape[k_axis]
    operand = SharedOperand(major, extent, k, storage_bits(type.element_type), type.swizzle)
    return SmemTile(ctx.value(value), operand.layout(k_axis))

"""Which block-scaled mma.sync computes a product with scales, or why none does."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
)
from xdsl.ir import Attribute, SSAValue, Use

from tileiras.codegen.atoms.mma import MmaAtom, get_mma_atom
from tileiras.codegen.target import Feature, GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.planning.operands.tma import FIRST_SCALE

_NAMES: dict[type[Attribute], str] = {Float8E4M3FNType: "e4m3", Float8E5M2Type: "e5m2"}
"""PTX's names of elements that have a byte each."""
_F4_ATOMS: dict[tuple[type[Attribute], int], str] = {
    (Float8E8M0FNUType, 32): "m16n8k64_f32_e2m1_2x_ue8m0",
    (Float8E4M3FNType, 16): "m16n8k64_f32_e2m1_4x_ue4m3",
}
"""Atoms for f4 by the type of the scales and the elements that share one."""


def is_scale_use(use: Use) -> bool:
    """Whether a value is used as the scales of a product."""
    return isinstance(use.operation, aa.DotScaledOp) and use.index >= FIRST_SCALE


def is_scale(value: SSAValue) -> bool:
    """Whether a value is the scales of a product, of this iteration of a loop or the next."""
    for use in value.uses:
        op = use.operation
        if is_scale_use(use):
            return True
        loop, skip = (op, 3) if isinstance(op, aa.ForOp) else (op.parent_op(), 0)
        is_handed_on = isinstance(op, aa.ForOp | aa.ContinueOp) and use.index >= skip
        if is_handed_on and isinstance(loop, aa.ForOp):
            argument = loop.body.block.args[1 + use.index - skip]
            if any(map(is_scale_use, argument.uses)):
                return True
    return False


def find_scaled_atom(op: aa.DotScaledOp, target: GpuTarget) -> MmaAtom | str:
    """The instruction for the types and blocks of a product, or the reason why there is none."""
    if not target.has(Feature.BLOCK_SCALED_MMA):
        return "the target has no block-scaled mma.sync"
    lhs, rhs = op.operand_element(op.lhs), op.operand_element(op.rhs)
    scale = element_of(op.lhs_scale)
    if isinstance(lhs, Float4E2M1FNType) and isinstance(rhs, Float4E2M1FNType):
        name = _F4_ATOMS.get((type(scale), op.block))
        if name is None:
            return f"no instruction has scales of {scale} for {op.block} elements each"
    elif type(lhs) in _NAMES and type(rhs) in _NAMES:
        types = dict.fromkeys(_NAMES[type(element)] for element in (lhs, rhs))
        name = f"m16n8k32_f32_{'_'.join(types)}_1x_ue8m0"
    else:
        return f"no instruction multiplies {lhs} by {rhs}"
    atom, shape = get_mma_atom(name), shape_of(op.result)
    if shape[-2] < atom.m or shape[-1] < atom.n or op.depth < atom.k:
        size = f"{shape[-2]}x{shape[-1]}x{op.depth}"
        return f"a product of {size} is smaller than an instruction ({atom.m}x{atom.n}x{atom.k})"
    return atom

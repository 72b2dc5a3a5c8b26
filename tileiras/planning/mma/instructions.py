"""Which mma.sync instruction computes a product, and how warps share the tile."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatTF32Type,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute

from tileiras.codegen.target import Feature, GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import Signedness, SignednessAttr
from tileiras.dialects.layout.mma import (
    M8N8K4_F64,
    M16N8K8_TF32,
    M16N8K16_F16,
    M16N8K32_S8,
    MmaFragments,
)
from tileiras.dialects.nv_tileaa.types import element_of
from tileiras.planning.mma.block_scaled import find_scaled_atom


@dataclass(frozen=True)
class Instruction:
    """An mma.sync instruction for a pair of element types."""

    atom: str
    fragments: MmaFragments
    feature: Feature
    widens_to_f16: bool = False
    """Whether f8 operands are made f16 first, exactly: that is faster without units for f8."""


_FLOAT_ATOMS: dict[tuple[type[Attribute], type[Attribute]], Instruction] = {
    (Float16Type, Float32Type): Instruction("m16n8k16_f32_f16", M16N8K16_F16, Feature.MMA_SYNC),
    (Float16Type, Float16Type): Instruction("m16n8k16_f16_f16", M16N8K16_F16, Feature.MMA_SYNC),
    (BFloat16Type, Float32Type): Instruction("m16n8k16_f32_bf16", M16N8K16_F16, Feature.MMA_SYNC),
    (FloatTF32Type, Float32Type): Instruction("m16n8k8_f32_tf32", M16N8K8_TF32, Feature.MMA_SYNC),
    (Float64Type, Float64Type): Instruction("m8n8k4_f64_f64", M8N8K4_F64, Feature.F64_MMA),
    (Float8E4M3FNType, Float32Type): Instruction("m16n8k32_f32_e4m3", M16N8K32_S8, Feature.FP8_MMA),
    (Float8E5M2Type, Float32Type): Instruction("m16n8k32_f32_e5m2", M16N8K32_S8, Feature.FP8_MMA),
    (Float8E4M3FNType, Float16Type): Instruction("m16n8k32_f16_e4m3", M16N8K32_S8, Feature.FP8_MMA),
    (Float8E5M2Type, Float16Type): Instruction("m16n8k32_f16_e5m2", M16N8K32_S8, Feature.FP8_MMA),
}
"""Instruction by (operand, accumulator) element type; f32 has none: it stays true f32."""


def find_instruction(op: aa.ProductOp, target: GpuTarget) -> Instruction | None:
    """The instruction for the element types, None where the target has none."""
    if isinstance(op, aa.DotScaledOp):
        atom = find_scaled_atom(op, target)
        return None if isinstance(atom, str) else Instruction(atom.name, M16N8K32_S8, atom.feature)
    lhs, acc = element_of(op.lhs), element_of(op.result)
    if isinstance(lhs, IntegerType):
        signs = [_sign(op.signedness_lhs), _sign(op.signedness_rhs)]
        operands = signs[0] if signs[0] == signs[1] else "_".join(signs)
        found = Instruction(f"m16n8k32_s32_{operands}", M16N8K32_S8, Feature.MMA_SYNC)
    elif isinstance(lhs, Float8E4M3FNType | Float8E5M2Type) and _widens_f8(target):
        found = replace(_FLOAT_ATOMS[Float16Type, type(acc)], widens_to_f16=True)
    else:
        found = _FLOAT_ATOMS.get((type(lhs), type(acc)))
    return found if found is not None and target.has(found.feature) else None


def _widens_f8(target: GpuTarget) -> bool:
    """Whether the target's instruction for f8 is slower than that for f16."""
    return target.has(Feature.FP8_MMA) and not target.has(Feature.FP8_MMA_NATIVE)


def _sign(signedness: SignednessAttr | None) -> str:
    """PTX's type of an 8-bit integer operand."""
    return "u8" if signedness is not None and signedness.data == Signedness.UNSIGNED else "s8"


def holds_atom(fragments: MmaFragments, lhs: TensorType[Attribute], shape: tuple[int, ...]) -> bool:
    """Whether the tile holds at least one atom."""
    m, n, k = fragments.shape
    return shape[-2] >= m and shape[-1] >= n and lhs.get_shape()[-1] >= k


def arrange_warps(m: int, n: int, fragments: MmaFragments, num_warps: int) -> tuple[int, int]:
    """Warps along M and N: each warp's part as square as can be, to reuse operands most."""
    atom_m, atom_n, _ = fragments.shape
    warps_m = warps_n = 1
    while warps_m * warps_n < num_warps:
        part_m, part_n = m // warps_m, n // warps_n
        if part_m > atom_m and (part_m >= part_n or part_n <= atom_n):
            warps_m *= 2
        else:
            warps_n *= 2
    return warps_m, warps_n

"""Which mma.sync instruction computes a product, and how warps share the tile."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects.builtin import Float8E4M3FNType, Float8E5M2Type
from xdsl.ir import Attribute

from tileiras.codegen.atoms.element_names import mma_element
from tileiras.codegen.atoms.mma import MmaAtom, mma_atoms_of
from tileiras.codegen.target import Feature, GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import Signedness, SignednessAttr
from tileiras.dialects.layout.mma import MmaFragments
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.planning.mma.block_scaled import find_scaled_atom


@dataclass(frozen=True)
class Instruction:
    """An mma.sync instruction for a product."""

    row: MmaAtom
    widens_to_f16: bool = False
    """Whether f8 operands are made f16 first, exactly: that is faster without units for f8."""

    @property
    def atom(self) -> str:
        """The name of the row."""
        return self.row.name

    @cached_property
    def fragments(self) -> MmaFragments:
        """Which elements of a tile of the instruction's each thread holds."""
        return self.row.layouts()


def find_instruction(op: aa.ProductOp, target: GpuTarget) -> Instruction | None:
    """The first row for the element types that the target has and that fits into the tiles.

    None if there is none. That of f32 multiplies parts of its operands, with f32's accuracy.
    """
    if isinstance(op, aa.DotScaledOp):
        scaled = find_scaled_atom(op, target)
        return None if isinstance(scaled, str) else Instruction(scaled)
    widens_to_f16 = _widens_f8(element_of(op.lhs), target)
    names = [
        "f16" if widens_to_f16 else mma_element(element_of(value), _is_unsigned(sign))
        for value, sign in ((op.lhs, op.signedness_lhs), (op.rhs, op.signedness_rhs))
    ]
    accumulator = mma_element(element_of(op.result))
    if None in names or accumulator is None:
        return None
    for row in mma_atoms_of(str(names[0]), str(names[1]), accumulator):
        if target.has(row.feature) and _fits(row, op):
            return Instruction(row, widens_to_f16)
    return None


def _widens_f8(element: Attribute, target: GpuTarget) -> bool:
    """Whether operands are f8, and the target's instruction for them slower than that for f16."""
    if not isinstance(element, Float8E4M3FNType | Float8E5M2Type):
        return False
    return target.has(Feature.FP8_MMA) and not target.has(Feature.FP8_MMA_NATIVE)


def _is_unsigned(signedness: SignednessAttr | None) -> bool:
    """Whether an 8-bit integer operand is unsigned."""
    return signedness is not None and signedness.data == Signedness.UNSIGNED


def _fits(row: MmaAtom, op: aa.DotOp) -> bool:
    """Whether the tiles hold at least one tile of the instruction's."""
    lhs, shape = shape_of(op.lhs), shape_of(op.result)
    return shape[-2] >= row.m and shape[-1] >= row.n and lhs[-1] >= row.k


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

"""How a matrix product is computed: which instruction, which warps, which layouts."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import (
    Float8E4M3FNType,
    Float8E5M2Type,
    TensorType,
)
from xdsl.ir import Attribute, SSAValue

from tileiras.codegen.atoms.element_names import mma_element
from tileiras.codegen.atoms.mma import MmaAtom, mma_atoms_of
from tileiras.codegen.target import Feature, GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import Signedness, SignednessAttr
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.mma import (
    MmaFragments,
    mma_operand_layout,
)
from tileiras.dialects.layout.outer_product import outer_product
from tileiras.errors import InternalError
from tileiras.planning.model.cta import CtaPlan


@dataclass(frozen=True)
class DotPlan:
    """Layouts of a product; `atom` is empty where it is done by fused multiply-adds."""

    atom: str
    warps: tuple[int, int]
    lhs: LinearLayout | None
    rhs: LinearLayout | None
    result: LinearLayout
    widens_to_f16: bool = False
    """Whether the operands are made f16 first."""


def _atom(op: aa.DotOp, target: GpuTarget, widens_to_f16: bool) -> MmaAtom | None:
    """The first instruction for the element types that the target has and that fits, or None.

    f32 has none: it stays true f32.
    """
    lhs, rhs, acc = (_tensor(value) for value in (op.lhs, op.rhs, op.result))
    signs = [_is_unsigned(op.signedness_lhs), _is_unsigned(op.signedness_rhs)]
    names = [
        "f16" if widens_to_f16 else mma_element(tensor.element_type, sign)
        for tensor, sign in zip((lhs, rhs), signs, strict=True)
    ]
    accumulator = mma_element(acc.element_type)
    if None in names or accumulator is None:
        return None
    for atom in mma_atoms_of(str(names[0]), str(names[1]), accumulator):
        if target.has(atom.feature) and _fits(atom, lhs, acc.get_shape()):
            return atom
    return None


def _widens_f8(element: Attribute, target: GpuTarget) -> bool:
    """Whether operands are f8, and the target's instruction for them slower than that for f16."""
    if not isinstance(element, Float8E4M3FNType | Float8E5M2Type):
        return False
    return target.has(Feature.FP8_MMA) and not target.has(Feature.FP8_MMA_NATIVE)


def _is_unsigned(signedness: SignednessAttr | None) -> bool:
    """Whether an 8-bit integer operand is unsigned."""
    return signedness is not None and signedness.data == Signedness.UNSIGNED


def _tensor(value: SSAValue) -> TensorType[Attribute]:
    if not isinstance(value.type, TensorType):
        raise InternalError("an operand of a dot is no tensor")
    return value.type


def plan_dot(op: aa.DotOp, plan: CtaPlan) -> DotPlan:
    """mma.sync where the target has it for these types and the tile holds an atom, else FMA."""
    lhs, rhs, result = _tensor(op.lhs), _tensor(op.rhs), _tensor(op.result)
    shape = result.get_shape()
    if plan.hopper is not None and op in plan.hopper.dots:
        layout = plan.hopper.result_layout(op)
        return DotPlan("wgmma", (4 * plan.hopper.warpgroups, 1), None, None, layout)
    widens_to_f16 = _widens_f8(lhs.element_type, plan.target)
    atom = _atom(op, plan.target, widens_to_f16)
    if atom is None:
        return DotPlan("", (1, 1), None, None, outer_product(shape, plan.num_warps))
    fragments = atom.layouts()
    warps = _arrange_warps(shape[-2], shape[-1], fragments, plan.num_warps)
    return DotPlan(
        atom.name,
        warps,
        mma_operand_layout(fragments.a, lhs.get_shape(), warps, "A"),
        mma_operand_layout(fragments.b, rhs.get_shape(), warps, "B"),
        mma_operand_layout(fragments.c, shape, warps, "C"),
        widens_to_f16,
    )


def _fits(atom: MmaAtom, lhs: TensorType[Attribute], shape: tuple[int, ...]) -> bool:
    """Whether the tile holds at least one atom."""
    return shape[-2] >= atom.m and shape[-1] >= atom.n and lhs.get_shape()[-1] >= atom.k


def _arrange_warps(m: int, n: int, fragments: MmaFragments, num_warps: int) -> tuple[int, int]:
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

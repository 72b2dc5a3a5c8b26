"""How a matrix product is computed: which instruction, which warps, which layouts."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import (
    TensorType,
)
from xdsl.ir import Attribute, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.mma import (
    mma_operand_layout,
)
from tileiras.dialects.layout.outer_product import outer_product
from tileiras.dialects.layout.scales import scale_layout
from tileiras.errors import InternalError
from tileiras.planning.mma.instructions import arrange_warps, find_instruction
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
    scales: tuple[LinearLayout, ...] = ()
    """Of a block-scaled product: where the scales of both operands lie."""


def _tensor(value: SSAValue) -> TensorType[Attribute]:
    if not isinstance(value.type, TensorType):
        raise InternalError("an operand of a dot is no tensor")
    return value.type


def plan_dot(op: aa.ProductOp, plan: CtaPlan) -> DotPlan:
    """mma.sync where the target has it for these types and the tile holds an atom, else FMA."""
    lhs, rhs, result = _tensor(op.lhs), _tensor(op.rhs), _tensor(op.result)
    shape = result.get_shape()
    if plan.roles is not None and op in plan.roles.dots:
        layout = plan.roles.result_layout(op)
        return DotPlan("in_stages", (4 * plan.roles.warpgroups, 1), None, None, layout)
    choice = find_instruction(op, plan.target)
    if choice is None:
        return DotPlan("", (1, 1), None, None, outer_product(shape, plan.num_warps))
    fragments = choice.fragments
    warps = arrange_warps(shape[-2], shape[-1], fragments, plan.num_warps)
    return DotPlan(
        choice.atom,
        warps,
        mma_operand_layout(fragments.a, lhs.get_shape(), warps, "A"),
        mma_operand_layout(fragments.b, rhs.get_shape(), warps, "B"),
        mma_operand_layout(fragments.c, shape, warps, "C"),
        choice.widens_to_f16,
        scale_layouts(op, warps),
    )


def scale_layouts(op: aa.ProductOp, warps: tuple[int, int]) -> tuple[LinearLayout, ...]:
    """Where the scales of a product lie, with so many warps along M and N; none of a plain one."""
    if not isinstance(op, aa.DotScaledOp):
        return ()
    left, right = _tensor(op.lhs_scale).get_shape(), _tensor(op.rhs_scale).get_shape()
    return scale_layout(left, warps, "A"), scale_layout(right, warps, "B")

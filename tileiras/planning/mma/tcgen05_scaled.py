"""Which products with scales tcgen05 computes: operands and scales in stages of one pipeline."""

from __future__ import annotations

from xdsl.dialects.builtin import Float4E2M1FNType, Float8E4M3FNType, Float8E8M0FNUType
from xdsl.ir import Attribute, SSAValue

from tileiras.codegen.atoms.element_names import wgmma_operand
from tileiras.codegen.atoms.tcgen05 import MOST_N
from tileiras.codegen.atoms.tcgen05_scaled import SCALED_ROWS, ScaledKind, find_scaled_kind
from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.planning.mma.tcgen05 import Tcgen05Dot
from tileiras.planning.mma.tcgen05_dots import accumulator_of, operands_in_stages
from tileiras.planning.operands.scales import scale_operand
from tileiras.planning.operands.tma import FIRST_SCALE, root_load, tile_uses, underneath

LEAST_SIGNED_COLUMNS = 32
"""Policy: fewer do not fill the lanes of the warp that looks at the signs of scales."""
_SCALES: dict[type[Attribute], str] = {Float8E8M0FNUType: "ue8m0", Float8E4M3FNType: "ue4m3"}


def tcgen05_scaled_dot(op: aa.DotScaledOp, target: GpuTarget) -> Tcgen05Dot | str:
    """The product with its sum and its scales in tensor memory, or why it has none there."""
    shape, depth = shape_of(op.result), op.depth
    if len(shape) != 2:
        return "tcgen05 multiplies no batches"
    kind = scaled_kind(op)
    if kind is None or not target.has(kind.feature):
        return "tcgen05 has no instructions for the types of operands and scales"
    rows, columns = shape
    if rows % SCALED_ROWS or not kind.holds(SCALED_ROWS, min(columns, MOST_N)) or depth % kind.k:
        return f"tcgen05 has no instructions for a product of {rows}x{columns}x{depth} with scales"
    operands = operands_in_stages(op, kind.transposes)
    if isinstance(operands, str):
        return operands
    lhs, rhs = operands.lhs, operands.rhs
    if lhs is None or lhs.load.parent_block() is not op.parent_block():
        return "an operand with scales is computed, or stays in its stage throughout a loop"
    accumulator = accumulator_of(op)
    if isinstance(accumulator, str):
        return accumulator
    left, right = (scale_operand(op, FIRST_SCALE + side) for side in (0, 1))
    if isinstance(left, str) or isinstance(right, str):
        return left if isinstance(left, str) else str(right)
    if not kind.has_signs:
        if columns < LEAST_SIGNED_COLUMNS:
            return f"signs of scales are moved for {LEAST_SIGNED_COLUMNS} columns and more"
        if not all(_has_one_scale(value) for value in (op.lhs, op.rhs)):
            return "an operand is multiplied with different scales"
    planned = Tcgen05Dot(op, lhs, rhs, kind, accumulator, scales=(left, right))
    if planned.tmem_columns + planned.scale_columns > target.tmem_columns:
        return f"the sums and scales take more than {target.tmem_columns} columns of tensor memory"
    return planned


def _has_one_scale(value: SSAValue) -> bool:
    """Whether all products that read an operand scale it alike: signs are moved in its stage."""
    load = root_load(value)
    scales = {
        underneath(use.operation.operands[FIRST_SCALE + use.index])
        for use in (tile_uses(load) if load is not None else ())
        if isinstance(use.operation, aa.DotScaledOp) and use.index < FIRST_SCALE - 1
    }
    return len(scales) == 1


def scaled_kind(op: aa.DotScaledOp) -> ScaledKind | None:
    """The kind of instructions for the types of operands and scales, None if there is none."""
    lhs, rhs = (_operand_name(op.operand_element(value)) for value in (op.lhs, op.rhs))
    scale = _SCALES.get(type(element_of(op.lhs_scale)))
    return find_scaled_kind(lhs, rhs, scale, op.block)


def _operand_name(element: Attribute) -> str | None:
    """PTX's name of the type of an operand's numbers."""
    return "e2m1" if isinstance(element, Float4E2M1FNType) else wgmma_operand(element)

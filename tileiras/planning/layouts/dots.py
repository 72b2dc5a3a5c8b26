"""By which instructions products are computed, and on which layouts: written beside them.

Reads what `tileas-plan-cta` has written: how many warps there are, and which products wgmma does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.ir import Operation, OpResult, SSAValue

from tileiras.analysis.register_pressure import is_within
from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.tmem import tmem_accumulator
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.dialects.nv_tileas.assigned import (
    FRAGMENTS,
    FmaAttr,
    MmaSyncAttr,
    layouts_attribute,
)
from tileiras.dialects.nv_tileas.plan import (
    MMA,
    KernelPlanAttr,
    StagedMmaSyncAttr,
    Tcgen05Attr,
    WgmmaAttr,
)
from tileiras.errors import required
from tileiras.planning.layouts.written import contradiction
from tileiras.planning.mma.dots import DotPlan, plan_dot, scale_layouts
from tileiras.planning.model.cta import CtaPlan

KEPT_REGISTERS = 32
"""Policy: registers of a thread for the fragments of an operand that a loop leaves as it is."""
WORD_BITS = 32
"""Fixed: of a register."""


def assign_dot_layouts(
    dots: Sequence[aa.ProductOp], kernel: KernelPlanAttr, target: GpuTarget
) -> None:
    """Writes beside the products of a kernel how each is computed."""
    plan = CtaPlan(kernel.integer("num_warps"), target)
    for dot in dots:
        mma = dot.attributes.get(MMA)
        if isinstance(mma, WgmmaAttr) and isinstance(dot, aa.DotOp):
            layouts = _wgmma_layouts(dot, mma, kernel.integer("warpgroups"))
        elif isinstance(mma, Tcgen05Attr):
            layouts = _tcgen05_layouts(dot, mma, kernel.integer("warpgroups"))
        elif isinstance(mma, StagedMmaSyncAttr):
            layouts = _staged_layouts(dot, mma, kernel.integer("warpgroups"), target)
        else:
            planned = plan_dot(dot, plan)
            dot.attributes[MMA] = _described(dot, planned)
            found = (planned.lhs, planned.rhs, *planned.scales, planned.result)
            layouts = [layout for layout in found if layout is not None]
        dot.attributes[FRAGMENTS] = layouts_attribute(layouts)
    if sum(isinstance(dot.attributes.get(MMA), MmaSyncAttr) for dot in dots) > 1:
        from tileiras.planning.layouts.column_orders import order_columns

        order_columns(dots)


def _wgmma_layouts(dot: aa.DotOp, mma: WgmmaAttr, warpgroups: int) -> list[LinearLayout]:
    """Of the left operand, if that comes from registers, and of the sum."""
    from tileiras.planning.mma.wgmma import (
        Fragments,
        accumulator_layout,
        dot_family,
        left_fragments,
    )

    family = required(dot_family(dot), "wgmma does not have the types of a product", "planning")
    word, transposed = mma.word("fragments"), bool(mma.integer("transposed"))
    fragments = None if word == "none" else cast(Fragments, word)
    result = accumulator_layout(shape_of(dot.result), family, fragments, warpgroups, transposed)
    if mma.word("lhs") != "registers":
        return [result]
    return [left_fragments(shape_of(dot.lhs), family, fragments, warpgroups), result]


def _tcgen05_layouts(dot: aa.ProductOp, mma: Tcgen05Attr, warpgroups: int) -> list[LinearLayout]:
    """Of the left operand, if threads store it, and of the sum, once it is loaded."""
    from tileiras.planning.mma.tcgen05 import LEFT_SHAPE

    rows, columns = shape_of(dot.result)
    result = tmem_accumulator((rows, columns), mma.word("load"), warpgroups)
    if not mma.has("left"):
        return [result]
    _, depth = shape_of(dot.lhs)
    return [tmem_accumulator((rows, depth), LEFT_SHAPE, warpgroups), result]


def _staged_layouts(
    dot: aa.ProductOp, mma: StagedMmaSyncAttr, warpgroups: int, target: GpuTarget
) -> list[LinearLayout]:
    """Of the left operand, if that comes from registers, of scales, and of the sum."""
    from tileiras.planning.mma.mma_sync import MmaSyncDot
    from tileiras.planning.model.written_roles import read_dot

    planned = read_dot(dot, target)
    result = planned.result_layout(warpgroups)
    if not isinstance(planned, MmaSyncDot):
        return [result]
    scales = scale_layouts(dot, planned.grid(warpgroups))
    if mma.word("lhs") != "registers":
        return [*scales, result]
    return [planned.layout("A", warpgroups), *scales, result]


def _described(dot: aa.ProductOp, planned: DotPlan) -> MmaSyncAttr | FmaAttr:
    """The instructions of a product by mma.sync, or by multiply-adds."""
    if planned.lhs is None or planned.rhs is None:
        if isinstance(dot, aa.DotScaledOp):
            raise contradiction(dot, "has no instruction: tileaa-legalize-scaled-dot comes first")
        lhs, rhs = ("all" if unrepeated(v) is v else "one" for v in (dot.lhs, dot.rhs))
        return FmaAttr.of(lhs_batches=lhs, rhs_batches=rhs)
    warps_m, warps_n = planned.warps
    values = {"atom": planned.atom, "warps_m": warps_m, "warps_n": warps_n}
    if planned.widens_to_f16:
        return MmaSyncAttr.of(**values, widens=1)
    loop = dot.parent_op()
    operands = (("lhs", dot.lhs, planned.lhs), ("rhs", dot.rhs, planned.rhs))
    kept = [name for name, value, layout in operands if _is_kept(value, layout, loop)]
    if kept:
        values["before_loop"] = kept[0] if len(kept) == 1 else "both"
    return MmaSyncAttr.of(**values)


def _is_kept(value: SSAValue, fragment: LinearLayout, loop: Operation | None) -> bool:
    """Whether an operand is the same in all iterations of a loop, and its fragments are few."""
    if not isinstance(loop, aa.ForOp | aa.LoopOp):
        return False
    words = fragment.in_size("register") * storage_bits(element_of(value)) // WORD_BITS
    return words <= KEPT_REGISTERS and not is_within(value, loop)


def unrepeated(operand: SSAValue) -> SSAValue:
    """The one batch of which all batches of an operand of multiply-adds are copies."""
    if not isinstance(operand, OpResult) or not isinstance(operand.op, aa.BroadcastOp):
        return operand
    before, after = shape_of(operand.op.source), shape_of(operand)
    return operand.op.source if len(after) == 3 and before[1:] == after[1:] else operand

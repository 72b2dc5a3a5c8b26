"""What the planning of a kernel tells the user: its warps, and whether it is specialised."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import tma_stores as ts
from tileiras.planning.model.cta import CtaPlan
from tileiras.remarks import Remark, RemarkCategory, RemarkCollector, RemarkKind, counted

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget
    from tileiras.planning.model.kernel import HopperPlan

DOTS = (tas.MmaDotOp, tas.FmaDotOp)
HOPPER_REMARKS = ("Specialized", "Slots")
PASS_NAME = "convert-tileaa-to-tileas"


def explain_plan(remarks: RemarkCollector, func: aa.FuncOp, plan: CtaPlan) -> None:
    """One remark about warps; one more if the kernel has agents, or products but no agents.

    And one if the rings of the agents are shorter than they should be.

    `func` is the placed kernel.
    """
    warps = counted(plan.num_warps, "warp")
    _add(remarks, func, RemarkKind.ANALYSIS, "Warps", warps, plan.num_warps)
    if plan.hopper is not None:
        _add(remarks, func, RemarkKind.PASSED, "Specialized", _agents(func, plan.hopper), 1)
        _explain_slots(remarks, func, plan.hopper, plan.target)
    elif any(isinstance(op, DOTS) for op in func.walk()):
        text = "products without TMA and wgmma: all warps do the same"
        _add(remarks, func, RemarkKind.MISSED, "Specialized", text, 0)


def _agents(func: aa.FuncOp, plan: HopperPlan) -> str:
    """The agents and rings of a specialised kernel."""
    from tileiras.codegen.atoms.store_pieces import PIECE_BYTES

    shape = plan.shape
    made = [op for op in func.body.block.ops if isinstance(op, pl.CreatePipelineOp)]
    slots = ((counted(op.stages.data, "slot"), op.slot_bytes.data) for op in made)
    rings = ", ".join(f"{count} of {size} bytes" for count, size in slots)
    for op in func.body.block.ops:
        if isinstance(op, ts.CreateStorePipelineOp):
            slot = op.pieces.data * PIECE_BYTES
            count = counted(op.stages.data, "slot")
            rings += f"; for stores {count} of {slot} bytes a warpgroup"
    gathers = any(ring.gathers for ring in plan.pipelines)
    producer = "4 gathering producer warps" if gathers else "1 producer warp"
    if plan.has_store_agent:
        producer += ", 1 store warp"
    return (
        f"{producer}, {counted(shape.warpgroups, 'consumer warpgroup')} of {shape.registers} "
        f"registers, {counted(shape.ctas, 'CTA')} per SM, rings: {rings}"
    )


def _explain_slots(
    remarks: RemarkCollector, func: aa.FuncOp, plan: HopperPlan, target: GpuTarget
) -> None:
    """One remark if shared memory has no room for the slots that the rings would use."""
    from tileiras.planning.resources.cta import shared_bytes
    from tileiras.planning.resources.stages import wanted_stages

    made = [op for op in func.body.block.ops if isinstance(op, pl.CreatePipelineOp)]
    own = [op for op in made if op.storage is None]
    wanted = wanted_stages(plan, any(op.shared is not None for op in own))
    short = [
        f"{op.stages.data} instead of {most} slots of {op.slot_bytes.data} bytes"
        for op, most in zip(own, wanted, strict=True)
        if op.stages.data < most
    ]
    if short:
        room = shared_bytes(plan.shape, target)
        text = f"{'; '.join(short)}: a CTA has {room} bytes of shared memory"
        _add(remarks, func, RemarkKind.MISSED, "Slots", text, sum(op.stages.data for op in own))


def _add(
    remarks: RemarkCollector,
    func: aa.FuncOp,
    kind: RemarkKind,
    name: str,
    message: str,
    value: int,
) -> None:
    """Adds a remark about a kernel."""
    remarks.add(
        Remark(
            RemarkCategory.TENSOR_CORE if name in HOPPER_REMARKS else RemarkCategory.SCHEDULE,
            kind,
            PASS_NAME,
            name,
            message,
            func.sym_name.data,
            place_of(func),
            ((name, str(value)),),
        )
    )

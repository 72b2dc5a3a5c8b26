"""What the planning of a kernel tells the user: its warps, and whether it is specialised."""

from __future__ import annotations

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import place_of
from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.plan import HopperPlan
from tileiras.passes.nv_tileaa_to_nv_tileas.plan_cta import CtaPlan
from tileiras.remarks import Remark, RemarkCategory, RemarkCollector, RemarkKind

PASS_NAME = "convert-tileaa-to-tileas"


def explain_plan(remarks: RemarkCollector, func: aa.FuncOp, plan: CtaPlan) -> None:
    """One remark about warps; one more if the kernel has agents, or products but no agents."""
    _add(remarks, func, RemarkKind.ANALYSIS, "Warps", f"{plan.num_warps} warps", plan.num_warps)
    if plan.hopper is not None:
        _add(remarks, func, RemarkKind.PASSED, "Specialized", _agents(plan.hopper), 1)
    elif any(isinstance(op, aa.DotOp) for op in func.walk()):
        text = "products without TMA and wgmma: all warps do the same"
        _add(remarks, func, RemarkKind.MISSED, "Specialized", text, 0)


def _agents(plan: HopperPlan) -> str:
    """The agents and rings of a specialised kernel."""
    rings = ", ".join(f"{ring.stages} slots of {ring.bytes} bytes" for ring in plan.pipelines)
    gathers = any(ring.gathers for ring in plan.pipelines)
    producer = "4 gathering producer warps" if gathers else "1 producer warp"
    return f"{producer}, {plan.warpgroups} consumer warpgroups, rings: {rings}"


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
            RemarkCategory.TENSOR_CORE if name == "Specialized" else RemarkCategory.SCHEDULE,
            kind,
            PASS_NAME,
            name,
            message,
            func.sym_name.data,
            place_of(func),
            ((name, str(value)),),
        )
    )

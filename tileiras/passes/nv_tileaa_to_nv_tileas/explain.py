"""What the planning of a kernel tells the user: its warps, and whether they all do the same."""

from __future__ import annotations

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.locations import remark_about
from tileiras.planning.model.cta import CtaPlan
from tileiras.remarks import RemarkCategory, RemarkCollector, RemarkKind, counted

DOTS = (tas.MmaDotOp, tas.MmaScaledDotOp, tas.FmaDotOp)
PASS_NAME = "convert-tileaa-to-tileas"


def explain_plan(remarks: RemarkCollector, func: aa.FuncOp, plan: CtaPlan) -> None:
    """One remark about warps; one more if there are products, but all warps do the same.

    `func` is the placed kernel. Of roles `tileas-optimize-alloc-tensor` tells.
    """
    warps = counted(plan.num_warps, "warp")
    _add(remarks, func, RemarkKind.ANALYSIS, "Warps", warps, plan.num_warps)
    if plan.roles is None and any(isinstance(op, DOTS) for op in func.walk()):
        text = "products without TMA and wgmma: all warps do the same"
        _add(remarks, func, RemarkKind.MISSED, "Specialized", text, 0)


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
        remark_about(
            func,
            PASS_NAME,
            name,
            message,
            kind=kind,
            category=RemarkCategory.TENSOR_CORE
            if name == "Specialized"
            else RemarkCategory.SCHEDULE,
            arguments=((name, str(value)),),
        )
    )

"""What the planning of a kernel tells the user: its warps, and whether they all do the same."""

from __future__ import annotations

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.locations import place_of
from tileiras.planning.model.cta import CtaPlan
from tileiras.remarks import Remark, RemarkCategory, RemarkCollector, RemarkKind, counted

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

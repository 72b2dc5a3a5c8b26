"""What is told of products that the newest tensor core of a target does not compute, and why.

The reasons are those for which planning refused it.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Operation

from tileiras.codegen.target import Feature, GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileas.plan import MMA
from tileiras.remarks import Remark, RemarkCategory, RemarkCollector, RemarkKind

NAME = "TensorMemory"
"""Of the remark."""


def explain_refusals(
    remarks: RemarkCollector, pass_name: str, func: aa.FuncOp, refusals: Mapping[str, str]
) -> None:
    """A remark where a target has tcgen05 and a kernel's products are computed in another way.

    Once for a kernel: it is planned more than once, and what was told first is the reason.
    """
    reason, kernel = refusals.get("tcgen05"), func.sym_name.data
    told = any((told.name, told.function) == (NAME, kernel) for told in remarks.remarks)
    if reason is None or told:
        return
    remarks.add(
        Remark(
            RemarkCategory.TENSOR_CORE,
            RemarkKind.MISSED,
            pass_name,
            NAME,
            f"no products by tcgen05: {reason}",
            kernel,
            place_of(func),
            ((NAME, "0"),),
        )
    )


def explain_operands(
    remarks: RemarkCollector,
    pass_name: str,
    func: aa.FuncOp,
    target: GpuTarget,
    refusals: Mapping[str, str],
) -> None:
    """A remark for every product without wgmma where there is wgmma, and for loads without TMA.

    Nothing is told of products that wgmma computes by plan. What was told of a product before is
    the reason: it is asked for before loads are started early, and again where there are none.
    """
    if remarks.filter.is_empty or not target.has(Feature.TMA):
        return
    from tileiras.planning.mma.wgmma_dots import wgmma_dot
    from tileiras.planning.operands.tma import root_load, tma_refusal

    for op in func.walk():
        if not isinstance(op, aa.ProductOp):
            continue
        if target.has(Feature.WGMMA) and MMA not in op.attributes:
            found = wgmma_dot(op) if isinstance(op, aa.DotOp) else ""
            reason = found if isinstance(found, str) and found else refusals.get("wgmma", "")
            reason = reason or "the kernel has no room for warps with roles"
            text = f"no wgmma, which computes twice as much as mma.sync: {reason}"
            category = RemarkCategory.TENSOR_CORE
            _add(remarks, pass_name, op, func, category, RemarkKind.MISSED, "Wgmma", text, reason)
        for load in (root_load(op.lhs), root_load(op.rhs)):
            refusal = tma_refusal(load) if isinstance(load, aa.TiledLoadOp) else None
            if load is not None and refusal is not None:
                text = f"Failed to select TMA load instruction: {refusal}"
                _add(
                    remarks,
                    pass_name,
                    load,
                    func,
                    RemarkCategory.MEMORY,
                    RemarkKind.FAILED,
                    "RemarkMemoryTmaLoadFailed",
                    text,
                    refusal,
                )


def _add(
    remarks: RemarkCollector,
    pass_name: str,
    op: Operation,
    func: aa.FuncOp,
    category: RemarkCategory,
    kind: RemarkKind,
    name: str,
    message: str,
    reason: str,
) -> None:
    """Adds a remark about an operation, the first of its name at its place."""
    kernel, place, facts = func.sym_name.data, place_of(op), (("reason", reason),)
    told = ((other.name, other.function, other.location) for other in remarks.remarks)
    if (name, kernel, place) not in told:
        remarks.add(Remark(category, kind, pass_name, name, message, kernel, place, facts))

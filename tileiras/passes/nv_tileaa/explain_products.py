"""What is told of products that the newest tensor core of a target does not compute."""

from __future__ import annotations

from collections.abc import Mapping

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import place_of
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

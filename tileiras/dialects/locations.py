"""Where an operation came from, for messages, and remarks about kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Operation

from tileiras.dialects.cuda_tile.debug_info import source_location
from tileiras.errors import SourceLocation
from tileiras.remarks import Remark, RemarkCategory, RemarkKind

if TYPE_CHECKING:
    from tileiras.dialects.nv_tileaa.control_flow import FuncOp


def place_of(op: Operation) -> SourceLocation | None:
    """The source place of the operation, or of its nearest enclosing operation that has one."""
    current: Operation | None = op
    while current is not None:
        if (place := source_location(current.location)) is not None:
            return place
        current = current.parent_op()
    return None


def remark_about(
    func: FuncOp,
    pass_name: str,
    name: str,
    message: str,
    kind: RemarkKind = RemarkKind.PASSED,
    category: RemarkCategory = RemarkCategory.SCHEDULE,
    arguments: tuple[tuple[str, str], ...] = (),
) -> Remark:
    """What a pass says about a kernel, at its place."""
    kernel, place = func.sym_name.data, place_of(func)
    return Remark(category, kind, pass_name, name, message, kernel, place, arguments)

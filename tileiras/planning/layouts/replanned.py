"""Layouts of a kernel that is planned otherwise than it was."""

from __future__ import annotations

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.assigned import NAMES
from tileiras.planning.layouts.assignment import assign_layouts
from tileiras.planning.layouts.dots import assign_dot_layouts
from tileiras.planning.layouts.written import kernel_plan
from tileiras.planning.model.cta import CtaPlan
from tileiras.planning.model.written import write_plan


def assign_again(func: aa.FuncOp, plan: CtaPlan) -> None:
    """Writes another plan in place of the one that is there, and the layouts that it leads to."""
    write_plan(func, plan)
    for op in func.walk():
        for name in NAMES:
            op.attributes.pop(name, None)
    kernel = kernel_plan(func, "assigning layouts")
    dots = [op for op in func.walk() if isinstance(op, aa.DotOp)]
    assign_dot_layouts(dots, kernel, plan.target)
    assign_layouts(func, kernel, plan.target)

"""A plan as attributes beside the operations that it is about, and back.

What follows from an operation alone (the instructions for its types, how an operand lies) is not
written: the reader asks again. Every decision is.
"""

from __future__ import annotations

from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.plan import NAMES, PLAN, STRATEGY, KernelPlanAttr
from tileiras.planning.model.cta import CtaPlan


def write_plan(func: aa.FuncOp, plan: CtaPlan) -> None:
    """Puts a plan into the attributes of a function and its operations; an older one goes.

    The strategy that it completes goes, too.
    """
    erase_plan(func)
    func.attributes.pop(STRATEGY, None)
    if plan.roles is None:
        func.attributes[PLAN] = KernelPlanAttr.of(num_warps=plan.num_warps)
        return
    from tileiras.planning.model.written_roles import write_roles

    write_roles(func, plan.roles, plan.num_warps)


def erase_plan(func: aa.FuncOp) -> None:
    """Takes the plan's attributes away."""
    for op in func.walk():
        for name in NAMES:
            op.attributes.pop(name, None)


def read_plan(func: aa.FuncOp, target: GpuTarget) -> CtaPlan | None:
    """The plan in the attributes of a function; None where nobody has planned.

    Raises InternalError where attributes do not go together.
    """
    kernel = func.attributes.get(PLAN)
    if not isinstance(kernel, KernelPlanAttr):
        return None
    warps = kernel.integer("num_warps")
    if not kernel.has("warpgroups"):
        return CtaPlan(warps, target)
    from tileiras.planning.model.written_roles import read_roles

    return CtaPlan(warps, target, read_roles(func, kernel, target))

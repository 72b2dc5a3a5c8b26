"""The strategy of a kernel: chosen in one place, written on the kernel, read by everybody else.

    func @gemm attributes {strategy = #nv_tileas.strategy<chosen = wgmma>, plan = <...>, ...}

It says whether a kernel will be specialised (a producer that copies, consumers that multiply), and
with it stands the plan so far: warps, pipelines, how each product is computed
(`dialects/nv_tileas/plan.py`). Passes that cut, join and schedule decide by it. So the rule is: a
strategy that stands is true.

    choose_strategy     the pass `choose-strategy`, of kernels on which none stands
    strategy_of         everybody else: reads
    would_specialise    a pass that wants to know what would become of a change: it changes a copy
                        (`without_strategy`) and asks of that; the copy has the answer on it and
                        takes the kernel's place, or the change is not made
    choose_again        a pass that has changed a kernel by facts: there is no way back
    drop_strategy       a pass that changes a kernel and does not ask: the next `choose-strategy`
                        will

Kernels without products, and all on targets without TMA, have none: nobody asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.codegen.target import Feature, GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileas.plan import PLAN, STRATEGY, KernelPlanAttr, StrategyAttr
from tileiras.errors import CompileError, InternalError
from tileiras.planning.model.written import erase_plan

if TYPE_CHECKING:  # most kernels have no products
    from tileiras.planning.model.kernel import RolePlan


def choose_strategy(func: aa.FuncOp, target: GpuTarget) -> RolePlan | None:
    """Writes the strategy of a kernel as it is, in place of what stood there; the plan, if any."""
    drop_strategy(func)
    if not _may_have_one(func, target):
        return None
    from tileiras.planning.model.written_roles import write_roles
    from tileiras.planning.warp_roles.plan import plan_roles

    choice = plan_roles(func, target)
    func.attributes[STRATEGY] = StrategyAttr.of(chosen=choice.name, **choice.refusals)
    if choice.plan is not None:
        write_roles(func, choice.plan, choice.plan.shape.consumer_warps, with_stores=False)
    return choice.plan


def would_specialise(copy: aa.FuncOp, target: GpuTarget) -> RolePlan | None:
    """The plan that a changed copy of a kernel would have, None if it would not be specialised.

    The answer is written on the copy. Raises InternalError for a kernel of a module: that has been
    decided.
    """
    if copy.parent_block() is not None:
        raise InternalError("a strategy was asked for that stands on the kernel", where="planning")
    return choose_strategy(copy, target)


def choose_again(func: aa.FuncOp, target: GpuTarget) -> RolePlan | None:
    """The plan of a kernel that a pass has changed, whatever it is, None if it is not specialised.

    What stood on it before the change has been dropped: `drop_strategy` must come first, for it
    looks at the operations that the plan is written on. Raises InternalError where it did not.
    """
    if STRATEGY in func.attributes:
        raise InternalError("a kernel was changed under its strategy", where="planning")
    return choose_strategy(func, target)


def strategy_of(func: aa.FuncOp, target: GpuTarget) -> RolePlan | None:
    """The plan that stands on a kernel, None if it will not be specialised.

    Raises CompileError where no strategy has been chosen, InternalError where attributes do not go
    together.
    """
    if STRATEGY not in func.attributes:
        if _may_have_one(func, target):
            raise CompileError(
                f"kernel '{func.sym_name.data}' has no strategy: choose-strategy comes first",
                place_of(func),
            )
        return None
    kernel = func.attributes.get(PLAN)
    if not isinstance(kernel, KernelPlanAttr):
        return None
    from tileiras.planning.model.written_roles import read_roles

    return read_roles(func, kernel, target)


def refusals_of(func: aa.FuncOp) -> dict[str, str]:
    """Strategy -> why it was asked before the chosen one, and does not compute the kernel."""
    strategy = func.attributes.get(STRATEGY)
    return strategy.refusals if isinstance(strategy, StrategyAttr) else {}


def drop_strategy(func: aa.FuncOp) -> None:
    """Takes the strategy of a kernel away, with its plan: the kernel is another one now."""
    if PLAN in func.attributes:
        erase_plan(func)
    func.attributes.pop(STRATEGY, None)


def without_strategy(func: aa.FuncOp) -> aa.FuncOp:
    """A copy of a kernel, to be changed."""
    copy = func.clone()
    drop_strategy(copy)
    return copy


def _may_have_one(func: aa.FuncOp, target: GpuTarget) -> bool:
    """Whether there is something to choose for."""
    return target.has(Feature.TMA) and any(isinstance(op, aa.ProductOp) for op in func.walk())

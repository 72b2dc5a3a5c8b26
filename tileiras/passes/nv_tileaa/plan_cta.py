"""The pass `tileas-plan-cta`: decides how a kernel is computed, and writes that down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import ModuleOp

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.plan import STRATEGY
from tileiras.errors import UsageError
from tileiras.ir_pass import BrokenPromise, CompileContext, IrPass
from tileiras.planning.kernel import plan_kernel
from tileiras.planning.model.written import read_plan, write_plan
from tileiras.planning.strategy import refusals_of

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget

WARPS = (0, 1, 2, 4, 8, 16, 32)
"""Fixed: numbers of warps that a CTA may have (at most 1024 threads); 0 leaves it to the plan."""


@dataclass(frozen=True)
class PlanCtaPass(IrPass):
    """Decides how many warps compute a kernel, in which roles, and how its operands reach them.

    What `choose-strategy` has written is completed: which tiles leave by TMA, whether a warp of its
    own stores, and whether there is room for all that. Where all warps do the same, only their
    number is planned.

    Before   func @gemm { for { %a = load; %b = load; %d = dot %a, %b } store }
    After    func @gemm attributes {plan = #nv_tileas.kernel_plan<...>, pipelines = [...]} {
               for { %a = load {pipeline = ...}; %b = load {pipeline = ...}; %d = dot {mma = ...} }
               store {by_tma}
             }
    `num-warps=8`: so many warps, which all do the same, whatever strategy was chosen; a power of
    two up to 32. 0, the default, leaves it to the plan.

    Requires nv_tileaa that is not changed any more; a strategy on every kernel with products
    Leaves   the program: nothing but attributes is written; the strategy is taken away
    """

    name = "tileas-plan-cta"
    title: ClassVar[str] = "Plan the warps of a CTA"
    settles: ClassVar[bool] = False

    num_warps: int = 0

    def __post_init__(self) -> None:
        """Raises UsageError for a number of warps that no CTA has."""
        if self.num_warps not in WARPS:
            raise UsageError(
                f"option 'num-warps' of pass '{self.name}' is {self.num_warps}, expected one of "
                f"{', '.join(map(str, WARPS))}"
            )

    def verify_left(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Every kernel has a plan and no strategy, and the plan says all when it is read back."""
        target = ctx.require_target()
        for func in op.body.ops:
            if not isinstance(func, aa.FuncOp):
                continue
            again = func.clone()
            plan = read_plan(again, target)
            if plan is None or STRATEGY in func.attributes:
                raise BrokenPromise("has no plan, or a strategy beside it", func)
            write_plan(again, plan)
            if not func.is_structurally_equivalent(again):
                raise BrokenPromise("has a plan that is another one when it is read back", func)

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Plans all functions of the module."""
        target = ctx.require_target()
        for func in op.body.ops:
            if isinstance(func, aa.FuncOp):
                refusals = refusals_of(func)
                plan = plan_kernel(func, target, ctx.options, self.num_warps)
                write_plan(func, plan)
                if any(isinstance(each, aa.ProductOp) for each in func.walk()):
                    _explain(ctx, func, target, refusals)


def _explain(
    ctx: CompileContext, func: aa.FuncOp, target: GpuTarget, refusals: dict[str, str]
) -> None:
    """Remarks on products, and on what brings their operands."""
    from tileiras.passes.nv_tileaa.explain_products import explain_operands, explain_refusals

    explain_refusals(ctx.remarks, PlanCtaPass.name, func, refusals)
    explain_operands(ctx.remarks, PlanCtaPass.name, func, target, refusals)

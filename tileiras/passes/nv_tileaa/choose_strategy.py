"""The pass `choose-strategy`: decides by which strategy the products of a kernel are computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.plan import STRATEGY
from tileiras.ir_pass import BrokenPromise, CompileContext, IrPass
from tileiras.planning.kernel import has_products


@dataclass(frozen=True)
class ChooseStrategyPass(IrPass):
    """Decides by which strategy a kernel's products are computed, if its warps have roles.

    Passes that cut, join and schedule read the answer on the kernel. Those that change a kernel
    take the strategy away, or put in a copy that has its own; so the pass has several places in the
    pipeline, and chooses for the kernels that have none.

    Before   func @gemm { for { %a = load; %b = load; %d = dot %a, %b } }
    After    func @gemm attributes {strategy = #nv_tileas.strategy<chosen = wgmma>, plan = <...>,
             pipelines = [...]} { for { %a = load {pipeline = ...}; %b = load {pipeline = ...};
             %d = dot {mma = ...} } }; where no strategy can: <chosen = none, wgmma = "why not">
    Requires nv_tileaa, a target with TMA
    Leaves   the program: nothing but attributes is written. Kernels with a strategy, which is true
             as long as it stands; kernels without products
    """

    name = "choose-strategy"
    title: ClassVar[str] = "Choose how products are computed"

    def verify_left(self, ctx: CompileContext, op: ModuleOp) -> None:
        """A strategy that stands is true: choosing again chooses the same."""
        for func in op.body.ops:
            if isinstance(func, aa.FuncOp) and STRATEGY in func.attributes:
                from tileiras.planning.stores import are_stores_decided, plan_with_stores
                from tileiras.planning.strategy import choose_strategy

                again, target = func.clone(), ctx.require_target()
                choose_strategy(again, target)
                if are_stores_decided(func):
                    plan_with_stores(again, target, ctx.options)
                if not func.is_structurally_equivalent(again):
                    raise BrokenPromise("has a strategy that is not true of it", func)

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Chooses for all functions on which no strategy stands."""
        target = ctx.require_target()
        for func in op.body.ops:
            if not isinstance(func, aa.FuncOp) or STRATEGY in func.attributes:
                continue
            if has_products(func):
                from tileiras.planning.strategy import choose_strategy

                choose_strategy(func, target)

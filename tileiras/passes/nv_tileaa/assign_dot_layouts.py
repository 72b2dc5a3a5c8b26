"""The pass `tileas-assign-dot-layouts`: chooses the instructions of products and their layouts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from tileiras.dialects import nv_tileaa as aa
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.planning.layouts.written import kernel_plan


@dataclass(frozen=True)
class AssignDotLayoutsPass(IrPass):
    """Says of each product by which instructions it is computed, and on which layouts.

    Before   func @gemm attributes {plan = #nv_tileas.kernel_plan<...>} { %d = dot %a, %b, %s }
    After    %d = dot %a, %b, %s {mma = #nv_tileas.mma_sync<atom = m16n8k16_f32_f16, warps_m = 2,
             warps_n = 2>, fragments = [#operand0, #operand1, #mma0]}
             where the target has none for its types: {mma = #nv_tileas.fma<...>,
             fragments = [#linear0]}
    Requires the plan of `tileas-plan-cta`, which says what wgmma computes
    Leaves   the program: nothing but attributes is written
    """

    name = "tileas-assign-dot-layouts"
    title: ClassVar[str] = "Assign layouts to products"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Assigns the products of all functions of the module."""
        target = ctx.require_target()
        for func in op.body.ops:
            if not isinstance(func, aa.FuncOp):
                continue
            kernel = kernel_plan(func, self.name)
            if dots := [inner for inner in func.walk() if isinstance(inner, aa.ProductOp)]:
                from tileiras.planning.layouts.dots import assign_dot_layouts

                assign_dot_layouts(dots, kernel, target)

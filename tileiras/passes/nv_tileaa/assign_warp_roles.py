"""The pass `tileas-assign-warp-roles`: says which warps run which operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import ModuleOp

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.warp_roles import WARP_ROLES
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.planning.layouts.written import kernel_plan

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget


@dataclass(frozen=True)
class AssignWarpRolesPass(IrPass):
    """Says of each operation of a specialised kernel which roles of warps run it.

    What has no roles is the consumers' alone. Beside products stands how many of them may be
    unfinished, and which pipelines get a stage back.

    Before   func @gemm attributes {plan = #nv_tileas.kernel_plan<..., producer_warps = 4>} {
               %i = muli %x, %c
               for { %a = load %p[%i] {pipeline = ...}; %d = dot %a, %b, %s }
             }
    After    func @gemm attributes {
                 plan = ..., warp_roles = #nv_tileas.warp_roles<consumer = 8, producer = 1>} {
               %i = muli %x, %c {roles = #nv_tileas.roles<producer, consumer>}
               for {
                 %a = load %p[%i] {pipeline = ..., roles = #nv_tileas.roles<producer, consumer>}
                 %d = dot %a, %b, %s {pending = 1 : i32, releases = array<i32: 0>}
               }
             }
    Requires the plan of `tileas-plan-cta`, and the barriers of `insert-barriers`
    Leaves   the program: nothing but attributes is written; kernels whose warps all do the same
    """

    name = "tileas-assign-warp-roles"
    title: ClassVar[str] = "Assign operations to roles of warps"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Assigns the roles of all specialised functions of the module."""
        for func in op.body.ops:
            if not isinstance(func, aa.FuncOp):
                continue
            if kernel_plan(func, self.name).has("warpgroups"):
                _assign(func, ctx.require_target())
            elif WARP_ROLES in func.attributes:
                from tileiras.planning.model.written_warp_roles import erase_warp_roles

                erase_warp_roles(func)


def _assign(func: aa.FuncOp, target: GpuTarget) -> None:
    """Assigns the roles of a specialised kernel."""
    from tileiras.planning.model.written import read_plan
    from tileiras.planning.model.written_warp_roles import write_warp_roles
    from tileiras.planning.warp_roles.assignment import assign_roles

    plan = read_plan(func, target)
    if plan is not None and plan.roles is not None:
        write_warp_roles(func, plan.roles, assign_roles(func, plan.roles))

"""The pass `tileas-assign-load-store-layouts`: chooses the layout of every tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from tileiras.dialects import nv_tileaa as aa
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.planning.layouts.assignment import assign_layouts
from tileiras.planning.layouts.written import kernel_plan


@dataclass(frozen=True)
class AssignLoadStoreLayoutsPass(IrPass):
    """Says how each access to memory is done, and in which layout every tensor lies.

    Before   %x, %t = tiled_load %v[%i];  %e = exp %x;  %u = tiled_store %e, %w[%i]
    After    %x, %t = tiled_load %v[%i] {access = #nv_tileas.access<vector = 4, axis = 0,
             layout = #blocked0>, layouts = [#blocked0]};  %e = exp %x {layouts = [#blocked0]};
             %u = tiled_store %e, %w[%i] {access = #nv_tileas.access<...>}
    Requires the layouts of products (`tileas-assign-dot-layouts`)
    Leaves   the program: nothing but attributes is written. Where an operation takes an operand in
             another layout than the operand lies in, the conversion to nv_tileas moves it between
             threads, or computes it again if it is marked {rematerialize}
    """

    name = "tileas-assign-load-store-layouts"
    title: ClassVar[str] = "Assign layouts to loads, stores and all tensors"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Assigns the layouts of all functions of the module."""
        target = ctx.require_target()
        for func in op.body.ops:
            if isinstance(func, aa.FuncOp):
                assign_layouts(func, kernel_plan(func, self.name), target)

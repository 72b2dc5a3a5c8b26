"""The pass `tileas-legalize-reduce`: how reductions and scans go on, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from tileiras.dialects import nv_tileaa as aa
from tileiras.ir_pass import CompileContext, IrPass


@dataclass(frozen=True)
class LegalizeReducePass(IrPass):
    """Writes by which steps reductions combine rows; brings tiles into layouts that allow it.

    A scan has in the end what a reduction of the same tile by the same body has, so that this is
    taken from it.

    Before   %r = reduce %x dim 1;  %s = scan %y dim 0;  %t = reduce %y dim 0
    After    %r = reduce %x dim 1 {steps = [#nv_tileas.combine<in = registers, strides = [1, 2]>,
             #nv_tileas.combine<in = lanes, strides = [4, 8, 16]>,
             #nv_tileas.regroup<layout = #linear0, by = [#nv_tileas.through_smem<...>]>,
             #nv_tileas.combine<in = registers, strides = [1, 2]>]}
             %s = scan %y dim 0 {totals = #nv_tileas.regroup<...>};  %t = scan_total %s
             of reductions beside each other one, if they go through shared memory
    Requires every tensor in its layout
    Leaves   reductions that have steps; scans within warps. Where bits of a coordinate are mixed,
             a convert_layout comes first; where users want results elsewhere, one follows
    """

    name = "tileas-legalize-reduce"
    title: ClassVar[str] = "Legalize reductions and scans"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Does so in all functions of the module."""
        found = [inner for inner in op.walk() if isinstance(inner, aa.ReduceOp | aa.ScanOp)]
        if len(found) > 1:
            from tileiras.passes.nv_tileas.merge_reductions import merge_reductions

            found = merge_reductions(found)
        if found:
            from tileiras.passes.nv_tileas.reduction_steps import write_steps

            write_steps(found, ctx.require_target())

"""The pass `tileas-materialize-convert-layout`: how each tile gets from layout to layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.nv_tileas.encoding import layout_of
from tileiras.ir_pass import BrokenPromise, CompileContext, IrPass


@dataclass(frozen=True)
class MaterializeConvertLayoutPass(IrPass):
    """Writes how each conversion is done: in registers, by shuffles, or through shared memory.

    Before   %y = convert_layout %x;  %e = extract %x[%i]
    After    %y = convert_layout %x {by = #nv_tileas.shuffles<rounds = 2, elements = 1>}
             %f = extract %x[%i];  %e = convert_layout %f {by = #nv_tileas.in_registers}
    Requires every tensor in its layout; reductions and scans with their steps
    Leaves   conversions that have their way. Operations that rearrange tiles (extract, insert, cat,
             pack, unpack) convert nothing themselves, but for an extract of which threads hold no
             part: it goes through shared memory, and says how
    """

    name = "tileas-materialize-convert-layout"
    title: ClassVar[str] = "Choose ways of layout conversions"

    def verify_left(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Every conversion has its way."""
        for inner in op.walk():
            if isinstance(inner, tas.ConvertLayoutOp) and inner.by is None:
                raise BrokenPromise("a conversion that has no way", inner)

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Does so in all functions of the module."""
        conversions: list[tas.ConvertLayoutOp] = []
        rearranging: list[Operation] = []
        for inner in op.walk():
            if isinstance(inner, tas.ConvertLayoutOp):
                conversions.append(inner)
            elif isinstance(inner, _REARRANGING):
                rearranging.append(inner)
        if rearranging:
            from tileiras.passes.nv_tileas.explicit_conversions import conversions_around

            conversions += conversions_around(rearranging)
        if conversions:
            from tileiras.planning.layouts.conversions import way_between

            for each in conversions:
                source, target = layout_of(each.source.type), layout_of(each.result.type)
                if each.by is None and source is not None and target is not None:
                    each.properties["by"] = way_between(source, target, each.element_bits)


_REARRANGING = (aa.CatOp, aa.ExtractOp, aa.InsertOp, aa.PackOp, aa.UnpackOp)

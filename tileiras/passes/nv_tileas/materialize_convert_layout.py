"""The pass `tileas-materialize-convert-layout`: how each tile gets from layout to layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileas.encoding import layout_of
from tileiras.dialects.nv_tileas.ways import WayAttr
from tileiras.errors import InternalError
from tileiras.ir_pass import BrokenPromise, CompileContext, IrPass
from tileiras.passes.nv_tileas.explicit_conversions import make_explicit
from tileiras.planning.layouts.conversions import way_between
from tileiras.planning.layouts.rearranging import OwnLayouts, rearranging_layouts


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
        rearranging: list[tuple[Operation, OwnLayouts]] = []
        for inner in op.walk():
            if isinstance(inner, tas.ConvertLayoutOp):
                conversions.append(inner)
            elif (own := rearranging_layouts(inner)) is not None:
                rearranging.append((inner, own))
        for inner, own in rearranging:
            conversions += make_explicit(inner, own)
        for conversion in conversions:
            if conversion.by is None:
                conversion.properties["by"] = _way_of(conversion)


def _way_of(op: tas.ConvertLayoutOp) -> WayAttr:
    """The cheapest way of a conversion."""
    source, target = layout_of(op.source.type), layout_of(op.result.type)
    if source is None or target is None:
        raise InternalError("a conversion has no layouts", place_of(op), op.name)
    return way_between(source, target, op.element_bits)

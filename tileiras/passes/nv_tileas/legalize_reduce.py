"""The pass `tileas-legalize-reduce`: how reductions and scans go on, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from tileiras.codegen.target import Feature
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout.axis_bits import along_axis_first, is_unit
from tileiras.dialects.nv_tileas.encoding import layout_of
from tileiras.dialects.nv_tileas.ways import STEPS, TOTALS
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.nv_tileas.explicit_conversions import make_explicit
from tileiras.planning.layouts.rearranging import OwnLayouts
from tileiras.planning.layouts.reductions import (
    is_scanned,
    steps_of_reduction,
    totals_of_scan,
)


@dataclass(frozen=True)
class LegalizeReducePass(IrPass):
    """Writes by which steps reductions combine rows; brings tiles into layouts that allow it.

    Before   %r = reduce %x dim 1;  %s = scan %y dim 0
    After    %r = reduce %x dim 1 {steps = [#nv_tileas.combine<in = registers, strides = [1, 2]>,
             #nv_tileas.combine<in = lanes, strides = [4, 8, 16]>,
             #nv_tileas.regroup<layout = #linear0, by = [#nv_tileas.through_smem<...>]>,
             #nv_tileas.combine<in = registers, strides = [1, 2]>]}
             %s = scan %y dim 0 {totals = #nv_tileas.regroup<...>}
    Requires every tensor in its layout
    Leaves   reductions that have steps; scans within warps. Where bits of a coordinate are mixed,
             a convert_layout comes first; where users want results elsewhere, one follows
    """

    name = "tileas-legalize-reduce"
    title: ClassVar[str] = "Legalize reductions and scans"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Does so in all functions of the module."""
        found = [inner for inner in op.walk() if isinstance(inner, aa.ReduceOp | aa.ScanOp)]
        has_redux = ctx.require_target().has(Feature.REDUX)
        for inner in found:
            if isinstance(inner, aa.ScanOp):
                make_explicit(inner, _scanned(inner))
            elif STEPS not in inner.attributes:
                make_explicit(inner, _reduced(inner, has_redux))


def _reduced(op: aa.ReduceOp, has_redux: bool) -> OwnLayouts:
    """All operands in one layout, a unit one; results where its steps leave them."""
    layout = layout_of(op.operands[0].type)
    if layout is None:
        return OwnLayouts()
    if not is_unit(layout):
        layout = along_axis_first(layout, op.dim.value.data)
    steps, result = steps_of_reduction(op, layout, has_redux)
    operands = tuple((number, layout) for number in range(len(op.operands)))
    return OwnLayouts(operands, result, {STEPS: steps})


def _scanned(op: aa.ScanOp) -> OwnLayouts:
    """Operands and results in one layout."""
    layout, axis = layout_of(op.operands[0].type), op.dim.value.data
    if layout is None:
        return OwnLayouts()
    if not is_scanned(layout, axis):
        layout = along_axis_first(layout, axis)
    totals = totals_of_scan(op, layout)
    operands = tuple((number, layout) for number in range(len(op.operands)))
    return OwnLayouts(operands, layout, {TOTALS: totals} if totals is not None else {})

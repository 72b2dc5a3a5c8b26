"""Writes the steps of reductions and scans, and puts conversions of layouts around them."""

from __future__ import annotations

from collections.abc import Iterable

from tileiras.codegen.target import Feature, GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout.axis_bits import along_axis_first, is_unit
from tileiras.dialects.nv_tileas.encoding import layout_of
from tileiras.dialects.nv_tileas.ways import STEPS, TOTALS
from tileiras.passes.nv_tileas.explicit_conversions import make_explicit
from tileiras.planning.layouts.rearranging import OwnLayouts
from tileiras.planning.layouts.reductions import is_scanned, steps_of_reduction, totals_of_scan


def write_steps(ops: Iterable[aa.ReduceOp | aa.ScanOp], target: GpuTarget) -> None:
    """Does so for reductions without steps, and for all scans."""
    for op in ops:
        if isinstance(op, aa.ScanOp):
            make_explicit(op, _scanned(op))
        elif STEPS not in op.attributes:
            make_explicit(op, _reduced(op, target))


def _reduced(op: aa.ReduceOp, target: GpuTarget) -> OwnLayouts:
    """All operands in one layout, a unit one; results where its steps leave them."""
    layout = layout_of(op.operands[0].type)
    if layout is None:
        return OwnLayouts()
    if not is_unit(layout):
        layout = along_axis_first(layout, op.dim.value.data)
    has_redux, has_packed = target.has(Feature.REDUX), target.has(Feature.F32X2_NATIVE)
    steps, result = steps_of_reduction(op, layout, has_redux, has_packed)
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

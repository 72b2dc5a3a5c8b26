"""Writes the steps of reductions and scans, and puts conversions of layouts around them."""

from __future__ import annotations

from collections.abc import Iterable

from tileiras.analysis.combining import is_commutative
from tileiras.codegen.target import Feature, GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.layout.axis_bits import along_axis_first, is_unit
from tileiras.dialects.nv_tileas.encoding import layout_of
from tileiras.dialects.nv_tileas.ways import STEPS, TOTALS
from tileiras.passes.nv_tileas.explicit_conversions import make_explicit
from tileiras.passes.rewriting import replace_op
from tileiras.planning.layouts.rearranging import OwnLayouts
from tileiras.planning.layouts.reductions import (
    is_scanned,
    scan_total_layout,
    steps_of_reduction,
    totals_of_scan,
)


def write_steps(ops: Iterable[aa.ReduceOp | aa.ScanOp], target: GpuTarget) -> None:
    """Does so for reductions without steps, and for all scans."""
    ops = list(ops)
    scans = [op for op in ops if isinstance(op, aa.ScanOp)]
    totals: list[tas.ScanTotalOp] = []
    for op in ops:
        if isinstance(op, aa.ScanOp) or STEPS in op.attributes:
            continue
        scan = next((scan for scan in scans if _ends_with(scan, op)), None)
        if scan is None:
            make_explicit(op, _reduced(op, target))
        else:
            totals += _take_totals(op, scan)
    for scan in scans:
        make_explicit(scan, _scanned(scan))
    for total in totals:
        if isinstance(moved := total.source.owner, tas.ConvertLayoutOp):
            total.operands[0] = moved.source
        layout, axis = layout_of(total.source.type), total.scan.dim.value.data
        if layout is not None:
            make_explicit(total, OwnLayouts(result=scan_total_layout(layout, axis)))


def _ends_with(scan: aa.ScanOp, op: aa.ReduceOp) -> bool:
    """Whether a reduction is what a scan has in the end: of the same tiles, by the same body.

    A reverse scan has combined all of them in the reverse order.
    """
    if scan.parent_block() is not op.parent_block() or list(scan.operands) != list(op.operands):
        return False
    if scan.dim.value.data != op.dim.value.data:
        return False
    if scan.reverse.value.data and not is_commutative(op.body.block):
        return False
    return scan.body.is_structurally_equivalent(op.body)


def _take_totals(op: aa.ReduceOp, scan: aa.ScanOp) -> list[tas.ScanTotalOp]:
    """Puts the totals of a scan in the place of a reduction; the scan stands before them then."""
    block, following = op.parent_block(), scan.next_op
    while following is not None and following is not op:
        following = following.next_op
    if block is not None and following is None:
        scan.detach()
        block.insert_op_before(scan, op)
    made = [
        tas.ScanTotalOp.create(operands=[result], result_types=[old.type], location=op.location)
        for result, old in zip(scan.results, op.results, strict=True)
    ]
    if block is not None:
        block.insert_ops_before(made, op)
    replace_op(op, [total.result for total in made])
    return made


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

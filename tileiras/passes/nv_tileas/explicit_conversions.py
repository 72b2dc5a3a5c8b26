"""Puts conversions of layouts around an operation that works in layouts of its own."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileaa.types import element_of
from tileiras.dialects.nv_tileas.encoding import encoded, layout_of
from tileiras.passes.rewriting import erase_op
from tileiras.planning.layouts.rearranging import OwnLayouts, rearranging_layouts


def conversions_around(ops: Iterable[Operation]) -> list[tas.ConvertLayoutOp]:
    """Puts them around operations that rearrange tiles in registers."""
    return [
        conversion
        for op in ops
        if (own := rearranging_layouts(op)) is not None
        for conversion in make_explicit(op, own)
    ]


def make_explicit(op: Operation, own: OwnLayouts) -> list[tas.ConvertLayoutOp]:
    """Brings operands into the layouts that an operation takes, and its results into theirs.

    The conversions for it, which have no way yet.
    """
    block, made = op.parent_block(), list[tas.ConvertLayoutOp]()
    if block is None:
        return made
    for number, layout in own.operands:
        value = op.operands[number]
        if layout_of(value.type) != layout:
            conversion = _conversion(value, layout, op.location)
            block.insert_op_before(conversion, op)
            op.operands[number] = conversion.result
            made.append(conversion)
    op.attributes.update(own.attributes)
    if own.result is not None and any(_lies_elsewhere(each, own.result) for each in op.results):
        made += _leave_in(op, own.result)
    return made


def _lies_elsewhere(value: SSAValue, layout: LinearLayout) -> bool:
    """Whether a tile has another layout; scalars have none."""
    found = layout_of(value.type)
    return found is not None and found != layout


def _conversion(value: SSAValue, layout: LinearLayout, place: LocationAttr) -> tas.ConvertLayoutOp:
    return tas.ConvertLayoutOp.create(
        operands=[value], result_types=[encoded(element_of(value), layout)], location=place
    )


def _leave_in(op: Operation, layout: LinearLayout) -> list[tas.ConvertLayoutOp]:
    """Makes an operation anew whose results have a layout; what users take is converted from it."""
    block, made = op.parent_block(), list[tas.ConvertLayoutOp]()
    if block is None:
        return made
    new = type(op).create(
        operands=list(op.operands),
        result_types=[encoded(element_of(each), layout) for each in op.results],
        properties=dict(op.properties),
        attributes=dict(op.attributes),
        regions=[op.detach_region(region) for region in list(op.regions)],
        location=op.location,
    )
    block.insert_op_before(new, op)
    for old, result in zip(op.results, new.results, strict=True):
        wanted = layout_of(old.type)
        used: SSAValue = result
        if wanted is not None and wanted != layout:
            conversion = _conversion(result, wanted, op.location)
            block.insert_op_before(conversion, op)
            used = conversion.result
            made.append(conversion)
        used.name_hint = old.name_hint
        old.replace_all_uses_with(used)
    erase_op(op)
    return made

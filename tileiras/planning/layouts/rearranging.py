"""In which layouts slices are taken and put, tiles joined, and elements packed, in registers.

Operations that do so can, each in its own way, get their operands and leave their results in any
layout. Here is where threads have what they need: conversions before and behind do the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.axis_bits import is_unit
from tileiras.dialects.layout.blocked import blocked
from tileiras.dialects.layout.parts import (
    half_of,
    one_slice_in_registers,
    splitting_bit,
    tells_slices_apart,
    twice_in_registers,
    within_slice,
)
from tileiras.dialects.nv_tileaa.storage import BITS_OF_BYTE, packed_bits, register_bits
from tileiras.dialects.nv_tileaa.types import element_of
from tileiras.dialects.nv_tileas.encoding import layout_of
from tileiras.dialects.nv_tileas.ways import BY
from tileiras.errors import InternalError, required
from tileiras.planning.layouts.conversions import way_through_smem


@dataclass(frozen=True)
class OwnLayouts:
    """In which layouts an operation takes operands, by number, and leaves its results.

    In the order in which the operands are brought there; a result of None stays. `attributes` say
    what it does itself.
    """

    operands: tuple[tuple[int, LinearLayout], ...] = ()
    result: LinearLayout | None = None
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])


def rearranging_layouts(op: Operation) -> OwnLayouts | None:
    """Those of an operation that rearranges tiles in registers; None of others."""
    rule = _RULES.get(type(op))
    return None if rule is None else rule(op)


def _layout(value: SSAValue) -> LinearLayout:
    return required(layout_of(value.type), "a tile without a layout is rearranged")


def _of_extract(op: Operation) -> OwnLayouts:
    """A unit layout, in which registers are of one slice or another; threads may be, too."""
    assert isinstance(op, aa.ExtractOp)
    source, wanted = _layout(op.source), _layout(op.result)
    if not is_unit(source):
        order = tuple(reversed(range(source.rank)))
        source = blocked(source.shape, order, 1, source.in_size("warp"))
    held = within_slice(one_slice_in_registers(source, wanted.shape), wanted.shape)
    if not tells_slices_apart(source, wanted.shape):
        return OwnLayouts(((0, source),), held)
    way = way_through_smem(held, wanted, register_bits(element_of(op.source)))
    return OwnLayouts(((0, source),), attributes={BY: way})


def _of_insert(op: Operation) -> OwnLayouts:
    """Threads choose per element between two tiles, which lie as the result does."""
    assert isinstance(op, aa.InsertOp)
    source, wanted = _layout(op.source), _layout(op.result)
    return OwnLayouts(((1, wanted), (0, within_slice(wanted, source.shape))))


def _of_cat(op: Operation) -> OwnLayouts:
    """One register bit tells the tiles apart: one of the result, if there is such, or a new one."""
    assert isinstance(op, aa.CatOp)
    if not isinstance(op.dim, IntegerAttr) or _layout(op.lhs).shape != _layout(op.rhs).shape:
        raise InternalError("tiles that are joined have one shape")
    axis, wanted = op.dim.value.data, _layout(op.result)
    bit = splitting_bit(wanted, axis)
    if bit is not None:
        half = half_of(wanted, axis, bit)
        return OwnLayouts(((0, half), (1, half)))
    half = _layout(op.lhs).without_register_duplicates()
    return OwnLayouts(((0, half), (1, half)), twice_in_registers(half, axis))


def _of_pack(op: Operation) -> OwnLayouts:
    """Elements of one byte, or bytes of one element, are neighbours in the lowest registers."""
    assert isinstance(op, aa.PackOp)
    bits = packed_bits(op.source.type)
    if bits < BITS_OF_BYTE:
        return OwnLayouts(((0, _layout(op.result).divided(BITS_OF_BYTE // bits)),))
    return OwnLayouts(result=_layout(op.source).divided(bits // BITS_OF_BYTE))


def _of_unpack(op: Operation) -> OwnLayouts:
    """The same the other way round."""
    assert isinstance(op, aa.UnpackOp)
    bits = packed_bits(op.result.type)
    if bits < BITS_OF_BYTE:
        return OwnLayouts(result=_layout(op.source).divided(BITS_OF_BYTE // bits))
    return OwnLayouts(((0, _layout(op.result).divided(bits // BITS_OF_BYTE)),))


_RULES: dict[type[Operation], Callable[[Operation], OwnLayouts]] = {
    aa.CatOp: _of_cat,
    aa.ExtractOp: _of_extract,
    aa.InsertOp: _of_insert,
    aa.PackOp: _of_pack,
    aa.UnpackOp: _of_unpack,
}

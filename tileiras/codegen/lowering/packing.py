"""Pack and unpack: the bytes of a tile under another element type.

Elements and their bytes lie side by side in registers, so only layouts have to be brought to where
the parts of one element, or the elements of one byte, are the lowest registers of a thread.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import FloatTF32Type, IntegerType, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.convert_layout import convert
from tileiras.codegen.lowering.types import register_type, storage_bits
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.llvm.types import integer_type, lanes_of, vector_type
from tileiras.errors import InternalError

_BYTE = integer_type(8)
_TF32_MASK = 0xFFFFE000
"""A tf32 in a register is an f32 with 13 zero bits below."""


def _packed_bits(type: Attribute) -> int:
    """Bits of an element without padding: 1 for i1, 4 for i4 and f4, else those of its bytes."""
    element = type.element_type if isinstance(type, TensorType) else type
    if isinstance(element, IntegerType) and element.width.data == 1:
        return 1
    return storage_bits(element)


def _divided(layout: LinearLayout, parts: int) -> LinearLayout:
    """The layout of a rank-1 tile whose elements are each `parts` registers in a row."""
    bases = {unit: [v * parts for v in vectors] for unit, vectors in layout.index_bases}
    steps = [1 << bit for bit in range(parts.bit_length() - 1)]
    bases["register"] = [*steps, *bases["register"]]
    return LinearLayout.from_index_bases(bases, (layout.size * parts,))


def lower_pack(ctx: KernelLowering, op: Operation) -> None:
    """Elements become bytes, the first in the lowest bits."""
    if not isinstance(op, aa.PackOp):
        raise InternalError("the rule of pack got another operation")
    value, source = ctx.value(op.source), ctx.layout(op.source.type)
    wanted = ctx.layout(op.result.type)
    bits = _packed_bits(op.source.type)
    if bits < 8:
        together = convert(ctx, value, source, _divided(wanted, 8 // bits))
        ctx.values[op.result] = join_bits(ctx, together, bits)
        return
    parts = bits // 8
    split = ctx.b.bitcast(value, vector_type(_BYTE, (lanes_of(value.type) or 1) * parts))
    ctx.values[op.result] = convert(ctx, split, _divided(source, parts), wanted)


def join_bits(ctx: KernelLowering, value: SSAValue, bits: int) -> SSAValue:
    """Bytes of 8 / `bits` neighbouring elements each."""
    b = ctx.b
    per_byte, lanes = 8 // bits, lanes_of(value.type) or 1
    type = vector_type(_BYTE, lanes // per_byte)
    result = b.zero(type)
    for place in range(per_byte):
        part = b.zext(b.shuffle(value, None, range(place, lanes, per_byte)), _BYTE)
        part = b.and_(part, b.const_int(type, (1 << bits) - 1))
        result = b.or_(result, b.shl(part, b.const_int(type, place * bits)))
    return result


def lower_unpack(ctx: KernelLowering, op: Operation) -> None:
    """Bytes become elements."""
    if not isinstance(op, aa.UnpackOp) or not isinstance(op.result.type, TensorType):
        raise InternalError("the rule of unpack got another operation")
    value, source = ctx.value(op.source), ctx.layout(op.source.type)
    wanted = ctx.layout(op.result.type)
    bits = _packed_bits(op.result.type)
    element = op.result.type.element_type
    if bits < 8:
        elements = split_bits(ctx, value, bits)
        if bits == 1:
            elements = ctx.b.trunc(elements, integer_type(1))
        ctx.values[op.result] = convert(ctx, elements, _divided(source, 8 // bits), wanted)
        return
    together = convert(ctx, value, source, _divided(wanted, bits // 8))
    count = wanted.in_size("register")
    if isinstance(element, FloatTF32Type):
        words = vector_type(integer_type(32), count)
        together = ctx.b.and_(ctx.b.bitcast(together, words), ctx.b.const_int(words, _TF32_MASK))
    type = vector_type(register_type(element), count)
    ctx.values[op.result] = ctx.b.bitcast(together, type)


def split_bits(ctx: KernelLowering, value: SSAValue, bits: int) -> SSAValue:
    """The 8 / `bits` elements of each byte, one register each."""
    b = ctx.b
    per_byte, lanes = 8 // bits, lanes_of(value.type) or 1
    parts = []
    for place in range(per_byte):
        moved = b.lshr(value, b.const_int(value.type, place * bits))
        parts.append(b.and_(moved, b.const_int(value.type, (1 << bits) - 1)))
    order = [place * lanes + byte for byte in range(lanes) for place in range(per_byte)]
    return b.shuffle(b.concat(parts), None, order)


RULES: dict[type[Operation], Callable[[KernelLowering, Operation], None]] = {
    aa.PackOp: lower_pack,
    aa.UnpackOp: lower_unpack,
}
"""Reinterpretations by class."""

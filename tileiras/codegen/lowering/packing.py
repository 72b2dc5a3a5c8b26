"""Pack and unpack: the bytes of a tile under another element type.

Elements and their bytes lie side by side in registers: layouts have been brought to where the parts
of one element, or the elements of one byte, are the lowest registers of a thread.
"""

from __future__ import annotations

from xdsl.dialects.builtin import FloatTF32Type, TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.codegen.lowering.context import KernelLowering, LoweringRules
from tileiras.codegen.lowering.types import register_type
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.llvm.types import integer_type, lanes_of, vector_type
from tileiras.dialects.nv_tileaa.storage import BITS_OF_BYTE, packed_bits
from tileiras.errors import InternalError

_BYTE = integer_type(8)
_TF32_MASK = 0xFFFFE000
"""A tf32 in a register is an f32 with 13 zero bits below."""


def lower_pack(ctx: KernelLowering, op: aa.PackOp) -> None:
    """Elements become bytes, the first in the lowest bits."""
    value, bits = ctx.value(op.source), packed_bits(op.source.type)
    if bits < BITS_OF_BYTE:
        _check_layouts(ctx, op.source, op.result, BITS_OF_BYTE // bits)
        ctx.values[op.result] = join_bits(ctx, value, bits)
        return
    parts = bits // BITS_OF_BYTE
    _check_layouts(ctx, op.result, op.source, parts)
    bytes = vector_type(_BYTE, (lanes_of(value.type) or 1) * parts)
    ctx.values[op.result] = ctx.b.bitcast(value, bytes)


def _check_layouts(ctx: KernelLowering, pieces: SSAValue, whole: SSAValue, parts: int) -> None:
    """CompileError unless a thread has the `parts` of each element in a row."""
    if ctx.layout(pieces.type) != ctx.layout(whole.type).divided(parts):
        raise ctx.contradiction(
            "has parts of elements in other threads: tileas-materialize-convert-layout comes before"
        )


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
    value, bits = ctx.value(op.source), packed_bits(op.result.type)
    element = op.result.type.element_type
    if bits < BITS_OF_BYTE:
        _check_layouts(ctx, op.result, op.source, BITS_OF_BYTE // bits)
        elements = split_bits(ctx, value, bits)
        if bits == 1:
            elements = ctx.b.trunc(elements, integer_type(1))
        ctx.values[op.result] = elements
        return
    _check_layouts(ctx, op.source, op.result, bits // BITS_OF_BYTE)
    count = ctx.layout(op.result.type).in_size("register")
    if isinstance(element, FloatTF32Type):
        words = vector_type(integer_type(32), count)
        value = ctx.b.and_(ctx.b.bitcast(value, words), ctx.b.const_int(words, _TF32_MASK))
    type = vector_type(register_type(element), count)
    ctx.values[op.result] = ctx.b.bitcast(value, type)


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


RULES: LoweringRules = {
    aa.PackOp: lower_pack,
    aa.UnpackOp: lower_unpack,
}
"""Reinterpretations by class."""

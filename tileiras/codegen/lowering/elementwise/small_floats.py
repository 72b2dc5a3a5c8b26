"""The 8-bit and 4-bit floats: to f32 (exact) and from f32 (rounded once).

Each lives in an i8 (`lowering.types`). The conversion instructions work on pairs, so a vector is
taken apart into its even and odd lanes. Values out of range become the largest finite one with
their sign (`.satfinite`: PTX has no other form), NaN stays NaN where the format has one.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    f16,
    f32,
)
from xdsl.ir import Attribute, SSAValue

from tileiras.codegen.lowering.elementwise.request import Request
from tileiras.codegen.target import Feature
from tileiras.dialects.cuda_tile.attributes import RoundingMode
from tileiras.dialects.llvm.types import integer_type, lanes_of, vector_type

_I8, _I16, _I32 = integer_type(8), integer_type(16), integer_type(32)


@dataclass(frozen=True)
class SmallFloat:
    """A row: the format's PTX name of a pair, and the feature that its instructions need.

    `last_finite` is the greatest integer that rounds to a finite value, None without overflow
    values. In every format with them, the largest finite value's bits plus one are infinity or NaN.
    """

    pair: str
    feature: Feature
    last_finite: int | None = None


# PTX ISA, "cvt": e4m3x2 and e5m2x2 since sm_89; e2m1x2 and ue8m0x2 since sm_100a, sm_120a
SMALL_FLOATS: dict[type[Attribute], SmallFloat] = {
    Float8E4M3FNType: SmallFloat("e4m3x2", Feature.FP8_CONVERT, 464),
    Float8E5M2Type: SmallFloat("e5m2x2", Feature.FP8_CONVERT, 61439),
    Float8E8M0FNUType: SmallFloat("ue8m0x2", Feature.FP4_CONVERT),
    Float4E2M1FNType: SmallFloat("e2m1x2", Feature.FP4_CONVERT),
}


def has_f16_form(element: Attribute) -> bool:
    """Whether it is a small float whose instructions convert from or to f16."""
    return isinstance(element, Float8E4M3FNType | Float8E5M2Type | Float4E2M1FNType)


def _row(request: Request, element: Attribute) -> SmallFloat:
    row = SMALL_FLOATS.get(type(element))
    if row is None:
        raise request.unsupported(f"on {element} is not supported on {request.target.name}")
    request.require(row.feature, element)
    return row


def widen(request: Request, value: SSAValue, element: Attribute) -> SSAValue:
    """The exact f32 of a small float; of e4m3, e5m2, e2m1 by way of f16."""
    if isinstance(element, Float8E8M0FNUType):
        _row(request, element)
        return _widen_exponent(request, value)
    return request.builder.fpext(widen_to_f16(request, value, element), f32)


def widen_to_f16(request: Request, value: SSAValue, element: Attribute) -> SSAValue:
    """The exact f16 of an e4m3, e5m2 or e2m1."""
    b, row = request.builder, _row(request, element)
    if isinstance(element, Float4E2M1FNType):
        template = "{ .reg .b8 t; cvt.u8.u16 t, $1; cvt.rn.f16x2.e2m1x2 $0, t; }"
        words = request.asm(template, "=r,h", _I32, _pack_nibbles(request, value))
        return request.halves_of_words(words, f16)
    template = f"cvt.rn.f16x2.{row.pair} $0, $1;"
    lanes = lanes_of(value.type)
    if lanes is None or lanes % 2:
        pairs = b.zext(value, _I16)
    else:
        pairs = b.bitcast(value, vector_type(_I16, lanes // 2))
    words = request.asm(template, "=r,h", _I32, pairs)
    return request.halves_of_words(words, f16)


def _pack_nibbles(request: Request, value: SSAValue) -> SSAValue:
    """Pairs of f4, the even lane in the low four bits; a lone value by itself."""
    b = request.builder
    even, odd = request.even_odd(b.zext(value, _I16))
    if even is odd:
        return even
    four = b.const_int(odd.type, 4)
    return b.or_(even, b.shl(odd, four))


def _widen_exponent(request: Request, value: SSAValue) -> SSAValue:
    """e8m0 is the exponent of an f32: shift it there. 0 is 2**-127, a subnormal; 255 is NaN."""
    b = request.builder
    wide = b.zext(value, _I32)
    bits = b.shl(wide, request.constant(_I32, 23))
    lowest, nan = request.constant(_I32, 0x00400000), request.constant(_I32, 0x7FC00000)
    bits = b.select(b.icmp("eq", wide, request.constant(_I32, 0)), lowest, bits)
    bits = b.select(b.icmp("eq", wide, request.constant(_I32, 255)), nan, bits)
    return b.bitcast(bits, request.like(f32))


def narrow(request: Request, value: SSAValue, element: Attribute, mode: RoundingMode) -> SSAValue:
    """f32 to a small float: to nearest even; to e8m0 towards zero or up."""
    row = _row(request, element)
    rounding = "rn"
    if isinstance(element, Float8E8M0FNUType):
        rounding = {RoundingMode.ZERO: "rz", RoundingMode.POSITIVE_INF: "rp"}.get(mode, "")
    elif mode is not RoundingMode.NEAREST_EVEN:
        rounding = ""
    if not rounding:
        raise request.unsupported(f"has no rounding '{mode.value}' to {element}")
    even, odd = request.even_odd(value)
    convert = f"cvt.{rounding}.satfinite.{row.pair}.f32"
    if isinstance(element, Float4E2M1FNType):
        template = f"{{ .reg .b8 t; {convert} t, $1, $2; cvt.u16.u8 $0, t; }}"
        return _unpack_nibbles(request, request.asm(template, "=h,f,f", _I16, odd, even), value)
    words = request.asm(f"{convert} $0, $1, $2;", "=h,f,f", _I16, odd, even)
    return _unpack_bytes(request, words, value)


def narrow_integer(
    request: Request, value: SSAValue, element: Attribute, greatest: int
) -> SSAValue:
    """An integer, given as f32 rounded to odd, to a small float; `greatest`: of its magnitude.

    What is too large becomes infinity, or NaN where there is none (Tile IR specification, itof).
    """
    b = request.builder
    saturated = narrow(request, value, element, RoundingMode.NEAREST_EVEN)
    last_finite = _row(request, element).last_finite
    if last_finite is None or greatest <= last_finite:
        return saturated
    magnitude = b.unary_intrinsic("llvm.fabs", value)
    overflow = b.fcmp("ogt", magnitude, b.const_float(value.type, last_finite))
    return b.add(saturated, b.zext(overflow, _I8))


def narrow_f16(request: Request, value: SSAValue, element: Attribute) -> SSAValue:
    """f16 to e4m3 or e5m2, a pair in one instruction."""
    b, row = request.builder, _row(request, element)
    template = f"cvt.rn.satfinite.{row.pair}.f16x2 $0, $1;"
    lanes = lanes_of(value.type)
    if lanes is None or lanes % 2:
        halves = b.zext(b.bitcast(value, request.like(_I16)), _I32)
        return b.trunc(request.asm(template, "=h,r", _I16, halves), _I8)
    words = request.asm(template, "=h,r", _I16, b.bitcast(value, vector_type(_I32, lanes // 2)))
    return b.bitcast(words, vector_type(_I8, lanes))


def _unpack_bytes(request: Request, words: SSAValue, like: SSAValue) -> SSAValue:
    b, lanes = request.builder, lanes_of(like.type)
    if lanes is None or lanes % 2:
        return b.trunc(words, _I8)
    return b.bitcast(words, vector_type(_I8, lanes))


def _unpack_nibbles(request: Request, words: SSAValue, like: SSAValue) -> SSAValue:
    """The two f4 of every word, each in the low half of an i8."""
    b, lanes = request.builder, lanes_of(like.type)
    low = b.trunc(b.and_(words, b.const_int(words.type, 15)), _I8)
    if lanes is None or lanes % 2:
        return low
    shifted = b.lshr(words, b.const_int(words.type, 4))
    high = b.trunc(b.and_(shifted, b.const_int(words.type, 15)), _I8)
    half = lanes // 2
    return b.shuffle(low, high, [i // 2 + (i % 2) * half for i in range(lanes)])

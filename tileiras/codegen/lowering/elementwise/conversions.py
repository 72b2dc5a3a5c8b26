"""Conversions between element types, bit casts, and pointer arithmetic."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatTF32Type,
    IntegerType,
    bf16,
    f32,
    f64,
)
from xdsl.ir import Attribute, SSAValue

from tileiras.codegen.lowering.elementwise.request import ROUNDING_SUFFIX, Request
from tileiras.codegen.lowering.elementwise.rounding import (
    f64_to_odd_f32,
    integer_to_odd_f32,
    narrow_f32,
    narrow_f64,
    round_to_tf32,
)
from tileiras.codegen.lowering.elementwise.small_floats import (
    has_f16_form,
    narrow,
    narrow_f16,
    narrow_integer,
    widen,
    widen_to_f16,
)
from tileiras.codegen.lowering.types import register_type, storage_bits
from tileiras.dialects.cuda_tile.attributes import RoundingMode
from tileiras.dialects.llvm.types import integer_type
from tileiras.dialects.nv_tileaa.types import PointerType

_I8, _I32, _I64 = integer_type(8), integer_type(32), integer_type(64)
_F32_INTEGER_BITS = 24  # integers of so many bits are exact in f32
_TF32_INTEGER_BITS = 11


# integers


def lower_exti(request: Request) -> SSAValue:
    """Widens an integer. An i4 has garbage above its four bits."""
    b, (value,) = request.builder, request.args
    target = register_type(request.result)
    if request.integer_width() == 4:
        four = request.constant(_I8, 4)
        shifted = b.shl(value, four)
        value = b.ashr(shifted, four) if request.signed else b.lshr(shifted, four)
    return b.sext(value, target) if request.signed else b.zext(value, target)


def lower_trunci(request: Request) -> SSAValue:
    """Keeps the low bits."""
    return request.builder.trunc(request.args[0], register_type(request.result))


# float to float


def lower_fp_to_fp(request: Request) -> SSAValue:
    """Between float types, rounded once; a widening is exact in every rounding mode."""
    (value,), source, target = request.args, request.source, request.result
    if isinstance(source, Float64Type):
        return _from_f64(request, value, target)
    if has_f16_form(source) and isinstance(target, Float16Type):
        return widen_to_f16(request, value, source)
    if has_f16_form(target) and isinstance(source, Float16Type) and storage_bits(target) == 8:
        return _f16_to_f8(request, value, target)
    return _from_f32(request, _in_f32(request, value, source), target)


def _f16_to_f8(request: Request, value: SSAValue, target: Attribute) -> SSAValue:
    if request.rounding is not RoundingMode.NEAREST_EVEN:
        raise request.unsupported(f"has no rounding '{request.rounding.value}' to {target}")
    return narrow_f16(request, value, target)


def _in_f32(request: Request, value: SSAValue, source: Attribute) -> SSAValue:
    """The exact f32 of any float but f64."""
    match source:
        case Float32Type() | FloatTF32Type():
            return value
        case Float16Type() | BFloat16Type():
            return request.builder.fpext(value, f32)
        case _:
            return widen(request, value, source)


def _ieee_suffix(request: Request, target: Attribute) -> str:
    suffix = ROUNDING_SUFFIX.get(request.rounding)
    if suffix is None:
        raise request.unsupported(f"has no rounding '{request.rounding.value}' to {target}")
    return suffix


def _is_exact(source: Attribute, target: Attribute) -> bool:
    """Whether every f16, bf16, tf32, f32 or small value is one of the target's."""
    if isinstance(source, Float32Type):
        return isinstance(target, Float64Type)
    return isinstance(target, Float32Type | Float64Type | FloatTF32Type)


def _from_f32(request: Request, value: SSAValue, target: Attribute) -> SSAValue:
    """An f32 that holds the source exactly, to the result type."""
    b = request.builder
    match target:
        case Float64Type():
            return b.fpext(value, f64)
        case Float32Type():
            return value
        case FloatTF32Type():
            if _is_exact(request.source, target):
                return value
            return round_to_tf32(request, value, request.rounding)
        case Float16Type() | BFloat16Type():
            return narrow_f32(request, value, target, _ieee_suffix(request, target))
        case _:
            return narrow(request, value, target, request.rounding)


def _from_f64(request: Request, value: SSAValue, target: Attribute) -> SSAValue:
    match target:
        case Float32Type() | Float16Type() | BFloat16Type():
            return narrow_f64(request, value, target, _ieee_suffix(request, target))
        case FloatTF32Type():
            return round_to_tf32(request, f64_to_odd_f32(request, value), request.rounding)
        case Float8E8M0FNUType():
            suffix = _ieee_suffix(request, target)
            step = narrow_f64(request, value, f32, suffix)
            return narrow(request, step, target, request.rounding)
        case _:
            return narrow(request, f64_to_odd_f32(request, value), target, request.rounding)


# float to integer and back


def lower_int_to_fp(request: Request) -> SSAValue:
    """Integer to float, rounded once to nearest even."""
    b, (value,), target = request.builder, request.args, request.result
    if request.rounding is not RoundingMode.NEAREST_EVEN:
        raise request.unsupported(f"has no rounding '{request.rounding.value}'")
    if isinstance(target, Float8E8M0FNUType):
        raise request.unsupported(f"cannot convert to {target}")
    width, signed = request.integer_width(), request.signed
    if width == 1:
        return _bit_to_fp(request, value, signed)
    if width < 32:
        value = b.sext(value, _I32) if signed else b.zext(value, _I32)
    convert = b.sitofp if signed else b.uitofp
    if isinstance(target, Float16Type | Float32Type | Float64Type):
        return convert(value, target)
    if width < _F32_INTEGER_BITS:
        exact = convert(value, f32)
    else:
        exact = integer_to_odd_f32(request, value, width, signed)
    match target:
        case BFloat16Type():
            return b.fptrunc(exact, bf16)
        case FloatTF32Type() if width <= _TF32_INTEGER_BITS:
            return exact
        case FloatTF32Type():
            return round_to_tf32(request, exact, RoundingMode.NEAREST_EVEN)
        case _:
            greatest = 1 << (width - 1) if signed else (1 << width) - 1
            return narrow_integer(request, exact, target, greatest)


def _bit_to_fp(request: Request, value: SSAValue, signed: bool) -> SSAValue:
    """An i1 as 0 and 1, or 0 and -1.

    A choice of constants: for `sitofp i1` to bf16, which InstCombine makes of longer ways to say
    it, LLVM 22's NVPTX backend emits 0 and 1.
    """
    b, target = request.builder, request.result
    native = Float16Type | BFloat16Type | Float32Type | Float64Type
    type = request.like(target if isinstance(target, native) else f32)
    one = b.const_float(type, -1.0 if signed else 1.0)
    number = b.select(value, one, b.const_float(type, 0.0))
    if isinstance(target, native | FloatTF32Type):
        return number
    return narrow_integer(request, number, target, greatest=1)


def lower_fp_to_int(request: Request) -> SSAValue:
    """Float to integer, cut off towards zero.

    `saturating` gives the nearest integer of the type, and zero for a NaN. Without it, what is out
    of range is undefined by the specification; to i1 it tells whether the number is not zero, which
    is what clients mean by a conversion to bool (also for 0.5, NaN and numbers out of range).
    """
    b, (value,), source = request.builder, request.args, request.source
    if not isinstance(source, Float32Type | Float64Type):
        value = _in_f32(request, value, source)
    width, signed = _integer_width(request.result), request.signed
    if "saturating" in request.op.properties:
        return _saturated(request, value, width, signed)
    if width == 1:
        return b.fcmp("une", value, b.zero(value.type))
    wide = integer_type(max(width, 32))
    whole = b.fptosi(value, wide) if signed else b.fptoui(value, wide)
    return b.trunc(whole, integer_type(width))


def _integer_width(element: Attribute) -> int:
    return element.width.data if isinstance(element, IntegerType) else 0


def _saturated(request: Request, value: SSAValue, width: int, signed: bool) -> SSAValue:
    """PTX's cvt clamps to 32 or 64 bits; narrower types are clamped once more (PTX ISA, "cvt")."""
    b, wide_width = request.builder, max(width, 32)
    wide = integer_type(wide_width)
    source, letter = ("f64", "d") if isinstance(request.source, Float64Type) else ("f32", "f")
    kind, register = ("s" if signed else "u") + str(wide_width), "l" if wide_width == 64 else "r"
    number = request.asm(f"cvt.rzi.{kind}.{source} $0, $1;", f"={register},{letter}", wide, value)
    if wide_width == 64 or letter == "d":  # these give the least integer for a NaN
        zero = request.constant(wide, 0)
        number = b.select(b.fcmp("uno", value, value), zero, number)
    if width == wide_width:
        return number
    if signed:
        number = b.unary_intrinsic("llvm.smax", number, request.constant(wide, -(1 << (width - 1))))
        most = (1 << (width - 1)) - 1
        number = b.unary_intrinsic("llvm.smin", number, request.constant(wide, most))
    else:
        number = b.unary_intrinsic("llvm.umin", number, request.constant(wide, (1 << width) - 1))
    return b.trunc(number, integer_type(width))


# bits and pointers


def lower_bitcast(request: Request) -> SSAValue:
    """The same bits as another type of the same width."""
    return request.builder.bitcast(request.args[0], request.like(register_type(request.result)))


def lower_address_cast(request: Request) -> SSAValue:
    """int_to_ptr, ptr_to_int, ptr_to_ptr: a pointer is its address, an i64, all along."""
    return request.args[0]


def lower_addptr(request: Request) -> SSAValue:
    """`pointer + offset * size of the pointee`; the offset is signed, of any width."""
    b, (pointer, offset) = request.builder, request.args
    pointee = request.source.pointee if isinstance(request.source, PointerType) else request.source
    bits = storage_bits(pointee)
    if bits % 8:
        raise request.unsupported(f"cannot step over {pointee}, two of which share a byte")
    step = request.constant(_I64, bits // 8)
    return b.add(pointer, b.mul(b.sext(offset, _I64), step))


__all__ = [
    "lower_address_cast",
    "lower_addptr",
    "lower_bitcast",
    "lower_exti",
    "lower_fp_to_fp",
    "lower_fp_to_int",
    "lower_int_to_fp",
    "lower_trunci",
]

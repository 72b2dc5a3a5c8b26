"""Narrowing floats with a given rounding, once: no result is ever rounded twice.

Two facts carry this file. Rounding in one *direction* may be done in steps, because every value of
the narrow format is one of the wide format. And rounding to nearest may follow *round-to-odd* in a
format that is at least two bits longer (Boldo and Melquiond, "Emulation of FMA and correctly
rounded sums", 2008): the odd last bit remembers that something was cut off.
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    bf16,
    f16,
    f32,
)
from xdsl.ir import Attribute, SSAValue

from tileiras.codegen.lowering.elementwise.request import ROUNDING_SUFFIX, Request
from tileiras.dialects.cuda_tile.attributes import RoundingMode
from tileiras.dialects.llvm.types import integer_type

_I16, _I32, _I64 = integer_type(16), integer_type(32), integer_type(64)

CANONICAL_BF16_NAN = 0x7FFF
"""PTX ISA, "Floating-Point Instructions": the NaN that bf16 instructions give."""

CANONICAL_TF32_NAN = 0x7FFFE000
"""The canonical f32 NaN, 0x7fffffff, in the bits that tf32 keeps."""

TF32_MASK = ~0x1FFF
"""The 19 bits of an f32 that tf32 keeps."""


def float_suffix(request: Request) -> str:
    """`rn`, `rz`, `rm` or `rp` for the op's rounding mode."""
    suffix = ROUNDING_SUFFIX.get(request.rounding)
    if suffix is None:
        raise request.unsupported(f"has no rounding '{request.rounding.value}' on {request.result}")
    return suffix


def narrow_f32(request: Request, value: SSAValue, target: Attribute, suffix: str) -> SSAValue:
    """f32 to f16 or bf16 with the rounding `rn`, `rz`, `rm` or `rp`."""
    b = request.builder
    if suffix == "rn":
        return b.fptrunc(value, target)
    if suffix == "rz":
        even, odd = request.even_odd(value)
        words = request.asm(f"cvt.rz.{target}x2.f32 $0, $1, $2;", "=r,f,f", _I32, odd, even)
        return request.halves_of_words(words, target)
    if isinstance(target, Float16Type):
        bits = request.asm(f"cvt.{suffix}.f16.f32 $0, $1;", "=h,f", _I16, value)
        return b.bitcast(bits, request.like(f16))
    return _narrow_to_bf16_by_bits(request, value, upwards=suffix == "rp")


def _narrow_to_bf16_by_bits(request: Request, value: SSAValue, upwards: bool) -> SSAValue:
    """Up or down: PTX has no such cvt to bf16. A bf16 is the upper half of an f32.

    Cutting the lower half off rounds to zero; where that is the wrong way, adding 0xffff first
    carries into the upper half exactly if something is cut off, up to infinity at the end.
    """
    b = request.builder
    bits = b.bitcast(value, request.like(_I32))
    shift = request.constant(_I32, 31)
    negative = b.ashr(bits, shift)
    away = b.not_(negative) if upwards else negative
    rounded = b.add(bits, b.and_(away, request.constant(_I32, 0xFFFF)))
    upper = b.trunc(b.lshr(rounded, request.constant(_I32, 16)), _I16)
    nan = request.constant(_I16, CANONICAL_BF16_NAN)
    checked = b.select(b.fcmp("uno", value, value), nan, upper)
    return b.bitcast(checked, request.like(bf16))


def narrow_f64(request: Request, value: SSAValue, target: Attribute, suffix: str) -> SSAValue:
    """f64 to f32, f16 or bf16 with the rounding `rn`, `rz`, `rm` or `rp`."""
    b = request.builder
    match target:
        case Float32Type() | Float16Type() if suffix == "rn":
            return b.fptrunc(value, target)
        case Float32Type():
            return request.asm(f"cvt.{suffix}.f32.f64 $0, $1;", "=f,d", f32, value)
        case Float16Type():
            bits = request.asm(f"cvt.{suffix}.f16.f64 $0, $1;", "=h,d", _I16, value)
            return b.bitcast(bits, request.like(f16))
        case BFloat16Type() if suffix == "rn":
            return b.fptrunc(f64_to_odd_f32(request, value), bf16)
        case BFloat16Type():
            step = request.asm(f"cvt.{suffix}.f32.f64 $0, $1;", "=f,d", f32, value)
            return narrow_f32(request, step, bf16, suffix)
        case _:
            raise request.unsupported(f"cannot round f64 to {target}")


def f64_to_odd_f32(request: Request, value: SSAValue) -> SSAValue:
    """f64 to f32, cut off towards zero, with the last bit set if that was inexact."""
    b = request.builder
    cut = request.asm("cvt.rz.f32.f64 $0, $1;", "=f,d", f32, value)
    inexact = b.fcmp("une", b.fpext(cut, Float64Type()), value)
    return _set_last_bit(request, cut, inexact)


def integer_to_odd_f32(request: Request, value: SSAValue, width: int, signed: bool) -> SSAValue:
    """An i32 or i64 to f32, cut off towards zero, with the last bit set if that was inexact."""
    b = request.builder
    kind, letter = ("s" if signed else "u") + str(width), "r" if width == 32 else "l"
    register = _I32 if width == 32 else _I64
    cut = request.asm(f"cvt.rz.f32.{kind} $0, $1;", f"=f,{letter}", f32, value)
    back = request.asm(f"cvt.rzi.{kind}.f32 $0, $1;", f"={letter},f", register, cut)
    return _set_last_bit(request, cut, b.icmp("ne", back, value))


def _set_last_bit(request: Request, value: SSAValue, inexact: SSAValue) -> SSAValue:
    b = request.builder
    bits = b.bitcast(value, request.like(_I32))
    return b.bitcast(b.or_(bits, b.zext(inexact, _I32)), request.like(f32))


def round_to_tf32(request: Request, value: SSAValue, mode: RoundingMode) -> SSAValue:
    """f32 to the nearest f32 that has only the bits of a tf32.

    Done on the bits: `cvt.rn.tf32` exists from sm_90 on only, and PTX does not say what the low 13
    bits of a cvt's result are. A NaN keeps its upper bits (the quiet bit is among them).
    """
    b = request.builder
    bits = b.bitcast(value, request.like(_I32))
    mask = request.constant(_I32, TF32_MASK)
    match mode:
        case RoundingMode.ZERO:
            rounded = bits
        case RoundingMode.NEAREST_AWAY:
            rounded = b.add(bits, request.constant(_I32, 0x1000))
        case RoundingMode.NEAREST_EVEN:
            last = b.lshr(bits, request.constant(_I32, 13))
            even = b.and_(last, request.constant(_I32, 1))
            rounded = b.add(b.add(bits, request.constant(_I32, 0x0FFF)), even)
        case _:
            raise request.unsupported(f"has no rounding '{mode.value}' to tf32")
    # a carry could make a NaN a number, cutting it off could make it infinity
    nan = request.constant(_I32, CANONICAL_TF32_NAN)
    kept = b.select(b.fcmp("uno", value, value), nan, b.and_(rounded, mask))
    return b.bitcast(kept, request.like(f32))

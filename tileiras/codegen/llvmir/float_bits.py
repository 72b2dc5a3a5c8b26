"""Bit patterns of floating-point constants, rounded to nearest even, and their LLVM spelling."""

from __future__ import annotations

import math
import struct

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type
from xdsl.ir import Attribute

from tileiras.errors import InternalError


def _pack(value: float, code: str, size: int, infinity: int) -> int:
    """`value` in the struct format `code`; what overflows becomes `infinity` with its sign."""
    try:
        return int.from_bytes(struct.pack("<" + code, value), "little")
    except OverflowError:
        return infinity | (1 << (8 * size - 1) if value < 0 else 0)


def _bfloat16_bits(value: float) -> int:
    """Rounds once: a tie made by rounding to f32 first is decided by the exact value."""
    wide = _pack(value, "f", 4, 0x7F800000)
    if math.isnan(value):
        return (wide >> 16) | 0x40
    low, high = wide & 0xFFFF, wide >> 16
    if low != 0x8000 or math.isinf(value):
        return high + (low > 0x8000)
    rounded = struct.unpack("<f", wide.to_bytes(4, "little"))[0]
    if abs(value) == abs(rounded):
        return high + (high & 1)
    return high + (abs(value) > abs(rounded))


def float_to_bits(type: Attribute, value: float) -> int:
    """The bit pattern of `value` rounded to nearest even to the scalar float `type`."""
    match type:
        case Float16Type():
            return _pack(value, "e", 2, 0x7C00)
        case BFloat16Type():
            return _bfloat16_bits(value)
        case Float32Type():
            return _pack(value, "f", 4, 0x7F800000)
        case Float64Type():
            return _pack(value, "d", 8, 0x7FF0000000000000)
        case _:
            raise InternalError(f"no LLVM float type for {type}", where="float_bits")


def _f32_as_double_bits(bits: int) -> int:
    """LLVM spells f32 as the double of the same value; NaN payloads move along."""
    sign, exponent, mantissa = bits >> 31, (bits >> 23) & 0xFF, bits & 0x7FFFFF
    if exponent == 0xFF:
        return (sign << 63) | (0x7FF << 52) | (mantissa << 29)
    value = struct.unpack("<f", bits.to_bytes(4, "little"))[0]
    return int.from_bytes(struct.pack("<d", value), "little")


def float_literal(type: Attribute, bits: int) -> str:
    """LLVM's bit-exact spelling: `0xH3C00` (half), `0xR3F80` (bfloat), `0x3FF0000000000000`."""
    match type:
        case Float16Type():
            return f"0xH{bits:04X}"
        case BFloat16Type():
            return f"0xR{bits:04X}"
        case Float32Type():
            return f"0x{_f32_as_double_bits(bits):016X}"
        case Float64Type():
            return f"0x{bits:016X}"
        case _:
            raise InternalError(f"no LLVM float type for {type}", where="float_bits")

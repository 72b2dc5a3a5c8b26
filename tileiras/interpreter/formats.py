"""How elements of every Tile IR type are held in numpy arrays and in memory.

| element type        | held as                     | in memory                              |
|---------------------|-----------------------------|----------------------------------------|
| i1                  | bool                        | a byte, 0 or 1; any nonzero reads as 1 |
| i4                  | int8, -8 to 7               | half a byte, even index in the low half |
| i8 i16 i32 i64      | intN (signed)               | N bits                                 |
| f16 f32 f64         | numpy's own                 | the same                               |
| bf16 f8* f4E2M1FN   | ml_dtypes' own              | the same; f4 like i4                   |
| tf32                | float32, low 13 bits clear  | 4 bytes; extra bits are cut on reading |
| fnv8E5M3FNU         | float32                     | a byte                                 |
| pointers            | int64 addresses             | 8 bytes                                |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatTF32Type,
    IntegerType,
)
from xdsl.ir import Attribute

from tileiras.dialects.cuda_tile.types import Float8E5M3FNUType, PointerType
from tileiras.interpreter.errors import InterpreterError

Array = NDArray

TF32_DROPPED_BITS = 13
"""A tf32 is an f32 without the low 13 bits of its mantissa (PTX ISA, "tf32")."""


@dataclass(frozen=True)
class FloatFormat:
    """A floating-point format: `precision` counts the hidden bit, exponents are unbiased.

    The smallest normal number is `2**emin`; the largest finite one is `max_finite`.
    """

    name: str
    bits: int
    precision: int
    emin: int
    max_finite: float
    dtype: np.dtype
    storage: np.dtype
    has_inf: bool = True
    has_nan: bool = True
    is_signed: bool = True
    has_zero: bool = True


@dataclass(frozen=True)
class IntFormat:
    """A signless integer of `bits` bits, held as its signed reading."""

    name: str
    bits: int
    dtype: np.dtype
    storage: np.dtype

    def signed(self, values: Array) -> Array:
        """The signed reading as an array of a signed numpy type (a true i1 is -1)."""
        return -values.astype(np.int8) if self.bits == 1 else np.asarray(values)

    def unsigned(self, values: Array) -> Array:
        """The unsigned reading as an array of an unsigned numpy type."""
        if self.bits == 1:
            return values.astype(np.uint8)
        raw = np.asarray(values).view(self.storage)
        return raw & np.uint8(15) if self.bits == 4 else raw

    def read(self, values: Array, is_signed: bool) -> Array:
        """The signed or the unsigned reading."""
        return self.signed(values) if is_signed else self.unsigned(values)

    def wrap(self, values: Array) -> Array:
        """Keeps the low bits of numpy integers of any width."""
        values = np.asarray(values)
        if self.bits == 1:
            return (values & values.dtype.type(1)).astype(np.bool_)
        if self.bits == 4:
            low = values.astype(np.int8) & np.int8(15)
            return (low ^ np.int8(8)) - np.int8(8)
        return values.astype(self.dtype)

    def limits(self, is_signed: bool) -> tuple[int, int]:
        """The smallest and the largest value of a reading."""
        if is_signed:
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1


Format = FloatFormat | IntFormat


def _float(
    name: str,
    bits: int,
    precision: int,
    emin: int,
    top: float,
    dtype: Any,
    storage: Any,
    **flags: bool,
):
    return FloatFormat(
        name, bits, precision, emin, top, np.dtype(dtype), np.dtype(storage), **flags
    )


_FLOATS: dict[type[Attribute], FloatFormat] = {
    Float16Type: _float("f16", 16, 11, -14, 65504.0, np.float16, np.uint16),
    BFloat16Type: _float("bf16", 16, 8, -126, 2.0**128 - 2.0**120, ml_dtypes.bfloat16, np.uint16),
    Float32Type: _float("f32", 32, 24, -126, 2.0**128 - 2.0**104, np.float32, np.uint32),
    Float64Type: _float(
        "f64", 64, 53, -1022, float(np.finfo(np.float64).max), np.float64, np.uint64
    ),
    FloatTF32Type: _float("tf32", 19, 11, -126, 2.0**128 - 2.0**117, np.float32, np.uint32),
    Float8E4M3FNType: _float(
        "f8E4M3FN", 8, 4, -6, 448.0, ml_dtypes.float8_e4m3fn, np.uint8, has_inf=False
    ),
    Float8E5M2Type: _float("f8E5M2", 8, 3, -14, 57344.0, ml_dtypes.float8_e5m2, np.uint8),
    Float8E8M0FNUType: _float(
        "f8E8M0FNU",
        8,
        1,
        -127,
        2.0**127,
        ml_dtypes.float8_e8m0fnu,
        np.uint8,
        has_inf=False,
        is_signed=False,
        has_zero=False,
    ),
    Float4E2M1FNType: _float(
        "f4E2M1FN",
        4,
        2,
        0,
        6.0,
        ml_dtypes.float4_e2m1fn,
        np.uint8,
        has_inf=False,
        has_nan=False,
    ),
    Float8E5M3FNUType: _float(
        "fnv8E5M3FNU",
        8,
        4,
        -14,
        2.0**16 * 1.75,
        np.float32,
        np.uint8,
        has_inf=False,
        is_signed=False,
    ),
}

_INTS: dict[int, IntFormat] = {
    1: IntFormat("i1", 1, np.dtype(np.bool_), np.dtype(np.uint8)),
    4: IntFormat("i4", 4, np.dtype(np.int8), np.dtype(np.uint8)),
    8: IntFormat("i8", 8, np.dtype(np.int8), np.dtype(np.uint8)),
    16: IntFormat("i16", 16, np.dtype(np.int16), np.dtype(np.uint16)),
    32: IntFormat("i32", 32, np.dtype(np.int32), np.dtype(np.uint32)),
    64: IntFormat("i64", 64, np.dtype(np.int64), np.dtype(np.uint64)),
}

_POINTER = IntFormat("ptr", 64, np.dtype(np.int64), np.dtype(np.uint64))

F32 = _FLOATS[Float32Type]


@cache
def format_of(element_type: Attribute) -> Format:
    """The format of an element type; a pointer counts as a 64-bit integer."""
    match element_type:
        case IntegerType():
            return _INTS[element_type.width.data]
        case PointerType():
            return _POINTER
    found = _FLOATS.get(type(element_type))
    if found is None:
        raise InterpreterError(f"no tile can hold elements of type '{element_type}'")
    return found


def float_format_of(element_type: Attribute) -> FloatFormat:
    """The format of a float element type."""
    found = format_of(element_type)
    if not isinstance(found, FloatFormat):
        raise InterpreterError(f"'{element_type}' is not a float type")
    return found


def int_format_of(element_type: Attribute) -> IntFormat:
    """The format of an integer (or pointer) element type."""
    found = format_of(element_type)
    if not isinstance(found, IntFormat):
        raise InterpreterError(f"'{element_type}' is not an integer type")
    return found


def storage_bytes(element_type: Attribute) -> int:
    """Bytes that one element takes in memory; a 4-bit element counts as one byte."""
    return format_of(element_type).storage.itemsize


@cache
def _e5m3_values() -> Array:
    """The values of fnv8E5M3FNU by bit pattern: exponent bias 15, all ones is NaN."""
    code = np.arange(256)
    exponent, mantissa = code >> 3, code & 7
    normal = np.ldexp(1.0 + mantissa / 8.0, exponent - 15)
    values = np.where(exponent == 0, np.ldexp(mantissa / 8.0, -14), normal)
    values[255] = np.nan
    return values.astype(np.float32)


def to_bits(values: Array, fmt: Format) -> Array:
    """The elements' memory representation as unsigned integers of the storage width."""
    values = np.asarray(values)
    match fmt.name:
        case "i1":
            return values.astype(np.uint8)
        case "i4":
            return values.view(np.uint8) & np.uint8(15)
        case "fnv8E5M3FNU":
            table = _e5m3_values()
            code = np.searchsorted(table[:255], values.astype(np.float32))
            return np.where(np.isnan(values), 255, np.minimum(code, 254)).astype(np.uint8)
    return values.view(fmt.storage)


def from_bits(bits: Array, fmt: Format) -> Array:
    """The elements that a memory representation stands for."""
    bits = np.asarray(bits)
    match fmt.name:
        case "i1":
            return bits != 0
        case "i4":
            return ((bits.view(np.int8) & np.int8(15)) ^ np.int8(8)) - np.int8(8)
        case "f4E2M1FN":
            return (bits & np.uint8(15)).view(fmt.dtype)
        case "tf32":
            return (bits >> np.uint32(TF32_DROPPED_BITS) << np.uint32(TF32_DROPPED_BITS)).view(
                np.float32
            )
        case "fnv8E5M3FNU":
            return _e5m3_values()[bits]
    return bits.view(fmt.dtype)


def from_constant_bytes(raw: bytes, fmt: Format) -> Array:
    """The elements of a constant's bytes, as the constant section stores them."""
    data = np.frombuffer(raw, dtype=np.uint8)
    if fmt.name == "tf32":
        packed = data.reshape(-1, 3).astype(np.uint32)
        bits = packed[:, 0] | packed[:, 1] << np.uint32(8) | packed[:, 2] << np.uint32(16)
        return from_bits(bits << np.uint32(TF32_DROPPED_BITS), fmt)
    return from_bits(data.view(fmt.storage), fmt)

"""Values of the llvm dialect in all threads at once: bit patterns in numpy arrays.

A value is an array of unsigned 64-bit patterns with one row for each thread: (threads,) for a
scalar, (threads, lanes) for a vector. Bits above the width of the type are zero.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type
from xdsl.ir import Attribute

from tileiras.dialects.llvm.types import bit_width, lanes_of, scalar_of

Value = np.ndarray
"""(threads,) or (threads, lanes) of uint64."""
Bytes = np.ndarray
"""(threads, size) of uint8."""

POISON = 0xDEADBEEFDEADBEEF
"""What an undefined value holds: nothing that a right program depends on."""

_FLOATS: dict[type[Attribute], tuple[Any, Any]] = {
    Float16Type: (np.float16, np.uint16),
    BFloat16Type: (ml_dtypes.bfloat16, np.uint16),
    Float32Type: (np.float32, np.uint32),
    Float64Type: (np.float64, np.uint64),
}


def element_bits(type_: Attribute) -> int:
    """Bits of one element of a value."""
    return bit_width(scalar_of(type_))


def masked(value: Value | np.uint64, type_: Attribute) -> Value:
    """The low bits that the type has."""
    return np.asarray(value & np.uint64((1 << element_bits(type_)) - 1))


def same_everywhere(threads: int, pattern: int, type_: Attribute) -> Value:
    """One pattern in every thread and lane."""
    lanes = lanes_of(type_)
    shape = (threads,) if lanes is None else (threads, lanes)
    return masked(np.full(shape, pattern & (1 << 64) - 1, np.uint64), type_)


def signed(value: Value, width: int) -> np.ndarray:
    """Patterns as two's complement numbers."""
    shift = np.uint64(64 - width)
    return (value << shift).view(np.int64) >> np.int64(64 - width)


def unsigned(numbers: np.ndarray, type_: Attribute) -> Value:
    """Numbers as patterns of a type: the inverse of `signed`."""
    return masked(np.asarray(numbers).astype(np.int64).view(np.uint64), type_)


def to_float(value: Value, type_: Attribute) -> np.ndarray:
    """Patterns as floats."""
    dtype, storage = _FLOATS[scalar_of(type_).__class__]
    return np.ascontiguousarray(value.astype(storage)).view(dtype)


def from_float(value: np.ndarray, type_: Attribute) -> Value:
    """Floats as patterns, rounded to the type."""
    dtype, storage = _FLOATS[scalar_of(type_).__class__]
    return np.ascontiguousarray(np.asarray(value).astype(dtype)).view(storage).astype(np.uint64)


def to_bytes(value: Value, type_: Attribute) -> Bytes:
    """The bytes of a value as they lie in memory."""
    size = element_bits(type_) // 8
    rows = value.reshape(len(value), -1)
    raw = np.ascontiguousarray(rows)[..., None].view(np.uint8)
    return raw[..., :size].reshape(len(value), -1)


def from_bytes(data: Bytes, type_: Attribute) -> Value:
    """The inverse of `to_bytes`."""
    size, lanes = element_bits(type_) // 8, lanes_of(type_)
    wide = np.zeros((len(data), lanes or 1, 8), np.uint8)
    wide[..., :size] = data.reshape(len(data), lanes or 1, size)
    value = wide.view(np.uint64)[..., 0]
    return value[:, 0].copy() if lanes is None else value

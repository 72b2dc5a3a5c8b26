"""Elements of matrix operands: bits to float64 values, for every type of the tensor core."""

from __future__ import annotations

import numpy as np

from tileiras.interpreter.ptx.formats import FORMATS, decode, encode, round_to

BITS: dict[str, int] = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "f64": 64,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "b1": 1,
    "e4m3": 8,
    "e5m2": 8,
    "e2m3": 6,
    "e3m2": 6,
    "e2m1": 4,
}
"""Bits of the element types of products."""

INTEGERS = ("s8", "u8", "s4", "u4", "b1")

_TF32_MASK = np.uint32(0xFFFFE000)
"""A tf32 is an f32 without the low 13 bits (PTX ISA, "Alternate floating point data formats")."""


def element_values(codes: np.ndarray, name: str) -> np.ndarray:
    """float64 values of elements given as unsigned codes, one per array element."""
    match name:
        case "f64":
            return codes.view(np.float64)
        case "tf32":
            return (codes.astype(np.uint32) & _TF32_MASK).view(np.float32).astype(np.float64)
        case "f16" | "bf16":
            return decode(np.ascontiguousarray(codes.astype(np.uint16)), FORMATS[name])
        case "s8":
            return codes.astype(np.uint8).view(np.int8).astype(np.float64)
        case "s4":
            return (((codes.astype(np.int16) & 15) ^ 8) - 8).astype(np.float64)
        case "u4":
            return (codes & codes.dtype.type(15)).astype(np.float64)
        case "u8" | "b1":
            return codes.astype(np.float64)
    return decode(codes.astype(np.uint8), FORMATS[name])


def split_words(words: np.ndarray, bits: int) -> np.ndarray:
    """Codes of `bits` bits from 32-bit words: the last axis becomes `32 / bits` times longer."""
    words = np.ascontiguousarray(words)
    if bits == 32:
        return words
    if bits in (8, 16):
        kind = np.uint8 if bits == 8 else np.uint16
        return words.view(kind).reshape(*words.shape[:-1], -1)
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    parts = (words[..., None] >> shifts) & np.uint32((1 << bits) - 1)
    return parts.reshape(*words.shape[:-1], -1).astype(np.uint8)


def rounded_words(values: np.ndarray, name: str) -> np.ndarray:
    """float64 results as codes of `f16`, `bf16` or `f32`, rounded to nearest."""
    fmt = FORMATS[name]
    return encode(round_to(values, fmt, "rn"), fmt)


def integer_words(values: np.ndarray, saturates: bool) -> np.ndarray:
    """float64 integers as 32-bit words, wrapped or limited to s32."""
    whole = values.astype(np.int64)
    if saturates:
        whole = np.clip(whole, -(1 << 31), (1 << 31) - 1)
    return (whole & 0xFFFFFFFF).astype(np.uint32)

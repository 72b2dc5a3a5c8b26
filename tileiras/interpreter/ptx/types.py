"""The types of PTX and how registers hold them (PTX ISA, "Types").

A register holds bits: an array with one unsigned integer per thread of the CTA. A rule looks at
it through the type of its instruction: `f32` and `f64` are numpy's, `f16` is numpy's, every other
float format (bf16, tf32, fp8, packed pairs) is handled as bits by the rules that know it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class PtxType:
    """A type: its name, bits, the numpy type it is seen as, and the one that holds its bits."""

    name: str
    bits: int
    seen: np.dtype
    held: np.dtype

    @property
    def bytes(self) -> int:
        """Bytes in memory."""
        return max(self.bits // 8, 1)

    @property
    def is_signed(self) -> bool:
        """Whether it is a signed integer."""
        return self.seen.kind == "i"

    @property
    def is_integer(self) -> bool:
        """Whether arithmetic on it is integer arithmetic."""
        return self.name[0] in "us" and not self.is_packed

    @property
    def is_packed(self) -> bool:
        """Whether it is two or four smaller values in a register."""
        return "x" in self.name


_HELD: dict[int, Any] = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def _rows() -> dict[str, PtxType]:
    rows: dict[str, PtxType] = {}

    def add(name: str, bits: int, seen: Any) -> None:
        held = np.dtype(_HELD[min(bits, 64)])
        rows[name] = PtxType(name, bits, np.dtype(seen), held)

    add("pred", 1, np.bool_)
    for bits in (8, 16, 32, 64):
        add(f"b{bits}", bits, _HELD[bits])
        add(f"u{bits}", bits, f"u{bits // 8}")
        add(f"s{bits}", bits, f"i{bits // 8}")
    add("b128", 128, np.uint64)
    add("f16", 16, np.float16)
    add("f32", 32, np.float32)
    add("f64", 64, np.float64)
    for name in ("bf16", "e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "ue8m0x2", "e2m1x4"):
        add(name, 16, np.uint16)
    for name in ("f16x2", "bf16x2", "u16x2", "s16x2", "tf32", "e4m3x4", "e5m2x4", "e2m3x4"):
        add(name, 32, np.uint32)
    for name in ("e3m2x4", "b16x2", "u8x4", "s8x4", "b8x4"):
        add(name, 32, np.uint32)
    for name in ("e2m1x2",):
        add(name, 8, np.uint8)
    for name in ("f32x2", "b32x2", "u32x2", "s32x2"):
        add(name, 64, np.uint64)
    return rows


TYPES: dict[str, PtxType] = _rows()
"""All types by name, without the dot."""

PRED = TYPES["pred"]
B32 = TYPES["b32"]
U32 = TYPES["u32"]
B64 = TYPES["b64"]
U64 = TYPES["u64"]


def bits_type(bits: int) -> PtxType:
    """The untyped bits of a width."""
    return PRED if bits == 1 else TYPES[f"b{bits}"]

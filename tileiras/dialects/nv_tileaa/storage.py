"""Sizes of elements in memory."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float4E2M1FNType,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatTF32Type,
    IntegerType,
)
from xdsl.ir import Attribute

from tileiras.dialects.nv_tileaa.types import PointerType


def storage_bits(element: Attribute) -> int:
    """Bits of one element in global memory: i1 takes a byte, i4 and f4 half of one."""
    match element:
        case IntegerType():
            return 8 if element.width.data == 1 else element.width.data
        case Float16Type() | BFloat16Type():
            return 16
        case Float32Type() | FloatTF32Type():
            return 32
        case Float64Type() | PointerType():
            return 64
        case Float4E2M1FNType():
            return 4
        case _:
            return 8


def storage_bytes(element: Attribute) -> int:
    """Bytes of one element in global memory, at least 1."""
    return max(1, storage_bits(element) // 8)

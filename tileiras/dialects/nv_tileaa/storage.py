"""Sizes of elements in memory and in registers."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float4E2M1FNType,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatTF32Type,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute, SSAValue

from tileiras.dialects.nv_tileaa.types import MemTokenType, PointerType

BITS_OF_BYTE = 8
"""Fixed."""


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


def register_bits(element: Attribute) -> int:
    """Bits of one element in a register: an i1 is one bit, i4 and f4 take a byte."""
    if isinstance(element, IntegerType) and element.width.data == 1:
        return 1
    return max(8, storage_bits(element))


def packed_bits(type: Attribute) -> int:
    """Bits of an element without padding: 1 for i1, 4 for i4 and f4, else those of its bytes."""
    element = type.element_type if isinstance(type, TensorType) else type
    if isinstance(element, IntegerType) and element.width.data == 1:
        return 1
    return storage_bits(element)


def storage_bytes(element: Attribute) -> int:
    """Bytes of one element in global memory, at least 1."""
    return max(1, storage_bits(element) // 8)


def value_bytes(value: SSAValue) -> int:
    """Bytes of a tile or scalar in memory; none of a token."""
    if isinstance(value.type, TensorType):
        return prod(value.type.get_shape()) * storage_bytes(value.type.element_type)
    return 0 if isinstance(value.type, MemTokenType) else storage_bytes(value.type)

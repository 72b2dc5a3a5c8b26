"""Element bit patterns of constant tiles."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import FloatTF32Type, IntegerType

from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.element_types import storage_bytes

_TF32_SHIFT = 13
"""A tf32 has 19 bits; in a register it is an f32 with 13 zero bits below."""


def element_bits(attr: DenseAttr) -> list[int]:
    """The pattern of every element as registers hold it; one for a splat."""
    raw, count = attr.raw.data, attr.type.num_elements
    size = storage_bytes(attr.type.element_type)
    number = 1 if len(raw) == size else count
    values = [int.from_bytes(raw[i * size : (i + 1) * size], "little") for i in range(number)]
    element = attr.type.element_type
    if isinstance(element, FloatTF32Type):
        return [value << _TF32_SHIFT for value in values]
    if isinstance(element, IntegerType) and element.width.data == 1:
        return [value & 1 for value in values]
    return values


def is_splat(bits: Sequence[int]) -> bool:
    """Whether all elements have the same pattern."""
    return all(value == bits[0] for value in bits)

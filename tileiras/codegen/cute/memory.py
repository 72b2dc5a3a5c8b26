"""Where tensors of a kernel in the cute dialect lie: memory, and a thread's registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import IntegerType, bf16, f16, f32, f64, i32, i64
from xdsl.ir import Attribute, SSAValue

from tileiras.dialects.cute.algebra.coordinates import crd2idx
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.leaves import Leaf, static
from tileiras.dialects.cute.algebra.swizzles import AnyLayout, ComposedLayout, Swizzle
from tileiras.dialects.cute.values import CODES, Tensor, element_bits, plain_layout
from tileiras.dialects.cute_nvgpu.types import TmaAtom

ELEMENTS: dict[str, Attribute] = {
    "i1": IntegerType(1),
    "i8": IntegerType(8),
    "i16": IntegerType(16),
    "i32": i32,
    "i64": i64,
    "f16": f16,
    "bf16": bf16,
    "f32": f32,
    "f64": f64,
    **dict.fromkeys(CODES, IntegerType(8)),
}
"""The types in registers of the elements that are compiled."""


@dataclass(frozen=True, eq=False)
class Address:
    """A place in memory: an address, and an offset in elements."""

    base: SSAValue
    element: str
    space: str
    offset: Leaf = 0

    def advanced(self, offset: Leaf) -> Address:
        """The place so many elements further."""
        return Address(self.base, self.element, self.space, self.offset + offset)

    def recast(self, element: str) -> Address:
        """The same place as one of other elements; AlgebraError where the offset is dynamic."""
        bits = static(self.offset, "an offset that is recast") * element_bits(self.element)
        return Address(self.base, element, self.space, bits // element_bits(element))


@dataclass(frozen=True, eq=False)
class Registers:
    """A place in a thread's registers."""

    values: list[SSAValue | None]
    element: str
    space: str = "rmem"
    offset: Leaf = 0

    def advanced(self, offset: Leaf) -> Registers:
        """The place so many elements further."""
        return Registers(self.values, self.element, self.space, self.offset + offset)

    def recast(self, element: str) -> Registers:
        """AlgebraError: a register holds one element."""
        raise AlgebraError(f"registers of {self.element} cannot be seen as {element}")

    def at(self, index: Leaf) -> int:
        """The number of a register; AlgebraError for a dynamic one."""
        return static(self.offset + index, "the index of a register")


@dataclass(frozen=True, eq=False)
class Map:
    """A TMA atom, and where its tensor map lies."""

    atom: TmaAtom
    pointer: SSAValue


def index_in(tensor: Tensor, coordinate: Any) -> Leaf:
    """The index of a coordinate in the plain layout."""
    return crd2idx(coordinate, plain_layout(tensor))


def vectors_of(tensor: Tensor, count: int) -> list[Leaf]:
    """The index in the plain layout of each vector's first element.

    AlgebraError where `count` elements that follow each other do not lie side by side.
    """
    layout: AnyLayout = tensor.layout
    indices = plain_layout(tensor).indices
    for first in range(0, len(indices), count):
        for k in range(1, count):
            if first + k >= len(indices) or indices[first + k] != indices[first] + k:
                raise AlgebraError(f"vectors of {count} elements of {layout} are not contiguous")
    inner = layout.inner if isinstance(layout, ComposedLayout) else None
    if isinstance(inner, Swizzle) and inner.bits and count > 1 << inner.base:
        raise AlgebraError(f"{inner} tears vectors of {count} elements apart")
    return indices[::count]


def access_bytes(tensor: Tensor, count: int) -> int:
    """The bytes of an access, which is aligned to them."""
    return count * element_bits(tensor.engine.element) // 8


def register_type(element: str) -> Attribute:
    """The type of an element in registers; AlgebraError for one that is not compiled."""
    if element not in ELEMENTS:
        raise AlgebraError(f"elements {element} are not compiled, expected {', '.join(ELEMENTS)}")
    return ELEMENTS[element]

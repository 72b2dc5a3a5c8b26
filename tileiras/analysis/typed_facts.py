"""What a type alone says about a value, and how the integer readings of a tile differ."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute

from tileiras.analysis.lattice import ValueFacts, make_facts
from tileiras.dialects.cuda_tile.element_types import bit_width
from tileiras.dialects.cuda_tile.types import PointerType, TensorViewType, TileType, ViewType

SUB_BYTE = 0
"""Fixed: `pointee_bytes` of the 4-bit types, two of which share a byte."""


def pointee_bytes(pointee: Attribute) -> int:
    """Bytes from one element in memory to the next, a power of two; SUB_BYTE for 4-bit types.

    An i1 takes a byte and a tf32 four (Tile IR specification, "Element types").
    """
    bits = bit_width(pointee)
    if 1 < bits < 8:
        return SUB_BYTE
    return 1 << ((bits + 7) // 8 - 1).bit_length()


def unknown_facts(type_: Attribute) -> ValueFacts:
    """What holds for every value of a type: its shape and width."""
    if not isinstance(type_, TileType):
        width = 64 if isinstance(type_, TensorViewType | ViewType) else 0
        return make_facts((), width)
    element = type_.element_type
    if isinstance(element, IntegerType):
        return make_facts(type_.shape, element.width.data)
    if isinstance(element, PointerType):
        return make_facts(type_.shape, 64, step=pointee_bytes(element.pointee) or 1)
    return make_facts(type_.shape, 0)


def is_tracked(type_: Attribute) -> bool:
    """Whether there can be more to know about a value than its type says."""
    if isinstance(type_, TileType):
        return isinstance(type_.element_type, IntegerType | PointerType)
    return isinstance(type_, TensorViewType | ViewType)


def signed_range(facts: ValueFacts) -> tuple[int, int]:
    """Bounds of the elements read as signed integers (an i1 is 0 or -1 here)."""
    low, high = facts.range()
    return (-high, -low) if facts.width == 1 else (low, high)


def unsigned_range(facts: ValueFacts) -> tuple[int, int]:
    """Bounds of the elements read as unsigned integers."""
    low, high = facts.range()
    if low >= 0:
        return low, high
    if high < 0:
        return low + (1 << facts.width), high + (1 << facts.width)
    return 0, (1 << facts.width) - 1


def elementwise(
    left: ValueFacts,
    right: ValueFacts,
    *,
    element_divisor: int = 1,
    bounds: tuple[int | None, int | None] = (None, None),
    width: int | None = None,
    constancy: tuple[int, ...] | None = None,
) -> ValueFacts:
    """Result of an operation on the elements at the same place: constant where both operands are.

    `constancy` replaces that where the operation makes longer runs of equal elements.
    """
    if constancy is None:
        constancy = common_constancy(left, right)
    return make_facts(
        left.shape,
        left.width if width is None else width,
        [(1, element_divisor, run) for run in constancy],
        element_divisor=element_divisor,
        bounds=bounds,
    )


def common_constancy(left: ValueFacts, right: ValueFacts) -> tuple[int, ...]:
    """Runs along which both tiles are constant."""
    return tuple(map(min, left.constancy, right.constancy))

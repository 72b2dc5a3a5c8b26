"""Coordinates: their indices, the way back, and slices. `None` in a coordinate is CuTe's `_`."""

from __future__ import annotations

from math import gcd

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.int_tuples import (
    IntTuple,
    compact_strides,
    static_product,
    text_of,
)
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.leaves import UNKNOWN, Dynamic, Leaf, divisor_of, static

Coordinate = int | Dynamic | None | tuple["Coordinate", ...]


def coordinate_text(coordinate: Coordinate) -> str:
    """CuTe's notation: `(1,(_,2))`."""
    if isinstance(coordinate, tuple):
        return "(" + ",".join(coordinate_text(part) for part in coordinate) + ")"
    return "_" if coordinate is None else str(coordinate)


def has_free_mode(coordinate: Coordinate) -> bool:
    """Whether there is a `_` anywhere."""
    if isinstance(coordinate, tuple):
        return any(has_free_mode(part) for part in coordinate)
    return coordinate is None


def crd2idx(coordinate: Coordinate, layout: Layout) -> Leaf:
    """The index of a coordinate of any level of nesting; `_` counts as 0.

    A dynamic coordinate of a mode of several leaves has an index of which only a divisor is known.

    AlgebraError if the coordinate is nested deeper than the shape or has another rank.
    """
    if coordinate is None:
        return 0
    if isinstance(coordinate, int):
        return layout(coordinate)
    if isinstance(coordinate, Dynamic):
        return _dynamic_index(coordinate, layout)
    if not isinstance(layout.shape, tuple) or len(coordinate) != layout.rank:
        raise AlgebraError(
            f"coordinate {coordinate_text(coordinate)} does not fit shape {text_of(layout.shape)}"
        )
    total: Leaf = 0
    for part, mode in zip(coordinate, layout.modes, strict=True):
        total = crd2idx(part, mode) + total
    return total


def _dynamic_index(coordinate: Dynamic, layout: Layout) -> Leaf:
    """The index of a coordinate that is known at run time."""
    pairs = list(layout.pairs)
    if len(pairs) == 1:
        return pairs[0][1] * coordinate
    strides = [stride for extent, stride in pairs if extent != 1 and stride != 0]
    if not strides:
        return 0
    return Dynamic.symbol(UNKNOWN, gcd(*(divisor_of(stride) for stride in strides)))


def idx2crd(index: int, shape: IntTuple, stride: IntTuple | None = None) -> IntTuple:
    """The coordinate, nested as `shape`, of an index under `stride` (default: compact):
    `index / stride mod shape` at each leaf.

    It is the inverse of `crd2idx` for a compact layout and of any that has disjoint strides.
    """
    strides = compact_strides(shape) if stride is None else stride
    if isinstance(shape, tuple) and isinstance(strides, tuple):
        pairs = zip(shape, strides, strict=True)
        return tuple(idx2crd(index, extent, step) for extent, step in pairs)
    if isinstance(shape, tuple) or isinstance(strides, tuple):
        raise AlgebraError(f"{text_of(shape)} and {text_of(strides)} are not congruent")
    step = static(strides, "the stride of a coordinate that is looked for")
    if step == 0:
        return 0
    return index // step % static(shape, "the extent of a coordinate that is looked for")


def crd2crd(coordinate: Coordinate, source: IntTuple, target: IntTuple) -> IntTuple:
    """The coordinate in `target` of the element that `coordinate` names in `source`.

    Both shapes have the same size; AlgebraError otherwise.
    """
    sizes = [static_product(shape, "a shape of a coordinate") for shape in (source, target)]
    if sizes[0] != sizes[1]:
        raise AlgebraError(
            f"{text_of(source)} has {sizes[0]} elements, {text_of(target)} has {sizes[1]}"
        )
    number = crd2idx(coordinate, Layout.compact(source))
    return idx2crd(static(number, "a coordinate"), target)


def slice_layout(coordinate: Coordinate, layout: Layout) -> Layout:
    """The modes where the coordinate is `_`: `slice((_,1), (4,8):(8,1))` is `(4):(8)`."""
    return Layout.of(_parted(coordinate, layout, keep_free=True))


def dice_layout(coordinate: Coordinate, layout: Layout) -> Layout:
    """The modes where the coordinate is a number: the rest of `slice_layout`."""
    return Layout.of(_parted(coordinate, layout, keep_free=False))


def slice_and_offset(coordinate: Coordinate, layout: Layout) -> tuple[Layout, Leaf]:
    """The slice, and the index that it starts at."""
    return slice_layout(coordinate, layout), crd2idx(coordinate, layout)


def _parted(coordinate: Coordinate, layout: Layout, keep_free: bool) -> list[Layout]:
    """The modes that face `_` (or, unless `keep_free`, a number)."""
    if coordinate is None:
        return [layout] if keep_free else []
    if isinstance(coordinate, (int, Dynamic)):
        return [] if keep_free else [layout]
    if not isinstance(layout.shape, tuple) or len(coordinate) != layout.rank:
        raise AlgebraError(
            f"coordinate {coordinate_text(coordinate)} does not fit shape {text_of(layout.shape)}"
        )
    found: list[Layout] = []
    for part, mode in zip(coordinate, layout.modes, strict=True):
        kept = _parted(part, mode, keep_free)
        # Modes found below the top come up one level, as CuTe's filter_tuple has them.
        found += kept
    return found

"""Partitions: a tile of a tensor, or the elements of one thread of it."""

from __future__ import annotations

from tileiras.dialects.cute.algebra.composition import composition
from tileiras.dialects.cute.algebra.coordinates import (
    Coordinate,
    idx2crd,
    slice_and_offset,
)
from tileiras.dialects.cute.algebra.divides import zipped_divide
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.int_tuples import IntTuple, modes, text_of
from tileiras.dialects.cute.algebra.inverses import right_inverse
from tileiras.dialects.cute.algebra.layout import Layout, Tiler
from tileiras.dialects.cute.algebra.leaves import Leaf
from tileiras.dialects.cute.algebra.products import raked_product

Part = tuple[Layout, Leaf]
"""A layout, and the index where it begins."""


def inner_partition(layout: Layout, tiler: Tiler, coordinate: Coordinate) -> Part:
    """The tile at `coordinate` of the tiles: `zipped_divide(layout, tiler)(_, coordinate)`.

    The modes of the tile come first, then those that the coordinate leaves free.
    """
    tile, offset = slice_and_offset((None, coordinate), zipped_divide(layout, tiler))
    if tile.rank == 1:
        return tile[0], offset
    return Layout.of([*tile[0].modes, *tile.modes[1:]]), offset


def outer_partition(layout: Layout, tiler: Tiler, coordinate: Coordinate) -> Part:
    """What every tile has at `coordinate`: `zipped_divide(layout, tiler)(coordinate, _)`."""
    rest, offset = slice_and_offset((coordinate, None), zipped_divide(layout, tiler))
    return (rest[0] if rest.rank == 1 else rest), offset


def local_tile(layout: Layout, tiler: Tiler, coordinate: Coordinate) -> Part:
    """The tile of a CTA, CuTe's name of `inner_partition`."""
    return inner_partition(layout, tiler, coordinate)


def local_partition(layout: Layout, threads: Layout, thread: int) -> Part:
    """The elements of one thread: `threads` is (coordinates in a tile) -> thread number.

    Tiles of the shape of `threads` cover the layout; the thread has one element of each.
    AlgebraError unless the threads are numbered without gaps from 0 on.
    """
    size = threads.static_size
    if sorted(threads.indices, key=str) != sorted(range(size), key=str):
        raise AlgebraError(f"{threads} does not number its {size} threads from 0 on, each once")
    if not 0 <= thread < size:
        raise AlgebraError(f"there is no thread {thread} among {size}")
    place = threads.indices.index(thread)
    coordinate = idx2crd(place, threads.shape)
    tiler = tuple(mode.static_size for mode in threads.modes)
    flat = tuple(
        _number(part, mode)
        for part, mode in zip(modes(coordinate), modes(threads.shape), strict=True)
    )
    if threads.rank == 1:
        return outer_partition(layout, tiler[0], flat[0])
    return outer_partition(layout, tiler, flat)


def tv_partition(layout: Layout, thread_value: Layout, thread: int) -> Part:
    """The elements of one thread under a TV layout (thread, value) -> index in the tile.

    `composition(layout, thread_value)(thread, _)`. AlgebraError unless the TV layout is of rank 2.
    """
    if thread_value.rank != 2:
        raise AlgebraError(f"a TV layout is (thread, value), found {thread_value}")
    values, offset = slice_and_offset((thread, None), composition(layout, thread_value))
    return values[0], offset


def tv_layout(threads: Layout, values: Layout) -> tuple[Layout, IntTuple]:
    """The TV layout and the tile's shape of `threads` threads that hold `values` values each.

    Both are (coordinates) -> number, as for CuTe's `make_tiled_copy`: the raked product of both,
    inverted. The tile's index is column-major.
    """
    placed = raked_product(threads, values)
    shape = tuple(mode.static_size for mode in placed.modes)
    inverse = right_inverse(placed)
    sizes = threads.static_size, values.static_size
    if inverse.static_size != sizes[0] * sizes[1]:
        raise AlgebraError(
            f"threads {threads} and values {values} are not numbered from 0 on, each once"
        )
    # composed with its inverse the tile is compact, and the numbers are (thread, value).
    return composition(inverse, Layout.compact(sizes)), shape


def _number(coordinate: IntTuple, shape: IntTuple) -> int:
    """The number of a static coordinate of a shape."""
    total, step = 0, 1
    for part, extent in zip(_ints(coordinate), _ints(shape), strict=True):
        total, step = total + part * step, step * extent
    return total


def _ints(value: IntTuple) -> list[int]:
    if isinstance(value, tuple):
        return [leaf for mode in value for leaf in _ints(mode)]
    if not isinstance(value, int):
        raise AlgebraError(f"a coordinate of threads must be static, found {text_of(value)}")
    return [value]

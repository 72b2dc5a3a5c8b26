"""How a tile in shared memory is cut into the boxes of bulk copies, for a cluster to share them.

A tile is panels of one swizzle span along its contiguous dim, one behind the other; a box is a
panel, or a part of one along the slowest of its other dims, which is a whole number of the eight
rows after which a swizzle pattern starts again.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tileiras.codegen.atoms.shared_operands import widest_swizzle
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileaa.types import TiledViewType
from tileiras.errors import InternalError

SWIZZLE_ROWS = 8
"""Rows of a panel after which the pattern starts again."""
CHUNK_BYTES = 16
"""What a swizzle moves as a whole, and what a thread copies at once."""


@dataclass(frozen=True)
class Box:
    """A box of a tile: elements by which it starts later, by tile dim, and where it lies."""

    starts: tuple[int, ...]
    offset: int
    """Bytes from the start of the tile."""


def contiguous_dim(type: TiledViewType) -> int | None:
    """The tile dim along which memory is contiguous and rows have a swizzle: the widest there is.

    None if there is none. Most views have one dim with unit stride, or others of one element.
    """
    strides = [type.memref.strides[dim] for dim in type.dim_map]
    axes = [axis for axis, stride in enumerate(strides) if stride == 1 and _swizzle(type, axis)]

    def order(axis: int) -> tuple[bool, int]:
        return type.memref.shape[type.dim_map[axis]] != 1, _swizzle(type, axis)

    return max(axes, key=order, default=None)


def plain_dim(type: TiledViewType) -> int | None:
    """The tile dim along which memory is contiguous and rows have 16 bytes, too few to be swizzled.

    None if there is none.
    """
    size = storage_bytes(type.memref.element_type)
    for axis, dim in enumerate(type.dim_map):
        if type.memref.strides[dim] == 1 and type.tile_shape[axis] * size == CHUNK_BYTES:
            return axis
    return None


def tile_swizzle(type: TiledViewType, axis: int) -> int:
    """Bytes of a row of a panel where `axis` is the contiguous dim of the tile."""
    span = _swizzle(type, axis)
    if not span:
        raise InternalError(f"dim {axis} of {type} has no swizzle", where="tma")
    return span


def _swizzle(type: TiledViewType, axis: int) -> int:
    """The swizzle of rows along a dim, 0 if there is none."""
    return widest_swizzle(type.tile_shape[axis] * storage_bytes(type.memref.element_type)) or 0


def _span(type: TiledViewType, axis: int) -> int:
    """Elements of a row of a panel."""
    if axis == plain_dim(type):
        return type.tile_shape[axis]
    return tile_swizzle(type, axis) // storage_bytes(type.memref.element_type)


def panel_count(type: TiledViewType, axis: int) -> int:
    """Panels of a tile whose contiguous dim is `axis`."""
    return type.tile_shape[axis] // _span(type, axis)


def tile_cut(type: TiledViewType, axis: int, parts: int) -> tuple[int, ...] | None:
    """The shape of boxes whose number is a multiple of `parts`; None if there is none."""
    box = list(type.tile_shape)
    box[axis] = _span(type, axis)
    if panel_count(type, axis) % parts == 0:
        return tuple(box)
    slowest = next((d for d, extent in enumerate(box) if d != axis and extent > 1), None)
    if slowest is None or box[slowest] % parts:
        return None
    box[slowest] //= parts
    rows = prod(box) // box[axis]
    return tuple(box) if rows % SWIZZLE_ROWS == 0 else None


def boxes(type: TiledViewType, axis: int, box: tuple[int, ...]) -> list[Box]:
    """The boxes of a tile in the order of their places."""
    size = storage_bytes(type.memref.element_type)
    shape = type.tile_shape
    found: list[Box] = []
    cut = next((d for d, extent in enumerate(box) if d != axis and extent != shape[d]), None)
    parts = 1 if cut is None else shape[cut] // box[cut]
    for panel in range(shape[axis] // box[axis]):
        for part in range(parts):
            starts = [0] * len(shape)
            starts[axis] = panel * box[axis]
            if cut is not None:
                starts[cut] = part * box[cut]
            found.append(Box(tuple(starts), len(found) * prod(box) * size))
    return found


def thread_rows(type: TiledViewType, axis: int, threads: int) -> tuple[int, int] | None:
    """The dim along which rows of a panel follow each other, and their number in it.

    A thread copies 16 bytes of a row. None if more than one dim beside `axis` has an extent,
    or if the rows of all threads together do not divide a panel.
    """
    others = [d for d, extent in enumerate(type.tile_shape) if d != axis and extent > 1]
    if len(others) != 1:
        return None
    chunks = tile_swizzle(type, axis) // CHUNK_BYTES
    rows, at_once = type.tile_shape[others[0]], threads // chunks
    return None if rows % at_once or at_once % SWIZZLE_ROWS else (others[0], rows)

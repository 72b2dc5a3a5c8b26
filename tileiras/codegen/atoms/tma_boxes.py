"""How a tile in shared memory is cut into the boxes of bulk copies, for a cluster to share them.

A tile is panels of one swizzle span along its contiguous dim, one behind the other; a box is a
panel, or a part of one along the slowest of its other dims, which is a whole number of the eight
rows after which a swizzle pattern starts again.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tileiras.codegen.atoms.shared_operands import SWIZZLE_BYTES
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileaa.types import TiledViewType

SWIZZLE_ROWS = 8
"""Rows of 128 bytes after which the pattern starts again."""


@dataclass(frozen=True)
class Box:
    """A box of a tile: elements by which it starts later, by tile dim, and where it lies."""

    starts: tuple[int, ...]
    offset: int
    """Bytes from the start of the tile."""


def panel_count(type: TiledViewType, axis: int) -> int:
    """Panels of a tile whose contiguous dim is `axis`."""
    size = storage_bytes(type.memref.element_type)
    return type.tile_shape[axis] // (SWIZZLE_BYTES // size)


def tile_cut(type: TiledViewType, axis: int, parts: int) -> tuple[int, ...] | None:
    """The shape of boxes whose number is a multiple of `parts`; None if there is none."""
    size = storage_bytes(type.memref.element_type)
    box = list(type.tile_shape)
    box[axis] = SWIZZLE_BYTES // size
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
    for panel in range(panel_count(type, axis)):
        for part in range(parts):
            starts = [0] * len(shape)
            starts[axis] = panel * box[axis]
            if cut is not None:
                starts[cut] = part * box[cut]
            found.append(Box(tuple(starts), len(found) * prod(box) * size))
    return found


def thread_rows(type: TiledViewType, axis: int, threads: int) -> tuple[int, int] | None:
    """The dim along which rows of 128 bytes follow each other, and their number in a panel.

    Eight threads copy a row, 16 bytes each. None if more than one dim beside `axis` has an extent,
    or if the rows of all threads together do not divide a panel.
    """
    others = [d for d, extent in enumerate(type.tile_shape) if d != axis and extent > 1]
    if len(others) != 1:
        return None
    rows, at_once = type.tile_shape[others[0]], threads // SWIZZLE_ROWS
    return None if rows % at_once or at_once % SWIZZLE_ROWS else (others[0], rows)

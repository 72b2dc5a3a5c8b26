"""Blocked layouts: coalesced placements for global memory accesses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tileiras.dialects.layout.errors import LayoutError
from tileiras.dialects.layout.linear_layout import LinearLayout, checked_shape

LANE_BITS = 5
"""32 lanes per warp, on every target."""


def blocked(
    shape: Sequence[int], order: Sequence[int], vector: int, num_warps: int
) -> LinearLayout:
    """The coalesced layout of a tile: neighbouring lanes hold neighbouring vectors.

    `order` lists the dims fastest first; `vector` is the number of elements that one thread holds
    in a row along `order[0]` (capped to that dim). The bits of the tile, fastest first, go to the
    vector registers, the 5 lane bits, the warp bits, and again to registers. A tile with fewer
    elements than that leaves zero bases: the upper lanes or warps hold copies.

    blocked((16, 64), (1, 0), 8, 4): 8 lanes cover a row of 64, a warp 4 rows, 4 warps all 16.
    """
    return _blocked(checked_shape(shape), tuple(order), vector, num_warps)


@lru_cache(maxsize=1024)
def _blocked(
    shape: tuple[int, ...], order: tuple[int, ...], vector: int, num_warps: int
) -> LinearLayout:
    """`blocked` on hashable arguments."""
    if sorted(order) != list(range(len(shape))):
        raise LayoutError(f"order {order} is not a permutation of {len(shape)} dims")
    checked_shape((vector, num_warps))
    strides = [1] * len(shape)
    for axis in reversed(range(len(shape) - 1)):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    bits = [strides[axis] << b for axis in order for b in range(shape[axis].bit_length() - 1)]
    fastest = shape[order[0]] if order else 1
    vector_bits = min(vector, fastest).bit_length() - 1
    lanes_end = vector_bits + LANE_BITS
    warp_bits = num_warps.bit_length() - 1
    warps_end = lanes_end + warp_bits
    return LinearLayout.from_index_bases(
        {
            "register": bits[:vector_bits] + bits[warps_end:],
            "lane": _padded(bits[vector_bits:lanes_end], LANE_BITS),
            "warp": _padded(bits[lanes_end:warps_end], warp_bits),
        },
        shape,
    )


def contiguous_vector(layout: LinearLayout, axis: int, max_elements: int) -> int:
    """How many elements in a row along output dim `axis` the lowest registers of a thread hold.

    A power of two, at most `max_elements`. Every such group starts at a multiple of its length
    along `axis` in every thread, so it is one aligned vector if the axis has unit stride in
    memory.
    """
    bases = dict(layout.bases)
    registers = bases.pop("register", ())
    others = [vector[axis] for vectors in bases.values() for vector in vectors]
    bits = 0
    while bits < len(registers) and 2 << bits <= max_elements:
        wanted = tuple(1 << bits if d == axis else 0 for d in range(layout.rank))
        if registers[bits] != wanted:
            break
        bits += 1
    while bits and any(c % (1 << bits) for c in _tail(registers, bits, axis) + others):
        bits -= 1
    return 1 << bits


def _tail(registers: tuple[tuple[int, ...], ...], bits: int, axis: int) -> list[int]:
    """The coordinates along `axis` of the register bases from bit `bits` on."""
    return [vector[axis] for vector in registers[bits:]]


def _padded(vectors: list[int], count: int) -> list[int]:
    """`vectors` with zero bases appended up to `count`."""
    return vectors + [0] * (count - len(vectors))

"""Conversions through shared memory: the swizzle that two layouts determine.

The offset bits of the buffer are, from the lowest: the elements of one vector, the rest of one
128-byte wavefront (the banks), and the segment, the index of the wavefront. A wavefront of an
access is free of conflicts if the lanes it serves and their vectors, as a subspace of the tile,
meet the segment subspace in zero only. With U that subspace for the store and W for the load, the
segment is built from a complement of U + W and from sums e + f of vectors e of U and f of W
outside their intersection: such a sum lies in neither. The sums are the swizzle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tileiras.dialects.layout.gf2 import independent, intersection
from tileiras.dialects.layout.linear_layout import LinearLayout
from tileiras.dialects.layout.offsets import (
    BANK_BITS,
    BANK_BYTES,
    MAX_VECTOR_BYTES,
    bank_conflicts,
    phase_lane_bits,
    storage_bytes,
    vector_elements,
)
from tileiras.dialects.layout.plans import SharedMemory


def plan_staging(
    src: LinearLayout,
    dst: LinearLayout,
    element_bits: int,
    together: LinearLayout | None = None,
    access_cost: int = 0,
) -> SharedMemory:
    """The shared layout with the fewest wavefronts among a few choices of vectors.

    `together` has the registers of `dst` that are loaded at one time, if those are not all.
    `access_cost` is what an access takes beside its wavefronts, counted in these: something where
    threads multiply between the loads.
    """
    together = dst if together is None else together
    size = storage_bytes(element_bits)
    plans: list[tuple[int, int, SharedMemory]] = []
    for choice in _vector_choices(src, together, size):
        shared = _staging_layout(src, dst, choice, size)
        store = vector_elements(src, shared, element_bits)
        load = min(vector_elements(side, shared, element_bits) for side in (dst, together))
        plan = SharedMemory(shared, store, load, shared.size * size)
        wavefronts = _wavefronts(src, shared, element_bits, store) + _wavefronts(
            dst, shared, element_bits, load
        )
        accesses = _accesses(src, store) + _accesses(dst, load)
        plans.append((wavefronts + access_cost * accesses, accesses, plan))
    return min(plans, key=lambda entry: entry[:2])[2]


@dataclass(frozen=True)
class _Vectors:
    """The lowest offset bits as tile vectors, and how many of them each side moves at once."""

    bases: tuple[int, ...]
    store_bits: int
    load_bits: int


def _vector_choices(src: LinearLayout, dst: LinearLayout, size: int) -> list[_Vectors]:
    """Vectors common to both sides, alone and widened for the store or the load; none comes last.

    Widths below the widest are tried too: the swizzle must leave a vector's elements in a row, so
    a wide vector on one side can cost conflicts on the other.
    """
    limit = (MAX_VECTOR_BYTES // size).bit_length() - 1
    source = src.without_register_duplicates().vectors("register")
    destination = dst.without_register_duplicates().vectors("register")
    common = tuple(v for v in source if v in destination)[:limit]
    choices = []
    for registers, is_store in ((source, True), (destination, False)):
        more = tuple(v for v in registers if v not in common)[: limit - len(common)]
        for extra in range(len(more), 0, -1):
            wide, narrow = len(common) + extra, len(common)
            bits = (wide, narrow) if is_store else (narrow, wide)
            choices.append(_Vectors(common + more[:extra], *bits))
    for width in range(len(common), -1, -1):
        choices.append(_Vectors(common[:width], width, width))
    return choices


def _staging_layout(
    src: LinearLayout, dst: LinearLayout, vectors: _Vectors, size: int
) -> LinearLayout:
    """The shared layout for one choice of vectors."""
    everything = src.all_vectors()
    store = _wavefront_space(src, vectors.bases[: vectors.store_bits], size)
    load = _wavefront_space(dst, vectors.bases[: vectors.load_bits], size)
    wavefront_bits = BANK_BITS + (BANK_BYTES.bit_length() - 1) - (size.bit_length() - 1)
    tile_bits = src.size.bit_length() - 1
    both = intersection(store, load)
    only_store = independent(store, both)
    only_load = independent(load, both)
    neither = independent(everything, store + load)
    sums = [e ^ f for e, f in zip(only_store, only_load, strict=False)]
    segment = (neither + sums)[: max(0, tile_bits - wavefront_bits)]
    banks = independent(store + load + list(everything), [*vectors.bases, *segment])
    return LinearLayout.from_index_bases({"offset": [*vectors.bases, *banks, *segment]}, src.shape)


def _wavefront_space(layout: LinearLayout, vector: Sequence[int], size: int) -> list[int]:
    """Spans what one wavefront of an access touches; the lanes first, so that sums use them."""
    lanes = layout.vectors("lane")[: phase_lane_bits(size << len(vector))]
    return [*lanes, *vector]


def _accesses(layout: LinearLayout, vector: int) -> int:
    """Instructions that a thread needs for its distinct registers."""
    return layout.without_register_duplicates().in_size("register") // vector


def _wavefronts(layout: LinearLayout, shared: LinearLayout, element_bits: int, vector: int) -> int:
    """Wavefronts that a warp's accesses take."""
    width = max(1, vector * storage_bytes(element_bits) // BANK_BYTES)
    conflicts = bank_conflicts(layout, shared, element_bits, vector)
    return _accesses(layout, vector) * width * conflicts

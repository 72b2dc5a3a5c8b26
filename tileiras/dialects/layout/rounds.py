"""Conversions through a buffer smaller than the tile: one window of the shared layout at a time.

The highest offset bits number the windows. A thread that holds its elements of all windows in
different registers writes and reads an equal part of them in every round, without a guard; the
layout is changed so that this is so where the two sides allow it. Vectors and banks stay as they
are: basis vectors only gain multiples of segment vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tileiras.dialects.layout.errors import LayoutError
from tileiras.dialects.layout.gf2 import Basis, independent
from tileiras.dialects.layout.linear_layout import LinearLayout
from tileiras.dialects.layout.offsets import BANK_BITS, BANK_BYTES, storage_bytes
from tileiras.dialects.layout.plans import SharedMemory


@dataclass(frozen=True)
class Rounds:
    """`count` rounds through windows of `window` elements of `shared`."""

    shared: LinearLayout
    window: int
    count: int


def plan_rounds(
    src: LinearLayout, dst: LinearLayout, plan: SharedMemory, element_bits: int, limit: int
) -> Rounds:
    """As few rounds as keep each within `limit` bytes.

    LayoutError if the limit is below one wavefront.
    """
    size = storage_bytes(element_bits)
    offsets = plan.shared.vectors("offset")
    low = (max(plan.store_vector, plan.load_vector)).bit_length() - 1
    wavefront = BANK_BITS + (BANK_BYTES.bit_length() - 1) - (size.bit_length() - 1)
    bits = 0
    while plan.bytes >> bits > limit and bits < len(offsets):
        bits += 1
    if len(offsets) - bits < max(wavefront, low):
        raise LayoutError(f"{limit} bytes do not hold one access of a warp")
    first = max(wavefront, low)
    segment, rest = offsets[first:], offsets[low:first]
    fixed = offsets[:low]
    for kept in _kept_spaces(src, dst, fixed):
        top = independent(segment, kept)[:bits]
        if len(top) == bits:
            break
    else:
        raise LayoutError("no segment is free of the vectors of an access")
    others = [*rest, *(v for v in segment if v not in top)]
    vectors = [*fixed, *_without(others, kept, top), *top]
    shared = LinearLayout.from_index_bases({"offset": vectors}, plan.shared.shape)
    return Rounds(shared, shared.size >> bits, 1 << bits)


def _kept_spaces(
    src: LinearLayout, dst: LinearLayout, fixed: Sequence[int]
) -> list[tuple[int, ...]]:
    """What should not move between windows, the best first: threads of both sides, or of one."""
    source = (*src.vectors("lane"), *src.vectors("warp"))
    target = (*dst.vectors("lane"), *dst.vectors("warp"))
    return [(*fixed, *source, *target), (*fixed, *source), (*fixed, *target), tuple(fixed)]


def _without(vectors: Sequence[int], kept: Sequence[int], top: Sequence[int]) -> list[int]:
    """The vectors, changed by sums of `top` so that their span holds `kept`."""
    basis = Basis()
    for vector in kept:
        basis.insert(vector, 0)
    for position, vector in enumerate(top):
        basis.insert(vector, 1 << position)
    for vector in vectors:
        basis.insert(vector, 0)
    changed = []
    for vector in vectors:
        part = basis.solve(vector) or 0
        for position, added in enumerate(top):
            if part >> position & 1:
                vector ^= added
        changed.append(vector)
    return changed

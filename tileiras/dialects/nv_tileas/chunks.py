"""Which thread copies which chunks of a tile: layouts with one element for each chunk."""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.blocked import LANE_BITS, blocked

MAX_ACCESS_BYTES = 16
"""What a thread copies at once at most."""
SWIZZLED_BYTES = 128
"""Bytes that banks of shared memory give at once, and of the longest rows of a panel."""
NEIGHBOUR_BITS = 3
"""Lanes, as bits, that take neighbouring chunks of a row."""


def chunk_layout(shape: Sequence[int], axis: int, vector: int, warps: int) -> LinearLayout:
    """Where threads hold the first element of every chunk of `vector` elements along `axis`.

    Neighbouring lanes take neighbouring chunks, so that a warp reads whole lines and writes whole
    rows of the swizzle.
    """
    others = [dim for dim in reversed(range(len(shape))) if dim != axis]
    whole = blocked(shape, (axis, *others), vector, warps)
    bases: dict[str, Sequence[int]] = {name: whole.vectors(name) for name in whole.in_dims}
    bases["register"] = whole.vectors("register")[vector.bit_length() - 1 :]
    return LinearLayout.from_index_bases(bases, shape)


def run_layout(shape: Sequence[int], axis: int, vector: int, run: int, warps: int) -> LinearLayout:
    """As `chunk_layout`, but with a thread's chunks in few rows: for rows that lie anywhere.

    Up to eight lanes take neighbouring chunks, the others different rows, first such as lie in
    other banks; a thread has as many rows as if its chunks were whole runs, of 16 bytes.
    """
    if vector == run:
        return chunk_layout(shape, axis, vector, warps)
    along = [_step(len(shape), axis, 1 << bit) for bit in range(shape[axis].bit_length() - 1)]
    across = [
        _step(len(shape), dim, 1 << bit)
        for dim in reversed(range(len(shape)))
        if dim != axis
        for bit in range(shape[dim].bit_length() - 1)
    ]
    first = vector.bit_length() - 1
    beside = along[first : first + NEIGHBOUR_BITS]
    lanes, warp_bits = LANE_BITS - len(beside), warps.bit_length() - 1
    size = MAX_ACCESS_BYTES // run
    start = (vector * size).bit_length() - 1
    taken = range(start, start + len(beside))
    banks = _row_banks(shape[axis] * size)
    order = sorted(range(len(banks)), key=lambda bit: (banks[bit] in taken, -banks[bit]))
    chosen = [bit for bit in order if bit < len(across)]
    rows = [*(across[bit] for bit in chosen), *across[len(banks) :]]
    none = (0,) * len(shape)
    apart = [*rows[: lanes + warp_bits], *[none] * (lanes + warp_bits)]
    bases = {
        "register": [*along[first + len(beside) :], *rows[lanes + warp_bits :]],
        "lane": [*beside, *apart[:lanes]],
        "warp": apart[lanes : lanes + warp_bits],
    }
    return LinearLayout(bases, shape)


def _row_banks(row_bytes: int) -> list[int]:
    """Which bit of an address within 128 bytes each of the lowest bits of a row's number changes.

    Short rows share 128 bytes; the other bits are exchanged with those of a 16-byte chunk.
    """
    swizzle = min(SWIZZLED_BYTES, row_bytes)
    within = range(swizzle.bit_length() - 1, SWIZZLED_BYTES.bit_length() - 1)
    chunk = MAX_ACCESS_BYTES.bit_length() - 1
    return [*within, *range(chunk, swizzle.bit_length() - 1)]


def _step(rank: int, axis: int, step: int) -> tuple[int, ...]:
    """The coordinate `step` elements along an axis."""
    return tuple(step if dim == axis else 0 for dim in range(rank))

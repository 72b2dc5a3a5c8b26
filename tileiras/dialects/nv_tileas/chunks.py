"""Which thread copies which chunks of a tile: layouts with one element for each chunk."""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.blocked import blocked


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

    Eight lanes take neighbouring chunks, the others different rows, which differ in the bits that
    the swizzle exchanges; a thread has as many rows as if its chunks were whole runs.
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
    warp_bits = warps.bit_length() - 1
    rows = [across[2], across[1], across[0], *across[3:]] if len(across) > 2 else across
    none = (0,) * len(shape)
    apart = [*rows[: 2 + warp_bits], *[none] * (2 + warp_bits)]
    bases = {
        "register": [*along[first + 3 :], *rows[2 + warp_bits :]],
        "lane": [*along[first : first + 3], *apart[:2]],
        "warp": apart[2 : 2 + warp_bits],
    }
    return LinearLayout(bases, shape)


def _step(rank: int, axis: int, step: int) -> tuple[int, ...]:
    """The coordinate `step` elements along an axis."""
    return tuple(step if dim == axis else 0 for dim in range(rank))

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

"""Hypothesis strategies for layouts, and distributed layouts as index arrays."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from tileiras.dialects.layout.gf2 import Basis
from tileiras.dialects.layout.linear_layout import LinearLayout


def examples(count: int) -> settings:
    """Settings of a property test."""
    return settings(max_examples=count)


@st.composite
def shapes(draw: st.DrawFn, max_bits: int = 8, min_bits: int = 0) -> tuple[int, ...]:
    """A shape of 1 to 3 power-of-two dims with `min_bits` to `max_bits` bits in total."""
    rank = draw(st.integers(1, 3))
    total = draw(st.integers(min_bits, max_bits))
    cuts = sorted(draw(st.lists(st.integers(0, total), min_size=rank - 1, max_size=rank - 1)))
    edges = [0, *cuts, total]
    return tuple(1 << (b - a) for a, b in zip(edges, edges[1:], strict=False))


@st.composite
def bijections(draw: st.DrawFn, size: int, *, units: bool = False) -> list[int]:
    """A basis of the bits of `size`: the unit vectors in any order, sheared unless `units`."""
    count = size.bit_length() - 1
    vectors = list(draw(st.permutations([1 << b for b in range(count)])))
    if units or count < 2:
        return vectors
    for _ in range(draw(st.integers(0, 2 * count))):
        a, b = draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1))
        if a != b:
            vectors[a] ^= vectors[b]
    assert len(Basis(vectors)) == count
    return vectors


@st.composite
def distributed(
    draw: st.DrawFn,
    shape: tuple[int, ...],
    warp_bits: int,
    lane_bits: int = 5,
    *,
    units: bool = False,
) -> LinearLayout:
    """A surjective layout on registers, lanes and warps, with copies anywhere."""
    size = int(np.prod(shape, dtype=int))
    vectors = draw(bijections(size, units=units))
    threads = lane_bits + warp_bits
    copies = draw(st.integers(max(0, threads - len(vectors)), threads + 1))
    extra = st.just(0) if units else st.integers(0, size - 1)
    vectors += draw(st.lists(extra, min_size=copies, max_size=copies))
    vectors = list(draw(st.permutations(vectors)))
    return LinearLayout.from_index_bases(
        {
            "lane": vectors[:lane_bits],
            "warp": vectors[lane_bits:threads],
            "register": vectors[threads:],
        },
        shape,
    )


def held_elements(layout: LinearLayout) -> np.ndarray:
    """`result[warp, lane, register]` = the row-major index of the element that lies there.

    Evaluated bit by bit in numpy, independently of the layout's own evaluation.
    """
    result = np.zeros((1, 1, 1), dtype=np.int64)
    for axis, name in ((2, "register"), (1, "lane"), (0, "warp")):
        for coordinate in layout.basis(name):
            index = int(np.ravel_multi_index(coordinate, layout.shape)) if layout.shape else 0
            result = np.concatenate([result, result ^ index], axis=axis)
    return result

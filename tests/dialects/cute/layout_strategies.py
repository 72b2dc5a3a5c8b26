"""Random layouts, shapes and tilers for property tests."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st

from tileiras.dialects.cute.algebra import Layout
from tileiras.dialects.cute.algebra.int_tuples import IntTuple, compact_strides, is_static

QUICKLY = settings(max_examples=60)
"""Functions are compared index by index: few examples, of any length of time."""

EXTENTS = st.sampled_from((1, 2, 2, 3, 4, 6, 8))


def tuples_of(leaf: st.SearchStrategy[int]) -> st.SearchStrategy[IntTuple]:
    """Int-tuples of up to six leaves."""
    return st.recursive(
        leaf, lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple), max_leaves=5
    )


SHAPES = tuples_of(EXTENTS)


def small(layout: Layout) -> bool:
    """Whether enumerating is cheap."""
    return is_static(layout.shape) and layout.static_size <= 64


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Any layout with strides from 0 on, at most 256 elements."""
    shape = draw(SHAPES)
    if draw(st.booleans()):
        return Layout(shape, compact_strides(shape))

    def strides(value: IntTuple) -> IntTuple:
        if isinstance(value, tuple):
            return tuple(strides(mode) for mode in value)
        return draw(st.sampled_from((0, 1, 2, 3, 4, 8, 12, 16)))

    return Layout(shape, strides(shape))


ANY = layouts().filter(small)


@st.composite
def permuted_compact(draw: st.DrawFn) -> Layout:
    """A bijection on 0 .. size - 1: extents with compact strides in any order."""
    extents = draw(st.lists(st.sampled_from((1, 2, 3, 4)), min_size=1, max_size=3))
    order = draw(st.permutations(range(len(extents))))
    strides = [0] * len(extents)
    step = 1
    for mode in order:
        strides[mode], step = step, step * extents[mode]
    return Layout(tuple(extents), tuple(strides))


@st.composite
def bit_layouts(draw: st.DrawFn) -> Layout:
    """A bijection whose extents are powers of two, of two nested modes."""
    extents = draw(st.lists(st.sampled_from((1, 2, 4, 8)), min_size=2, max_size=5))
    order = draw(st.permutations(range(len(extents))))
    strides = [0] * len(extents)
    step = 1
    for mode in order:
        strides[mode], step = step, step * extents[mode]
    cut = draw(st.integers(1, len(extents) - 1))
    shape = (tuple(extents[:cut]), tuple(extents[cut:]))
    return Layout(shape, (tuple(strides[:cut]), tuple(strides[cut:])))

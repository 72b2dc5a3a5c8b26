"""Layouts with the same function, or a part of it, in another form: coalesce, filter, group,
flatten, append, prepend, select, recast."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.int_tuples import IntTuple, leaves, text_of
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.leaves import Basis, Dynamic, Leaf, equal_leaves

Pair = tuple[Leaf, Leaf]
_LeafChange = Callable[[Leaf, Leaf], Pair]
_ModeChange = Callable[[Layout, IntTuple], Layout]


def of_pairs(pairs: Sequence[Pair]) -> Layout:
    """The layout of (extent, stride) leaves: a leaf for one, `1:0` for none."""
    if not pairs:
        return Layout(1, 0)
    if len(pairs) == 1:
        return Layout(*pairs[0])
    return Layout(tuple(extent for extent, _ in pairs), tuple(stride for _, stride in pairs))


def coalesce(layout: Layout, profile: IntTuple | None = None) -> Layout:
    """The same function with as few flat modes as neighbours allow: `(2,(1,6)):(1,(6,2))` is 12:1.

    Law: `coalesce(L)(i) == L(i)` for all i below the size. With a tuple as `profile` each of its
    modes is coalesced by itself, and other modes stay.
    """
    if isinstance(profile, tuple):
        return _in_modes(layout, profile, coalesce)
    pairs: list[Pair] = []
    for extent, stride in layout.pairs:
        if extent == 1:
            continue
        if pairs and equal_leaves(pairs[-1][0] * pairs[-1][1], stride):
            pairs[-1] = (pairs[-1][0] * extent, pairs[-1][1])
        else:
            pairs.append((extent, stride))
    return of_pairs(pairs)


def filter_zeros(layout: Layout) -> Layout:
    """The same nesting with extent 1 wherever the stride is 0: `(4,8):(0,1)` is (1,8):(0,1)."""

    def without(shape: IntTuple, stride: IntTuple) -> IntTuple:
        if isinstance(shape, tuple) and isinstance(stride, tuple):
            return tuple(map(without, shape, stride))
        return 1 if stride == 0 else shape

    return Layout(without(layout.shape, layout.stride), layout.stride)


def filter_layout(layout: Layout, profile: IntTuple | None = None) -> Layout:
    """Without modes of stride 0 or extent 1, coalesced: the same indices, each as often as it is
    reached by the rest."""
    if isinstance(profile, tuple):
        return _in_modes(layout, profile, filter_layout)
    return coalesce(filter_zeros(layout))


def flatten(layout: Layout) -> Layout:
    """All leaves as top-level modes; a leaf stays one."""
    if not isinstance(layout.shape, tuple):
        return layout
    return Layout(tuple(leaves(layout.shape)), tuple(leaves(layout.stride)))


def group_modes(layout: Layout, begin: int, end: int) -> Layout:
    """Modes begin .. end - 1 as one: `group<0,2>((2,3,4))` has the shape ((2,3),4)."""
    if not 0 <= begin < end <= layout.rank:
        raise AlgebraError(f"modes {begin} to {end} of {layout} do not exist or are none")
    parts = layout.modes
    return Layout.of([*parts[:begin], Layout.of(parts[begin:end]), *parts[end:]])


def append(layout: Layout, other: Layout) -> Layout:
    """`other` as one more mode at the end."""
    return Layout.of([*layout.modes, other])


def append_to_rank(layout: Layout, rank: int) -> Layout:
    """`1:0` appended until there are `rank` modes; a layout of more modes stays."""
    missing = rank - layout.rank
    return Layout.of([*layout.modes, *[Layout(1, 0)] * missing]) if missing > 0 else layout


def prepend(layout: Layout, other: Layout) -> Layout:
    """`other` as one more mode at the beginning."""
    return Layout.of([other, *layout.modes])


def select(layout: Layout, modes: Sequence[int]) -> Layout:
    """The modes with these numbers, in this order, always as a tuple."""
    return Layout.of([layout[mode] for mode in modes])


def upcast(layout: Layout, factor: int) -> Layout:
    """The layout of groups of `factor` elements that lie side by side: `8:1` by 4 is 2:1.

    Where elements become wider. AlgebraError unless each leaf's stride is 1 or divided by the
    factor, and leaves of stride 1 hold whole groups, or parts of one.
    """
    return _of_leaves(layout, lambda extent, stride: _upcast_leaf(extent, stride, factor))


def downcast(layout: Layout, factor: int) -> Layout:
    """The layout of the `factor` parts of each element: `(2,3):(1,2)` by 4 is (8,3):(1,8).

    Where elements become narrower. The leaf with stride 1 takes the parts in, or, where there is
    none, is an error: the parts have no mode to go to.
    """
    if factor != 1 and all(stride != 1 and stride != -1 for _, stride in layout.pairs):
        raise AlgebraError(f"{layout} has no mode of stride 1 that takes in {factor} parts")

    def parts(extent: Leaf, stride: Leaf) -> Pair:
        if stride in (1, -1):
            return extent * factor, stride
        return extent, stride * factor

    return _of_leaves(layout, parts)


def recast(layout: Layout, old_bits: int, new_bits: int) -> Layout:
    """The layout of the same memory as elements of `new_bits` where they had `old_bits`.

    AlgebraError unless one width divides the other.
    """
    if old_bits % new_bits == 0:
        return downcast(layout, old_bits // new_bits)
    if new_bits % old_bits == 0:
        return upcast(layout, new_bits // old_bits)
    raise AlgebraError(f"elements of {old_bits} bits are no elements of {new_bits} bits")


def _upcast_leaf(extent: Leaf, stride: Leaf, factor: int) -> Pair:
    """(extent, stride) in groups: `ceil(extent * stride / factor)` of them under a small stride."""
    if stride == 0 or isinstance(stride, Basis):
        return extent, stride
    if isinstance(stride, Dynamic):
        return extent, stride.divided_by(factor)
    size = abs(stride)
    sign = 1 if stride > 0 else -1
    if size % factor == 0:
        return extent, stride // factor
    if factor % size or not isinstance(extent, int):
        raise AlgebraError(f"{extent}:{stride} cannot be seen in groups of {factor} elements")
    per_group = factor // size
    if extent % per_group and per_group % extent:
        raise AlgebraError(f"{extent}:{stride} holds no whole groups of {factor} elements")
    return -(-extent // per_group), sign


def _of_leaves(layout: Layout, change: _LeafChange) -> Layout:
    """The layout with each leaf changed and the nesting kept."""
    if isinstance(layout.shape, tuple):
        return Layout.of(_of_leaves(mode, change) for mode in layout.modes)
    ((extent, stride),) = layout.pairs
    return Layout(*change(extent, stride))


def _in_modes(layout: Layout, profile: tuple[IntTuple, ...], change: _ModeChange) -> Layout:
    """The change in each mode that the profile has; the other modes stay."""
    parts = list(layout.modes)
    if len(profile) > len(parts):
        raise AlgebraError(f"profile {text_of(profile)} has more modes than {layout}")
    for i, part in enumerate(profile):
        parts[i] = change(parts[i], part)
    return Layout.of(parts)

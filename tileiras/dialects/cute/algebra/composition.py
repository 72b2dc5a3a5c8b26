"""Functional composition of layouts: `composition(A, B)(c) == A(B(c))` for all coordinates of B."""

from __future__ import annotations

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.layout import Layout, Tiler, as_layout, by_mode
from tileiras.dialects.cute.algebra.leaves import Basis, Leaf, static
from tileiras.dialects.cute.algebra.transforms import Pair, coalesce, of_pairs


def composition(layout: Layout, tiler: Tiler) -> Layout:
    """`layout` after `tiler`; a tuple applies to each mode by itself.

    The result's shape is compatible with the tiler's: a coordinate of B is one of the result. For
    `B = s:d`, the composition is a layout only if
      stride  d divides, or is divided by, the extents of A (coalesced) that it steps over, and
      shape   what is left of s is a multiple of what each mode of A gives it;
    and for several modes of B, if
      carry   together they stay within each mode of A, so that B(c) is split as its summands are.
    AlgebraError otherwise, with the extent that breaks the condition. Beyond its size, A goes on in
    its last mode. Source: CUTLASS documentation, "CuTe Layout Algebra", Composition.
    """
    if isinstance(tiler, tuple):
        return by_mode(layout, tiler, composition)
    outer, inner = coalesce(layout), as_layout(tiler)
    pairs = list(outer.pairs)
    reached = [0] * len(pairs)
    result = _compose(outer, inner, reached)
    for (size, _), last in zip(pairs[:-1], reached, strict=False):
        if isinstance(size, int) and last >= size:
            raise AlgebraError(
                f"{inner} does not compose with {outer}: its modes together step {last} far in "
                f"the extent {size} and carry into the next"
            )
    return result


def _compose(outer: Layout, inner: Layout, reached: list[int]) -> Layout:
    """`reached[k]` grows by how far the inner layout steps in mode k of the outer one."""
    if isinstance(inner.shape, tuple):
        return Layout.of([_compose(outer, mode, reached) for mode in inner.modes])
    ((extent, stride),) = inner.pairs
    if isinstance(stride, Basis):
        raise AlgebraError(f"{inner} gives coordinates, no indices of {outer}")
    if stride == 0:
        return Layout(extent, 0)
    pairs = list(outer.pairs)
    if len(pairs) == 1:
        # One mode goes on for ever: any extent and stride will do, dynamic ones too.
        return Layout(extent, stride * pairs[0][1])
    count = static(extent, "an extent of the inner layout")
    return _compose_leaf(pairs, count, stride, outer, reached)


def _compose_leaf(
    pairs: list[Pair], extent: int, stride: Leaf, outer: Layout, reached: list[int]
) -> Layout:
    """The modes of `outer` that `extent:stride` steps through."""
    step = static(stride, "a stride of the inner layout")
    inner = f"{extent}:{step}"
    if step < 0:
        raise AlgebraError(f"{inner} steps backwards, {outer} has no negative indices")
    result: list[Pair] = []
    left = extent
    for mode, (raw_size, outer_stride) in enumerate(pairs[:-1]):
        size = static(raw_size, f"an extent of {outer} before its last")
        if left == 1:
            # The stride of a single element does not matter; this is the reference's.
            step = -(-step // size)
            continue
        if step % size == 0:
            step //= size
            continue
        if (left - 1) * step < size:
            result.append((left, outer_stride * step))
            reached[mode] += (left - 1) * step
            left = 1
            continue
        if size % step:
            raise AlgebraError(
                f"{inner} does not compose with {outer}: neither of the stride {step} and the "
                f"extent {size} divides the other"
            )
        given = size // step
        if left % given:
            raise AlgebraError(
                f"{inner} does not compose with {outer}: the extent {left} is no multiple of "
                f"{given}, the steps of {step} in the extent {size}"
            )
        result.append((given, outer_stride * step))
        reached[mode] += (given - 1) * step
        left //= given
        step = 1
    if left != 1 or not result:
        result.append((left, pairs[-1][1] * step))
    return of_pairs(result)

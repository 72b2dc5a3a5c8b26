"""What a layout does not reach, and the ways back: complement, right and left inverse."""

from __future__ import annotations

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.int_tuples import compact_strides
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.leaves import Dynamic, ceil_div, static
from tileiras.dialects.cute.algebra.transforms import Pair, coalesce, flatten, of_pairs


def complement(layout: Layout, size: int | Dynamic = 1) -> Layout:
    """The layout R of the repetitions: the indices of (layout, R) are distinct, and fill 0 to
    `size`, the gaps of the layout included.

    R is ordered and its strides are positive. Condition: sorted by stride, each stride is a
    multiple of the extent * stride before it, so that copies fit into the gaps; AlgebraError with
    the two modes that overlap. Modes of stride 0 or extent 1 do not matter.
    Source: CUTLASS documentation, "CuTe Layout Algebra", Complement.
    """
    result: list[Pair] = []
    reached, by = 1, ""
    for stride, extent in _sorted_by_stride(layout):
        if stride < 0:
            raise AlgebraError(f"{layout} has a negative stride, it has no complement")
        if stride % reached:
            raise AlgebraError(
                f"{layout} has no complement: {extent}:{stride} does not begin at a multiple of "
                f"{reached}, where {by} ends"
            )
        result.append((stride // reached, reached))
        reached, by = extent * stride, f"{extent}:{stride}"
    result.append((ceil_div(size, reached), reached))
    return coalesce(of_pairs(result))


def right_inverse(layout: Layout) -> Layout:
    """The longest layout R with `layout(R(i)) == i` for all i below its size.

    It follows the strides from 1 on as far as they are contiguous: of `(4,2):(2,8)`, which does not
    reach 1, it is 1:0.
    """
    compact = Layout(flatten(layout).shape, compact_strides(flatten(layout).shape))
    found: list[Pair] = []
    order = sorted(
        (static(stride, "a stride of a layout that is inverted"), static(extent, _EXTENT), place)
        for (extent, stride), (_, place) in zip(layout.pairs, compact.pairs, strict=True)
        if extent != 1 and stride != 0 and isinstance(place, int)
    )
    reached = 1
    for stride, extent, place in order:
        if stride != reached:
            break
        found.append((extent, place))
        reached = extent * stride
    return coalesce(of_pairs(found))


def left_inverse(layout: Layout) -> Layout:
    """A layout L with `L(layout(i)) == i` for all i below the size of `layout`.

    AlgebraError unless the layout's indices are distinct and it has a complement.
    """
    if any(stride == 0 and extent != 1 for extent, stride in layout.pairs):
        raise AlgebraError(f"{layout} has a stride of 0, several coordinates have one index")
    return right_inverse(Layout.of([layout, complement(layout)]))


_EXTENT = "an extent of a layout that is inverted"


def _sorted_by_stride(layout: Layout) -> list[tuple[int, int]]:
    """(stride, extent) of the leaves that reach something, by stride."""
    return sorted(
        (
            static(stride, "a stride of a layout that is completed"),
            static(extent, "an extent of a layout that is completed"),
        )
        for extent, stride in layout.pairs
        if extent != 1 and stride != 0
    )

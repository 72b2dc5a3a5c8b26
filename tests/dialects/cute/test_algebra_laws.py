"""The published laws of CuTe's layout algebra, on random layouts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.dialects.cute.layout_strategies import ANY, QUICKLY, SHAPES, permuted_compact
from tileiras.dialects.cute.algebra import AlgebraError, Layout, Swizzle
from tileiras.dialects.cute.algebra.composition import composition
from tileiras.dialects.cute.algebra.coordinates import (
    crd2crd,
    crd2idx,
    dice_layout,
    idx2crd,
    slice_and_offset,
)
from tileiras.dialects.cute.algebra.divides import (
    flat_divide,
    logical_divide,
    tiled_divide,
    zipped_divide,
)
from tileiras.dialects.cute.algebra.int_tuples import (
    compact_strides_last_fastest,
    depth,
    is_compatible,
    is_congruent,
    leaves,
    product,
)
from tileiras.dialects.cute.algebra.inverses import complement, left_inverse, right_inverse
from tileiras.dialects.cute.algebra.partitions import tv_layout, tv_partition
from tileiras.dialects.cute.algebra.products import (
    blocked_product,
    flat_product,
    logical_product,
    raked_product,
    tiled_product,
    zipped_product,
)
from tileiras.dialects.cute.algebra.transforms import (
    coalesce,
    downcast,
    filter_layout,
    flatten,
    group_modes,
    recast,
    upcast,
)


def ints(layout: Layout) -> list[int]:
    """All indices, which are static."""
    return [i for i in layout.indices if isinstance(i, int)]


def admitted(make: Callable[[], Layout]) -> Layout:
    """What is made; another example where a condition of admissibility is not met."""
    try:
        return make()
    except AlgebraError:
        assume(False)
        raise


@QUICKLY
@given(ANY)
def test_coalesce_keeps_the_function_and_is_flat(layout: Layout) -> None:
    """And coalescing again changes nothing."""
    result = coalesce(layout)
    assert ints(result) == ints(layout)
    assert depth(result.shape) <= 1
    assert coalesce(result) == result


@QUICKLY
@given(ANY)
def test_coalesce_by_mode_keeps_the_function_of_each_mode(layout: Layout) -> None:
    """And the rank."""
    result = coalesce(layout, (1,) * layout.rank)
    assert [ints(mode) for mode in result.modes] == [ints(mode) for mode in layout.modes]


@QUICKLY
@given(ANY)
def test_filter_keeps_the_set_of_indices(layout: Layout) -> None:
    """And leaves no mode of stride 0 but that of a single element."""
    result = filter_layout(layout)
    assert sorted(set(ints(result))) == sorted(set(ints(layout)))
    assert result.static_size == 1 or all(stride != 0 for _, stride in result.pairs)


@QUICKLY
@given(ANY)
def test_flatten_and_group_keep_the_function(layout: Layout) -> None:
    """They change nesting only."""
    assert ints(flatten(layout)) == ints(layout)
    assert ints(group_modes(layout, 0, layout.rank)) == ints(layout)


@QUICKLY
@given(SHAPES)
def test_coordinates_and_indices_are_inverse_for_compact_layouts(shape: object) -> None:
    """In both orders of strides."""
    assume(isinstance(shape, (int, tuple)))
    assert isinstance(shape, (int, tuple))
    size = product(shape)
    assume(isinstance(size, int) and size <= 128)
    for layout in (Layout.compact(shape), Layout.row_major(shape)):
        for index in layout.indices:
            assert isinstance(index, int)
            coordinate = idx2crd(index, shape, layout.stride)
            assert is_congruent(coordinate, shape)
            assert crd2idx(coordinate, layout) == index  # type: ignore[arg-type]


@QUICKLY
@given(ANY, ANY)
def test_composition_is_the_composition_of_functions(outer: Layout, inner: Layout) -> None:
    """And its shape takes all coordinates of the inner layout."""
    result = admitted(lambda: composition(outer, inner))
    whole = coalesce(outer)
    assert ints(result) == [whole(i) for i in ints(inner)]
    assert is_compatible(inner.shape, result.shape)


@QUICKLY
@given(permuted_compact(), permuted_compact(), permuted_compact())
def test_composition_is_associative(a: Layout, b: Layout, c: Layout) -> None:
    """As functions, where all of them exist."""
    left = admitted(lambda: composition(composition(a, b), c))
    right = admitted(lambda: composition(a, composition(b, c)))
    reached = max(ints(c))
    assume(reached < b.static_size and max(ints(b)) < a.static_size)
    assert ints(left) == ints(right)


@QUICKLY
@given(ANY, st.integers(1, 300))
def test_complement_fills_what_the_layout_leaves(layout: Layout, size: int) -> None:
    """Each index once, without gaps, and at least `size` of them."""
    rest = admitted(lambda: complement(layout, size))
    both = ints(Layout.of([filter_layout(layout), rest]))
    assert sorted(both) == list(range(len(both)))
    assert len(both) >= size
    strides = [stride for extent, stride in rest.pairs if extent != 1]
    assert strides == sorted(strides, key=lambda s: s if isinstance(s, int) else 0)


@QUICKLY
@given(ANY)
def test_right_inverse_is_undone_by_the_layout(layout: Layout) -> None:
    """`layout(right_inverse(layout)(i)) == i`."""
    assert [layout(i) for i in ints(right_inverse(layout))] == list(
        range(right_inverse(layout).static_size)
    )


@QUICKLY
@given(permuted_compact())
def test_right_inverse_of_a_bijection_is_whole(layout: Layout) -> None:
    """It has the size of the layout."""
    assert right_inverse(layout).static_size == layout.static_size


@QUICKLY
@given(ANY)
def test_left_inverse_undoes_the_layout(layout: Layout) -> None:
    """`left_inverse(layout)(layout(i)) == i`."""
    inverse = admitted(lambda: left_inverse(layout))
    assert [inverse(i) for i in ints(layout)] == list(range(layout.static_size))


@QUICKLY
@given(ANY, ANY)
def test_divides_hold_the_same_elements(layout: Layout, tiler: Layout) -> None:
    """In the same order; only nesting differs."""
    result = admitted(lambda: logical_divide(layout, tiler))
    whole = coalesce(layout)
    assert ints(result[0]) == [whole(i) for i in ints(tiler)]
    for other in (zipped_divide, tiled_divide, flat_divide):
        assert ints(other(layout, tiler)) == ints(result)


@QUICKLY
@given(permuted_compact(), st.sampled_from((1, 2, 3, 4)))
def test_divide_of_each_mode_keeps_all_elements(layout: Layout, tile: int) -> None:
    """Where the tile divides the mode."""
    extent = layout[0].static_size
    assume(extent % tile == 0)
    result = zipped_divide(layout, (tile,))
    assert result.rank == 2
    assert sorted(ints(result)) == sorted(ints(layout))


@QUICKLY
@given(ANY, ANY)
def test_products_repeat_the_block(block: Layout, tiler: Layout) -> None:
    """Copy j of the block is moved by what the complement has at the tiler's j."""
    result = admitted(lambda: logical_product(block, tiler))
    assert result[0] == block
    moved = ints(result[1])
    assert ints(result) == [i + j for j in moved for i in ints(block)]
    for other in (zipped_product, tiled_product, flat_product):
        assert ints(other(block, tiler)) == ints(result)


@QUICKLY
@given(permuted_compact(), permuted_compact())
def test_blocked_and_raked_products_hold_the_same_elements(block: Layout, tiler: Layout) -> None:
    """Mode i has size block i times tiler i."""
    blocked = admitted(lambda: blocked_product(block, tiler))
    raked = raked_product(block, tiler)
    assert (
        sorted(ints(blocked)) == sorted(ints(raked)) == sorted(ints(logical_product(block, tiler)))
    )
    assert [m.static_size for m in blocked.modes] == [m.static_size for m in raked.modes]


@QUICKLY
@given(ANY, st.data())
def test_a_slice_and_its_offset_reach_what_the_coordinate_leaves_free(
    layout: Layout, data: st.DataObject
) -> None:
    """Slice and dice share the modes out."""
    layout = Layout.of([layout, Layout(3, 100)])
    fixed = data.draw(st.integers(0, 2))
    part, offset = slice_and_offset((None, fixed), layout)
    assert isinstance(offset, int)
    assert [offset + i for i in ints(part)] == [i + 100 * fixed for i in ints(layout[0])]
    assert dice_layout((None, fixed), layout).modes == (Layout(3, 100),)


@QUICKLY
@given(ANY, st.sampled_from((1, 2, 4)))
def test_downcast_of_contiguous_elements_is_undone_by_upcast(layout: Layout, factor: int) -> None:
    """Wider elements again."""
    layout = Layout.of([Layout(2, 1), layout])
    narrow = downcast(layout, factor)
    assert upcast(narrow, factor) == layout
    assert recast(layout, 8 * factor, 8) == narrow


@QUICKLY
@given(st.integers(0, 3), st.integers(0, 3), st.integers(-4, 4), st.integers(0, 4095))
def test_a_swizzle_is_its_own_inverse(bits: int, base: int, shift: int, index: int) -> None:
    """On any index."""
    assume(abs(shift) >= bits)
    swizzle = Swizzle(bits, base, shift)
    assert swizzle(swizzle(index)) == index


@QUICKLY
@given(permuted_compact(), permuted_compact())
def test_tv_partitions_share_a_tile_out(threads: Layout, values: Layout) -> None:
    """Each element belongs to one thread, once."""
    placed = admitted(lambda: tv_layout(threads, values)[0])
    size = threads.static_size * values.static_size
    found: list[int] = []
    for thread in range(threads.static_size):
        part, offset = tv_partition(Layout.compact(size), placed, thread)
        assert isinstance(offset, int)
        found += [offset + i for i in ints(part)]
    assert sorted(found) == list(range(size))


def test_crd2crd_keeps_the_element() -> None:
    """From one nesting to another."""
    assert crd2crd((1, 2), (3, 4), (2, (3, 2))) == (1, (0, 1))
    with pytest.raises(AlgebraError, match=r"\(3,4\) has 12 elements, 6 has 6"):
        crd2crd((1, 2), (3, 4), 6)


def test_row_major_strides() -> None:
    """The last mode is the fastest at each level."""
    assert compact_strides_last_fastest((2, (3, 4))) == (12, (4, 1))
    assert list(leaves((2, (3, 4)))) == [2, 3, 4]

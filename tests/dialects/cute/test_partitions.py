"""Tiles of tensors, elements of threads, and the small functions beside the laws."""

from __future__ import annotations

import pytest

from tileiras.dialects.cute.algebra import AlgebraError, ComposedLayout, Layout, Swizzle
from tileiras.dialects.cute.algebra.int_tuples import is_weakly_congruent, shape_div
from tileiras.dialects.cute.algebra.partitions import (
    local_partition,
    local_tile,
    outer_partition,
    tv_partition,
)


def test_local_tile_is_the_tile_at_a_coordinate() -> None:
    """Tile (1,2) of 4x2 tiles of an 8x6 row-major tensor begins at row 4, column 4."""
    tile, offset = local_tile(Layout((8, 6), (6, 1)), (4, 2), (1, 2))
    assert (str(tile), offset) == ("(4,2):(6,1)", 28)


def test_outer_partition_is_one_element_of_every_tile() -> None:
    """Element (1,0) of each."""
    rest, offset = outer_partition(Layout((8, 6), (6, 1)), (4, 2), (1, 0))
    assert (str(rest), offset) == ("(2,3):(24,2)", 6)


@pytest.mark.parametrize("threads", [Layout((2, 3), (1, 2)), Layout((2, 3), (3, 1))])
def test_local_partition_shares_a_tensor_out(threads: Layout) -> None:
    """Each element to one thread; thread 1 is the neighbour along the faster mode of threads."""
    tensor = Layout((4, 6), (1, 4))
    found: list[int] = []
    for thread in range(6):
        part, offset = local_partition(tensor, threads, thread)
        assert isinstance(offset, int)
        found += [offset + i for i in part.indices if isinstance(i, int)]
    assert sorted(found) == list(range(24))
    assert local_partition(tensor, threads, 1)[1] == (1 if threads.stride == (1, 2) else 4)


def test_local_partition_rejects_threads_that_are_not_numbered_once() -> None:
    """And a thread that is none of them."""
    with pytest.raises(AlgebraError, match="does not number its 4 threads from 0 on, each once"):
        local_partition(Layout(8, 1), Layout(4, 2), 0)
    with pytest.raises(AlgebraError, match="there is no thread 4 among 4"):
        local_partition(Layout(8, 1), Layout(4, 1), 4)
    with pytest.raises(AlgebraError, match=r"a TV layout is \(thread, value\), found 4:1"):
        tv_partition(Layout(8, 1), Layout(4, 1), 0)


def test_shape_div_takes_whole_elements_off_the_front() -> None:
    """As far as one of two extents divides the other."""
    assert shape_div((4, 3), 2) == (2, 3)
    assert shape_div((4, 3), 12) == (1, 1)
    with pytest.raises(AlgebraError, match="of 4 and 3, neither divides the other"):
        shape_div((4, 3), 3)


def test_weakly_congruent_is_nested_as_deep_or_deeper() -> None:
    """One way only."""
    assert is_weakly_congruent((1, 2), (3, (4, 5)))
    assert not is_weakly_congruent((1, (2, 3)), (4, 5))


def test_a_swizzle_of_other_elements_moves_the_same_bytes() -> None:
    """S<3,4,3> of bytes is S<3,3,3> of 16-bit elements; parts of elements cannot be moved."""
    assert Swizzle(3, 4, 3).recast(8, 16) == Swizzle(3, 3, 3)
    with pytest.raises(AlgebraError, match="moves parts of 16 bits"):
        Swizzle(3, 0, 3).recast(8, 16)


def test_a_composed_layout_adds_its_offset_before_the_inner_function() -> None:
    """The cosize is that of what is reached."""
    layout = ComposedLayout(Swizzle(1, 0, 1), 2, Layout(2, 1))
    assert layout.indices == [3, 2]
    assert layout.cosize == 4
    assert Swizzle(1, 0, 1).reach == 4


def test_a_swizzle_with_a_negative_shift_moves_low_bits_up() -> None:
    """Bit 0 onto bit 2."""
    assert [Swizzle(1, 0, -2)(i) for i in range(8)] == [0, 5, 2, 7, 4, 1, 6, 3]

"""CuTe layouts and linear layouts: the same placements, and the same answers from either form."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.dialects.cute.layout_strategies import QUICKLY, bit_layouts
from tileiras.dialects.cute.algebra import AlgebraError, Layout, Swizzle
from tileiras.dialects.cute.algebra.banks import (
    bank_conflicts,
    candidate_swizzles,
    choose_swizzle,
    vector_width,
)
from tileiras.dialects.cute.algebra.coordinates import crd2idx
from tileiras.dialects.cute.algebra.expressions import evaluate
from tileiras.dialects.cute.algebra.linear import (
    distributed_from_linear,
    distributed_linear,
    shared_from_linear,
    shared_linear,
)
from tileiras.dialects.cute.algebra.swizzles import AnyLayout, swizzled
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.mma import mma_fragments
from tileiras.dialects.layout.offsets import bank_conflicts as linear_conflicts
from tileiras.dialects.layout.offsets import vector_elements
from tileiras.dialects.layout.shared import row_major, tma_swizzled


def coordinates_of(layout: LinearLayout, offset: int) -> tuple[int, ...]:
    """The coordinates at an offset of a tile in shared memory, bit by bit."""
    found = [0] * layout.rank
    for bit, vector in enumerate(layout.basis("offset")):
        if offset >> bit & 1:
            found = [a ^ b for a, b in zip(found, vector, strict=True)]
    return tuple(found)


@QUICKLY
@given(bit_layouts(), st.integers(0, 2), st.integers(0, 2), st.integers(0, 4))
def test_a_tile_in_shared_memory_lies_where_both_forms_say(
    plain: Layout, bits: int, base: int, shift: int
) -> None:
    """With and without a swizzle, and after the way back."""
    assume(shift >= bits and base + bits + shift <= plain.static_size.bit_length() - 1)
    layout = swizzled(Swizzle(bits, base, shift), plain) if bits else plain
    linear = shared_linear(layout)
    back = shared_from_linear(linear)
    assert shared_linear(back) == linear
    for offset in range(plain.static_size):
        coordinate = coordinates_of(linear, offset)
        number = crd2idx(coordinate, Layout.compact(linear.shape))
        assert isinstance(number, int)
        assert layout(number) == back(number) == offset


def test_swizzles_of_tma_are_cute_swizzles() -> None:
    """128 bytes of f16: S<3,3,3>, as CUTLASS names the atom's layout in elements."""
    text = str(shared_from_linear(tma_swizzled((64, 64), (1, 0), 16, 128)))
    assert text == "S<3,3,3> o 0 o (64,64):(64,1)"
    assert str(shared_from_linear(row_major((8, 16)))) == "(8,16):(16,1)"


@pytest.mark.parametrize("operand", ["a", "b", "c"])
def test_fragments_of_mma_are_tv_layouts(operand: str) -> None:
    """As published in CUTLASS's MMA traits, for m16n8k16; and read back."""
    published = {
        "a": "((4,8),(2,2,2)):((32,1),(16,8,128))",
        "b": None,
        "c": "((4,8),(2,2)):((32,1),(16,8))",
    }[operand]
    fragments = mma_fragments(16, 8, 16, 16)
    layout = getattr(fragments, operand)
    found = distributed_from_linear(layout)
    if published is not None:
        assert str(found) == published
    again = distributed_linear(found, layout.shape)
    assert [again.vectors(d) for d in ("register", "lane")] == [
        layout.vectors(d) for d in ("register", "lane")
    ]


ACCESSES = st.sampled_from(
    (
        "(32,8):(8,1)",
        "(32,8):(1,32)",
        "((8,4),(2,4)):((2,16),(1,64))",
        "((4,8),(4,2)):((32,1),(8,128))",
        "((16,2),8):((1,128),16)",
    )
)


@QUICKLY
@given(
    ACCESSES,
    st.sampled_from(("(16,16):(1,16)", "(16,16):(16,1)", "(8,32):(32,1)", "(4,64):(1,4)")),
    st.sampled_from((8, 16, 32)),
    st.sampled_from((None, (1, 2, 3), (2, 3, 3), (3, 1, 4))),
)
def test_conflicts_and_widths_are_those_of_linear_layouts(
    access: str, tile: str, bits: int, swizzle: tuple[int, int, int] | None
) -> None:
    """Counted address by address here, by ranks there."""
    tv, plain = evaluate(access), evaluate(tile)
    assert isinstance(tv, Layout) and isinstance(plain, Layout)
    shared: AnyLayout = plain if swizzle is None else swizzled(Swizzle(*swizzle), plain)
    memory = shared_linear(shared)
    threads = distributed_linear(tv, memory.shape)
    width = vector_elements(threads, memory, bits)
    assert vector_width(tv, shared, bits) == width
    for vector in {1, width}:
        expected = linear_conflicts(threads, memory, bits, vector)
        assert bank_conflicts(tv, shared, bits, vector) == expected


@QUICKLY
@given(
    st.lists(ACCESSES, min_size=1, max_size=2, unique=True),
    st.sampled_from(("(16,16):(1,16)", "(16,16):(16,1)", "(8,32):(32,1)", "(4,64):(1,4)")),
    st.sampled_from((8, 16, 32)),
)
def test_the_choice_of_a_swizzle_is_that_of_linear_layouts(
    texts: list[str], tile: str, bits: int
) -> None:
    """The same swizzle wins where conflicts and widths are those of linear layouts."""
    plain = evaluate(tile)
    tvs = [layout for text in texts if isinstance(layout := evaluate(text), Layout)]
    assert isinstance(plain, Layout)
    memory = shared_linear(plain)
    threads = [distributed_linear(tv, memory.shape) for tv in tvs]
    widths = [vector_elements(each, memory, bits) for each in threads]

    def cost(layout: AnyLayout) -> int:
        there = shared_linear(layout)
        pairs = zip(threads, widths, strict=True)
        return sum(linear_conflicts(each, there, bits, width) for each, width in pairs)

    best, least = None, cost(plain)
    for swizzle in candidate_swizzles(plain.static_size, max(widths)):
        if (found := cost(swizzled(swizzle, plain))) < least:
            best, least = swizzle, found
    assert choose_swizzle(tuple(tvs), plain, bits) == best


def test_a_swizzle_makes_rows_and_columns_free_of_conflicts() -> None:
    """A transpose of 32x32 words, rows by 16 bytes: bits of the row on those of its chunks."""
    rows, columns = Layout((32, 32), (1, 32)), Layout((32, 32), (32, 1))
    tile = Layout((32, 32), (32, 1))
    assert bank_conflicts(rows, tile, 32, 1) == 32
    assert bank_conflicts(rows, Layout((32, 32), (33, 1)), 32, 1) == 1
    found = choose_swizzle((rows, columns), tile, 32)
    assert str(found) == "S<3,2,3>"
    assert found is not None
    for access, width in ((rows, 4), (columns, 1)):
        assert vector_width(access, swizzled(found, tile), 32) == width
        assert bank_conflicts(access, swizzled(found, tile), 32, width) == 1
    linear = shared_from_linear(shared_linear(tile))
    assert isinstance(linear, Layout)
    assert choose_swizzle((rows, columns), linear, 32) == found


def test_no_swizzle_is_chosen_where_none_helps() -> None:
    """Rows that are read as rows."""
    rows = Layout((32, 4), (4, 1))
    assert choose_swizzle((rows,), Layout((4, 32), (1, 4)), 32) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(3,4):(1,3)", "its extent 3 is no power of two"),
        ("(4,4):(1,3)", "multiples of its stride 3 carry into other indices"),
        ("(4,4):(1,8)", "does not fill 16 offsets exactly once"),
        ("(4,4):(1,0)", "does not fill 16 offsets exactly once"),
        ("(4,?):(1,4)", "an extent of .* must be static"),
        ("S<1,0,2> o 1 o (4,4):(1,4)", "only a swizzle with offset 0 is"),
    ],
)
def test_what_is_not_linear_over_bits_is_rejected(text: str, message: str) -> None:
    """With the reason."""
    layout = evaluate(text)
    with pytest.raises(AlgebraError, match=message):
        shared_linear(layout)  # type: ignore[arg-type]


def test_what_strides_cannot_say_is_rejected() -> None:
    """Bits that are added by ^ without a single swizzle, and TV layouts with shared bits."""
    mixed = LinearLayout({"offset": [(1, 1), (1, 0), (3, 2), (2, 0)]}, (4, 4))
    with pytest.raises(AlgebraError, match="no shape, stride and single swizzle make"):
        shared_from_linear(mixed)
    twice = LinearLayout({"register": [(1,)], "lane": [(1,)], "warp": []}, (2,))
    with pytest.raises(AlgebraError, match="adds bits by \\^, no strides do that"):
        distributed_from_linear(twice)
    with pytest.raises(AlgebraError, match="leaves the 8 elements of the tile"):
        distributed_linear(Layout((4, 4), (1, 4)), (2, 4))
    with pytest.raises(AlgebraError, match=r"a TV layout is \(thread, value\), found 8:1"):
        distributed_linear(Layout(8, 1), (8,))
    with pytest.raises(AlgebraError, match="a tile in shared memory has the input 'offset'"):
        shared_from_linear(twice)

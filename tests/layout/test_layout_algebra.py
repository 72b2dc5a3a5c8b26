"""Linear layouts: construction, evaluation, the laws of the algebra, and their text."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layout_strategies import bijections, distributed, examples, held_elements, shapes

from tileiras.dialects.layout import LayoutError, LinearLayout
from tileiras.dialects.layout.blocked import blocked
from tileiras.dialects.layout.shared import row_major

ACCUMULATOR = LinearLayout(
    {
        "register": [(0, 1), (8, 0)],
        "lane": [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)],
        "warp": [],
    },
    (16, 8),
)


def flat_identity(layout: LinearLayout) -> bool:
    """Whether a layout with any in-dims maps their concatenation to itself, first dim on top."""
    vectors = [v for _, vs in reversed(layout.index_bases) for v in vs]
    return vectors == [1 << b for b in range(len(vectors))]


def test_the_worked_example_of_the_module_holds() -> None:
    assert ACCUMULATOR.apply(register=3, lane=5) == (9, 3)
    assert ACCUMULATOR.apply_index(register=3, lane=5) == 9 * 8 + 3
    assert ACCUMULATOR.in_size("lane") == 32
    assert ACCUMULATOR.in_bits("warp") == 0
    assert ACCUMULATOR.rank == 2
    assert ACCUMULATOR.is_injective and ACCUMULATOR.is_surjective


def test_equal_layouts_are_equal_keys_whatever_the_order_of_the_dims() -> None:
    a = LinearLayout({"warp": [(4,)], "register": [(1,), (2,)], "lane": []}, (8,))
    b = LinearLayout({"register": [(1,), (2,)], "lane": [], "warp": [(4,)]}, (8,))
    assert a == b and hash(a) == hash(b) and {a: 1}[b] == 1
    assert a.in_dims == ("register", "lane", "warp")
    assert a != LinearLayout({"register": [(2,), (1,)], "lane": [], "warp": [(4,)]}, (8,))
    assert a != b.reshape((2, 4))
    assert a != "a layout"


def test_a_layout_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        ACCUMULATOR.shape = (1,)  # type: ignore[misc]


def test_copies_and_pickles_are_equal() -> None:
    assert copy.deepcopy(ACCUMULATOR) == ACCUMULATOR
    assert pickle.loads(pickle.dumps(ACCUMULATOR)) == ACCUMULATOR


@pytest.mark.parametrize(
    ("bases", "shape", "message"),
    [
        ({"lane": [(1, 0)]}, (4,), "a basis of 'lane' has 2 coordinates, expected 1"),
        ({"lane": [(4,)]}, (4,), r"basis \(4,\) of 'lane' lies outside \(4,\)"),
        ({"lane": [(-1,)]}, (4,), "lies outside"),
        ({"lane": []}, (6,), r"powers of two, found shape \(6,\)"),
        ({"lane": []}, (0,), "powers of two"),
    ],
)
def test_bases_outside_the_tile_are_rejected(bases, shape, message) -> None:
    with pytest.raises(LayoutError, match=message):
        LinearLayout(bases, shape)


def test_index_bases_outside_the_tile_are_rejected() -> None:
    with pytest.raises(LayoutError, match="lies outside the 8 elements"):
        LinearLayout.from_index_bases({"lane": [8]}, (2, 4))


@pytest.mark.parametrize("inputs", [{"lane": 32}, {"lane": -1}, {"thread": 0}, {"register": 4}])
def test_inputs_outside_the_layout_are_rejected(inputs: dict[str, int]) -> None:
    with pytest.raises(LayoutError):
        ACCUMULATOR.apply(**inputs)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.slice(2),
        lambda x: x.expand_dims(4),
        lambda x: x.permute((0, 0)),
        lambda x: x.reshape((16, 16)),
        lambda x: x.with_registers_for((8, 8)),
        lambda x: x.with_registers_for((16, 8, 2)),
        lambda x: x * row_major((4,)),
        lambda x: x.compose(x),
        lambda x: x.slice(0).invert(),
        lambda x: x.free_mask("thread"),
        lambda x: x.vectors("thread"),
    ],
)
def test_what_the_algebra_does_not_define_is_rejected(change) -> None:
    with pytest.raises(LayoutError):
        change(ACCUMULATOR)


@examples(60)
@given(st.data(), shapes(), st.integers(0, 2))
def test_evaluation_is_linear(data: st.DataObject, shape: tuple[int, ...], warps: int) -> None:
    layout = data.draw(distributed(shape, warps))
    held = held_elements(layout)
    for warp, lane, register in np.ndindex(min(held.shape[0], 2), 32, min(held.shape[2], 4)):
        coordinate = layout.apply(register=register, lane=lane, warp=warp)
        assert np.ravel_multi_index(coordinate, shape) == held[warp, lane, register]


@examples(60)
@given(st.data(), shapes(), st.integers(0, 2))
def test_text_parses_back(data: st.DataObject, shape: tuple[int, ...], warps: int) -> None:
    layout = data.draw(distributed(shape, warps))
    assert LinearLayout.parse(str(layout)) == layout
    assert eval(repr(layout)) == layout


def test_text_is_readable() -> None:
    assert str(ACCUMULATOR) == (
        "{register: [(0,1), (8,0)], lane: [(0,2), (0,4), (1,0), (2,0), (4,0)], warp: []} -> 16x8"
    )
    scalar = blocked((), (), 1, 2)
    assert str(scalar) == "{register: [], lane: [(), (), (), (), ()], warp: [()]} -> ()"
    assert LinearLayout.parse(str(scalar)) == scalar


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{lane: [(1)]}",
        "{lane: [(1)]} -> 3",
        "{lane: [(1,1)]} -> 4",
        "{lane: [1]} -> 4",
        "{lane: [(1)], lane: [(1)]} -> 4",
        "{lane: [(1)] x} -> 4",
        "{lane: [(1)]} -> 4x",
    ],
)
def test_broken_text_is_rejected(text: str) -> None:
    with pytest.raises(LayoutError):
        LinearLayout.parse(text)


@examples(60)
@given(st.data(), shapes())
def test_inverse_undoes_a_bijection(data: st.DataObject, shape: tuple[int, ...]) -> None:
    size = int(np.prod(shape))
    vectors = data.draw(bijections(size))
    cut = data.draw(st.integers(0, len(vectors)))
    layout = LinearLayout.from_index_bases({"a": vectors[:cut], "b": vectors[cut:]}, shape)
    inverse = layout.invert()
    assert flat_identity(layout.compose(inverse))
    assert flat_identity(inverse.compose(layout))
    for index in range(size):
        coordinate = layout.coordinate(index)
        a, b = inverse.apply(**{f"dim{d}": c for d, c in enumerate(coordinate)})
        assert layout.apply(a=a, b=b) == coordinate


@examples(60)
@given(st.data(), shapes(), st.integers(0, 2))
def test_owners_hold_every_element_exactly_once(
    data: st.DataObject, shape: tuple[int, ...], warps: int
) -> None:
    layout = data.draw(distributed(shape, warps))
    held = held_elements(layout)
    grid = np.indices(held.shape)
    owned = np.ones(held.shape, dtype=bool)
    for axis, name in enumerate(("warp", "lane", "register")):
        owned &= (grid[axis] & layout.free_mask(name)) == 0
    assert sorted(held[owned]) == list(range(layout.size))


def test_copies_belong_to_the_highest_dim() -> None:
    layout = LinearLayout({"register": [(1,)], "lane": [(1,), (2,)], "warp": [(3,), (0,)]}, (4,))
    assert [layout.free_mask(name) for name in layout.in_dims] == [0b0, 0b01, 0b11]


@examples(60)
@given(st.data(), shapes(max_bits=4), shapes(max_bits=4), st.integers(0, 1))
def test_products_repeat_the_left_along_the_right(
    data: st.DataObject, inner: tuple[int, ...], outer: tuple[int, ...], warps: int
) -> None:
    rank = max(len(inner), len(outer))
    inner += (1,) * (rank - len(inner))
    outer += (1,) * (rank - len(outer))
    tile = data.draw(distributed(inner, warps, lane_bits=2))
    repeat = data.draw(distributed(outer, warps, lane_bits=3))
    product = tile * repeat
    for lane in range(32):
        low = tile.apply(lane=lane & 3)
        high = repeat.apply(lane=lane >> 2)
        expected = tuple(a + b * s for a, b, s in zip(low, high, tile.shape, strict=True))
        assert product.apply(lane=lane) == expected


@examples(60)
@given(st.data(), shapes(), shapes(), st.integers(0, 2))
def test_reshape_permute_and_expand_agree_with_numpy(
    data: st.DataObject, shape: tuple[int, ...], other: tuple[int, ...], warps: int
) -> None:
    layout = data.draw(distributed(shape, warps))
    tile = np.arange(layout.size).reshape(shape)
    values = tile.ravel()[held_elements(layout)]

    def holds(changed: LinearLayout, expected: np.ndarray) -> None:
        assert changed.shape == expected.shape
        np.testing.assert_array_equal(expected.ravel()[held_elements(changed)], values)

    if np.prod(other) == layout.size:
        holds(layout.reshape(other), tile.reshape(other))
    holds(layout.reshape((layout.size,)), tile.ravel())
    perm = data.draw(st.permutations(range(len(shape))))
    holds(layout.permute(perm), tile.transpose(perm))
    axis = data.draw(st.integers(0, len(shape)))
    holds(layout.expand_dims(axis), np.expand_dims(tile, axis))
    assert layout.expand_dims(axis).slice(axis) == layout


@examples(60)
@given(st.data(), shapes(), st.integers(0, 2))
def test_slice_forgets_one_coordinate(
    data: st.DataObject, shape: tuple[int, ...], warps: int
) -> None:
    layout = data.draw(distributed(shape, warps))
    axis = data.draw(st.integers(0, len(shape) - 1))
    sliced, kept = layout.slice(axis), layout.slice(axis, keep_dim=True)
    for lane in range(32):
        full = layout.apply(lane=lane)
        assert sliced.apply(lane=lane) == full[:axis] + full[axis + 1 :]
        assert kept.apply(lane=lane) == (*full[:axis], 0, *full[axis + 1 :])
    assert sliced.in_size("register") == layout.in_size("register")
    assert sliced.is_surjective


@examples(60)
@given(st.data(), shapes(), st.integers(0, 2))
def test_dropping_register_copies_drops_nothing_else(
    data: st.DataObject, shape: tuple[int, ...], warps: int
) -> None:
    layout = data.draw(distributed(shape, warps))
    thin = layout.without_register_duplicates()
    assert thin.free_mask("register") == 0
    assert thin.vectors("lane") == layout.vectors("lane")
    before, after = held_elements(layout), held_elements(thin)
    np.testing.assert_array_equal(
        [sorted(set(row)) for row in before.reshape(-1, before.shape[2]).tolist()],
        [sorted(row) for row in after.reshape(-1, after.shape[2]).tolist()],
    )


def test_registers_extend_a_layout_along_the_last_dim_first() -> None:
    wide = ACCUMULATOR.with_registers_for((32, 16))
    assert wide.basis("register") == ((0, 1), (8, 0), (0, 8), (16, 0))
    assert wide.is_surjective
    column = ACCUMULATOR.slice(1, keep_dim=True).without_register_duplicates()
    broadcast = column.with_registers_for((16, 8))
    for register in range(broadcast.in_size("register")):
        row, _ = broadcast.apply(register=register, lane=9)
        assert column.apply(register=register % column.in_size("register"), lane=9) == (row, 0)


def test_compose_feeds_output_dims_to_input_dims_by_position() -> None:
    outer = LinearLayout({"x": [(1,), (2,)], "y": [(4,)]}, (8,))
    inner = LinearLayout({"lane": [(0, 1), (2, 0), (1, 1)]}, (4, 2))
    composed = outer.compose(inner)
    for lane in range(8):
        x, y = inner.apply(lane=lane)
        assert composed.apply(lane=lane) == outer.apply(x=x, y=y)


def test_identity_is_the_neutral_element() -> None:
    layout = row_major((4, 8))
    assert layout.compose(LinearLayout.identity("offset", 32)) == layout

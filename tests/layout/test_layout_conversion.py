"""Conversion plans move every element to its place, by the cheapest kind that can."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layout_simulator import count_conflicts, run_plan
from layout_strategies import distributed, examples, held_elements, shapes

from tileiras.dialects.layout import LayoutError, LinearLayout
from tileiras.dialects.layout.blocked import blocked
from tileiras.dialects.layout.conversion import (
    ConversionPlan,
    Identity,
    RegisterPermutation,
    SharedMemory,
    WarpShuffle,
    plan_conversion,
)
from tileiras.dialects.layout.mma import (
    FRAGMENTS,
    M16N8K16_F16,
    M16N8K32_S8,
    Operand,
    mma_operand_layout,
)
from tileiras.dialects.layout.offsets import bank_conflicts, offset_terms, register_groups
from tileiras.dialects.layout.shared import row_major
from tileiras.dialects.layout.shuffles import plan_in_warp
from tileiras.dialects.layout.staging import plan_staging

ELEMENT_BITS = st.sampled_from([1, 8, 16, 32, 64])


def assert_moves(plan: ConversionPlan, src: LinearLayout, dst: LinearLayout) -> None:
    """Runs the plan on element numbers and compares with what `dst` says."""
    got = run_plan(plan, src, dst, held_elements(src))
    np.testing.assert_array_equal(got, held_elements(dst))


def planned(src: LinearLayout, dst: LinearLayout, element_bits: int) -> ConversionPlan:
    """The plan, after checking that it is right."""
    plan = plan_conversion(src, dst, element_bits)
    assert_moves(plan, src, dst)
    return plan


@examples(150)
@given(st.data(), shapes(max_bits=8), st.integers(0, 2), ELEMENT_BITS, st.booleans())
def test_any_conversion_moves_each_element_right(
    data: st.DataObject, shape: tuple[int, ...], warps: int, element_bits: int, units: bool
) -> None:
    src = data.draw(distributed(shape, warps, units=units))
    dst = data.draw(distributed(shape, warps, units=units))
    planned(src, dst, element_bits)
    assert_moves(plan_staging(src, dst, element_bits), src, dst)


@examples(150)
@given(st.data(), shapes(max_bits=7, min_bits=2), ELEMENT_BITS, st.booleans())
def test_any_exchange_within_one_warp_moves_each_element_right(
    data: st.DataObject, shape: tuple[int, ...], element_bits: int, units: bool
) -> None:
    src = data.draw(distributed(shape, 0, units=units))
    dst = data.draw(distributed(shape, 0, units=units))
    plan = plan_in_warp(src, dst, element_bits)
    if plan is not None:
        assert_moves(plan, src, dst)


@examples(100)
@given(st.data(), shapes(max_bits=9, min_bits=5), st.sampled_from([1, 2, 4, 8]))
def test_counted_conflicts_are_the_computed_ones(
    data: st.DataObject, shape: tuple[int, ...], size: int
) -> None:
    src = data.draw(distributed(shape, 1))
    dst = data.draw(distributed(shape, 1))
    plan = plan_staging(src, dst, size * 8)
    for layout, vector in ((src, plan.store_vector), (dst, plan.load_vector)):
        counted = count_conflicts(layout, plan, size, vector)
        assert bank_conflicts(layout, plan.shared, size * 8, vector) == counted
    dense = SharedMemory(row_major(shape), 1, 1, 0)
    assert bank_conflicts(src, dense.shared, size * 8, 1) == count_conflicts(src, dense, size, 1)


@pytest.mark.parametrize("element_bits", [8, 16, 32, 64])
@pytest.mark.parametrize("vector", [1, 2, 4])
def test_transposing_through_shared_memory_is_free_of_conflicts(
    element_bits: int, vector: int
) -> None:
    rows = blocked((64, 64), (1, 0), vector, 4)
    columns = blocked((64, 64), (0, 1), vector, 4)
    plan = planned(rows, columns, element_bits)
    assert isinstance(plan, SharedMemory)
    assert bank_conflicts(rows, plan.shared, element_bits, plan.store_vector) == 1
    assert bank_conflicts(columns, plan.shared, element_bits, plan.load_vector) == 1


def test_dense_rows_read_as_columns_conflict() -> None:
    columns = blocked((32, 32), (0, 1), 1, 1)
    assert bank_conflicts(columns, row_major((32, 32)), 32, 1) == 32


@pytest.mark.parametrize("element_bits", [8, 16, 32])
@pytest.mark.parametrize("which", ["A", "B"])
def test_operands_reach_their_fragments_without_conflicts(
    which: Operand, element_bits: int
) -> None:
    atom = {8: M16N8K32_S8, 16: M16N8K16_F16, 32: M16N8K16_F16}[element_bits].operand(which)
    src = blocked((64, 64), (1, 0), 128 // element_bits, 4)
    dst = mma_operand_layout(atom, (64, 64), (2, 2), which)
    plan = planned(src, dst, element_bits)
    assert isinstance(plan, SharedMemory)
    assert bank_conflicts(src, plan.shared, element_bits, plan.store_vector) == 1
    assert bank_conflicts(dst, plan.shared, element_bits, plan.load_vector) == 1


def test_an_accumulator_is_already_the_next_f16_operand() -> None:
    c = mma_operand_layout(M16N8K16_F16.c, (64, 64), (4, 1), "C")
    a = mma_operand_layout(M16N8K16_F16.a, (64, 64), (4, 1), "A")
    assert planned(c, a, 16) == Identity()


def test_an_accumulator_becomes_an_8_bit_operand_by_shuffles_in_quads() -> None:
    c = mma_operand_layout(M16N8K16_F16.c, (64, 64), (4, 1), "C")
    a = mma_operand_layout(M16N8K32_S8.a, (64, 64), (4, 1), "A")
    plan = planned(c, a, 8)
    assert isinstance(plan, WarpShuffle)
    assert plan.pack == 2
    assert all(exchange.lane_xor < 4 for exchange in plan.rounds)


def test_reordered_registers_are_a_rename() -> None:
    src = LinearLayout(
        {
            "register": [(0, 1), (1, 0)],
            "lane": [(0, 2), (0, 4), (2, 0), (4, 0), (8, 0)],
            "warp": [],
        },
        (16, 8),
    )
    dst = LinearLayout(
        {"register": [(1, 0), (0, 1)], "lane": src.basis("lane"), "warp": []}, (16, 8)
    )
    assert planned(src, dst, 32) == RegisterPermutation((0, 2, 1, 3))


def test_a_broadcast_into_more_registers_is_a_rename() -> None:
    wide = blocked((16, 16), (1, 0), 4, 1)
    src = wide.slice(1, keep_dim=True).without_register_duplicates()
    dst = wide.slice(1, keep_dim=True)
    plan = planned(src, dst, 32)
    assert isinstance(plan, RegisterPermutation)
    assert len(plan.sources) == dst.in_size("register") > src.in_size("register")


def test_a_replicated_tile_needs_only_selects() -> None:
    registers = {"register": [(1,), (2,), (4,)], "lane": [(0,)] * 5, "warp": []}
    src, dst = LinearLayout(registers, (8,)), blocked((8,), (0,), 1, 1)
    plan = planned(src, dst, 32)
    assert isinstance(plan, WarpShuffle)
    assert all(plan.is_local(exchange) for exchange in plan.rounds)
    assert any(plan.before_by_lane)


def test_a_4x4_transpose_shuffles_three_of_four_registers() -> None:
    lanes = [(0, 0, 1), (0, 0, 2), (1, 0, 0), (2, 0, 0), (4, 0, 0)]
    src = LinearLayout({"register": [(0, 1, 0), (0, 2, 0)], "lane": lanes, "warp": []}, (8, 4, 4))
    plan = planned(src, src.permute((0, 2, 1)), 32)
    assert isinstance(plan, WarpShuffle)
    assert plan.is_butterfly
    assert sum(not plan.is_local(exchange) for exchange in plan.rounds) == 3


def test_data_of_other_warps_goes_through_shared_memory() -> None:
    src = blocked((4, 32), (1, 0), 1, 4)
    dst = src.reshape((4, 32)).permute((0, 1))
    assert planned(src, dst, 32) == Identity()
    swapped = LinearLayout(
        {"register": [], "lane": src.basis("lane"), "warp": [(2, 0), (1, 0)]}, (4, 32)
    )
    assert isinstance(planned(src, swapped, 32), SharedMemory)


@pytest.mark.parametrize(("rows", "kind"), [(16, WarpShuffle), (512, SharedMemory)])
def test_only_large_exchanges_of_narrow_elements_leave_the_warp(rows: int, kind: type) -> None:
    src = blocked((rows, 64), (1, 0), 2, 1)
    swapped = (src.basis("lane")[0], *src.basis("register")[1:])
    lanes = (src.basis("register")[0], *src.basis("lane")[1:])
    dst = LinearLayout({"register": swapped, "lane": lanes, "warp": []}, src.shape)
    assert isinstance(planned(src, dst, 8), kind)


@pytest.mark.parametrize("fragments", FRAGMENTS, ids=lambda f: f.name)
def test_every_accumulator_converts_to_rows_and_back(fragments) -> None:
    c = mma_operand_layout(fragments.c, (64, 32), (2, 2), "C")
    rows = blocked((64, 32), (1, 0), 4, 4)
    planned(c, rows, 32)
    planned(rows, c, 32)


def test_tiles_of_different_shapes_do_not_convert() -> None:
    with pytest.raises(LayoutError, match=r"cannot convert a tile of shape \(8, 8\) to \(64,\)"):
        plan_conversion(blocked((8, 8), (1, 0), 1, 1), blocked((64,), (0,), 1, 1), 32)


def test_different_numbers_of_warps_do_not_convert() -> None:
    with pytest.raises(LayoutError, match="cannot convert from 1 to 2 warps"):
        plan_conversion(blocked((64,), (0,), 1, 1), blocked((64,), (0,), 1, 2), 32)


def test_a_source_with_holes_does_not_convert() -> None:
    full = blocked((64,), (0,), 1, 1)
    holes = LinearLayout({"register": [], "lane": full.basis("lane"), "warp": []}, (64,))
    with pytest.raises(LayoutError, match="does not hold the whole tile"):
        plan_conversion(holes, full, 32)


def test_a_shared_layout_is_not_a_conversion_source() -> None:
    with pytest.raises(LayoutError, match="expected input dims"):
        plan_conversion(row_major((64,)), blocked((64,), (0,), 1, 1), 32)


def test_register_groups_reject_vectors_that_are_not_in_a_row() -> None:
    columns = blocked((64, 64), (0, 1), 4, 4)
    with pytest.raises(LayoutError, match="vectors of 4 elements"):
        register_groups(columns, row_major((64, 64)), 4)


def test_offset_terms_add_up_to_the_offset_of_the_element() -> None:
    layout = blocked((16, 32), (1, 0), 4, 2)
    terms = offset_terms(layout, row_major((16, 32)))
    for register, lane, warp in [(0, 0, 0), (3, 17, 1), (5, 31, 0)]:
        expected = layout.apply_index(register=register, lane=lane, warp=warp)
        assert terms.base(lane, warp) ^ terms.register[register] == expected

"""Blocked, matrix fragment and shared memory layouts hold what their descriptions say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layout_strategies import examples, held_elements, shapes

from tileiras.dialects.layout import LayoutError, LinearLayout
from tileiras.dialects.layout.blocked import blocked, contiguous_vector
from tileiras.dialects.layout.mma import (
    FRAGMENTS,
    M8N8K4_F64,
    M16N8K8_TF32,
    M16N8K16_F16,
    M16N8K32_S8,
    MmaFragments,
    Operand,
    mma_operand_layout,
    wgmma_accumulator,
)
from tileiras.dialects.layout.shared import row_major, swizzle, tma_swizzled

# Blocked


@examples(80)
@given(st.data(), shapes(max_bits=12), st.integers(0, 4), st.integers(0, 3))
def test_blocked_neighbours_hold_neighbouring_vectors(
    data: st.DataObject, shape: tuple[int, ...], vector_bits: int, warp_bits: int
) -> None:
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    layout = blocked(shape, order, 1 << vector_bits, 1 << warp_bits)
    vector = min(1 << vector_bits, shape[order[0]])
    assert layout.in_dims == ("register", "lane", "warp")
    assert layout.in_size("lane") == 32 and layout.in_size("warp") == 1 << warp_bits
    assert layout.free_mask("register") == 0 and layout.is_surjective
    # The place of each element in the tile, counted fastest dim first.
    slowest_first = tuple(reversed(order))
    places = np.arange(layout.size).reshape([shape[d] for d in slowest_first])
    places = places.transpose([slowest_first.index(d) for d in range(len(shape))]).ravel()
    held = places[held_elements(layout)]
    threads = np.arange(32 << warp_bits).reshape(1 << warp_bits, 32)
    for register in range(vector):
        expected = (threads * vector + register) % layout.size
        np.testing.assert_array_equal(held[:, :, register], expected)


def test_blocked_covers_large_tiles_by_more_registers() -> None:
    layout = blocked((128, 64), (1, 0), 8, 4)
    assert layout.in_size("register") == 64
    assert layout.apply(register=8) == (16, 0)
    assert layout.apply(lane=8) == (1, 0)
    assert layout.apply(warp=1) == (4, 0)


def test_small_tiles_leave_copies_in_the_upper_threads() -> None:
    layout = blocked((16,), (0,), 2, 4)
    assert layout.free_mask("lane") == 0b11000
    assert layout.free_mask("warp") == 0b11
    assert layout.free_mask("register") == 0


@pytest.mark.parametrize(
    ("order", "vector", "warps"), [((0, 0), 1, 1), ((1,), 1, 1), ((1, 0), 3, 1), ((1, 0), 1, 3)]
)
def test_blocked_rejects_wrong_parameters(order, vector: int, warps: int) -> None:
    with pytest.raises(LayoutError):
        blocked((8, 8), order, vector, warps)


def test_contiguous_vectors_end_where_registers_leave_the_row() -> None:
    layout = blocked((64, 64), (1, 0), 8, 4)
    assert contiguous_vector(layout, 1, 16) == 8
    assert contiguous_vector(layout, 1, 4) == 4
    assert contiguous_vector(layout, 0, 16) == 1
    assert contiguous_vector(M16N8K16_F16.c, 1, 16) == 2


def test_contiguous_vectors_are_aligned_in_every_thread() -> None:
    shifted = LinearLayout({"register": [(1,), (2,)], "lane": [(6,), (8,)], "warp": []}, (16,))
    assert contiguous_vector(shifted, 0, 4) == 2


# Fragments, against the formulas of the PTX ISA


def group(lane: int) -> int:
    """groupID of the PTX ISA."""
    return lane >> 2


def member(lane: int) -> int:
    """threadID_in_group of the PTX ISA."""
    return lane % 4


def eight_below(lane: int, below: bool) -> int:
    """groupID, or groupID + 8."""
    return group(lane) + (8 if below else 0)


def c_16x8(lane: int, i: int) -> tuple[int, int]:
    """ci of every m16n8 shape."""
    return eight_below(lane, i >= 2), member(lane) * 2 + (i & 1)


FORMULAS = {
    ("m16n8k16.f16", "A"): lambda lane, i: (
        eight_below(lane, not (i < 2 or 4 <= i < 6)),
        member(lane) * 2 + (i & 1) + (8 if i >= 4 else 0),
    ),
    ("m16n8k16.f16", "B"): lambda lane, i: (
        member(lane) * 2 + (i & 1) + (8 if i >= 2 else 0),
        group(lane),
    ),
    ("m16n8k16.f16", "C"): c_16x8,
    ("m16n8k8.tf32", "A"): lambda lane, i: (
        eight_below(lane, i in (1, 3)),
        member(lane) + (4 if i >= 2 else 0),
    ),
    ("m16n8k8.tf32", "B"): lambda lane, i: (member(lane) + (4 if i else 0), group(lane)),
    ("m16n8k8.tf32", "C"): c_16x8,
    ("m8n8k4.f64", "A"): lambda lane, i: (group(lane), member(lane)),
    ("m8n8k4.f64", "B"): lambda lane, i: (member(lane), group(lane)),
    ("m8n8k4.f64", "C"): lambda lane, i: (group(lane), member(lane) * 2 + (i & 1)),
    ("m16n8k32.s8", "A"): lambda lane, i: (
        eight_below(lane, not (i < 4 or 8 <= i < 12)),
        member(lane) * 4 + (i & 3) + (16 if i >= 8 else 0),
    ),
    ("m16n8k32.s8", "B"): lambda lane, i: (
        member(lane) * 4 + (i & 3) + (16 if i >= 4 else 0),
        group(lane),
    ),
    ("m16n8k32.s8", "C"): c_16x8,
}

SHAPES = {
    M16N8K16_F16: (16, 8, 16, 8, 4, 4),
    M16N8K8_TF32: (16, 8, 8, 4, 2, 4),
    M8N8K4_F64: (8, 8, 4, 1, 1, 2),
    M16N8K32_S8: (16, 8, 32, 16, 8, 4),
}
"""(M, N, K, elements per thread of A, B and C)."""


@pytest.mark.parametrize("fragments", FRAGMENTS, ids=lambda f: f.name)
@pytest.mark.parametrize("which", ["A", "B", "C"])
def test_fragments_follow_the_formulas_of_the_ptx_isa(
    fragments: MmaFragments, which: Operand
) -> None:
    *shape, a, b, c = SHAPES[fragments]
    assert fragments.shape == tuple(shape)
    layout = fragments.operand(which)
    assert layout.in_size("register") == {"A": a, "B": b, "C": c}[which]
    formula = FORMULAS[fragments.name, which]
    for lane in range(32):
        for i in range(layout.in_size("register")):
            assert layout.apply(register=i, lane=lane) == formula(lane, i)


def test_shape_and_elements_identify_a_row() -> None:
    keys = [(f.shape, *(f.operand(w).in_size("register") for w in ("A", "B"))) for f in FRAGMENTS]
    assert len(set(keys)) == len(FRAGMENTS)


def test_a_fragment_row_that_covers_nothing_twice_is_required() -> None:
    good = M16N8K16_F16
    broken = LinearLayout({"register": [(0, 1)], "lane": good.c.basis("lane")}, (16, 8))
    with pytest.raises(LayoutError, match="does not cover its matrix exactly once"):
        MmaFragments("broken", good.a, good.b, broken)
    with pytest.raises(LayoutError, match="disagree on K"):
        MmaFragments("broken", good.a, M16N8K8_TF32.b, good.c)
    with pytest.raises(LayoutError, match="does not fit C"):
        MmaFragments("broken", M8N8K4_F64.a, good.b, good.c)
    flat = LinearLayout({"register": [(1, 0), (2, 0), (4, 0), (8, 0)], "lane": []}, (16, 1))
    with pytest.raises(LayoutError, match="32 lanes"):
        MmaFragments("broken", flat, LinearLayout({"lane": []}, (1, 8)), good.c)


@pytest.mark.parametrize("fragments", FRAGMENTS, ids=lambda f: f.name)
@pytest.mark.parametrize("warps", [(1, 1), (2, 2), (4, 1), (1, 8)])
def test_groups_of_registers_are_the_fragments_of_matching_atoms(
    fragments: MmaFragments, warps: tuple[int, int]
) -> None:
    """Multiplies numbered tiles atom by atom, exactly as the lowering will."""
    m, n, k = 64, 64, 64
    am, an, ak = fragments.shape
    a = mma_operand_layout(fragments.a, (m, k), warps, "A")
    b = mma_operand_layout(fragments.b, (k, n), warps, "B")
    c = mma_operand_layout(fragments.c, (m, n), warps, "C")
    held = {"A": held_elements(a), "B": held_elements(b), "C": held_elements(c)}
    each = {w: fragments.operand(w).in_size("register") for w in ("A", "B", "C")}
    rep_m, rep_n, rep_k = (
        max(1, m // am // warps[0]),
        max(1, n // an // warps[1]),
        k // ak,
    )
    for which, count in (("A", rep_m * rep_k), ("B", rep_n * rep_k), ("C", rep_m * rep_n)):
        assert held[which].shape[2] == count * each[which]
    for warp in range(warps[0] * warps[1]):
        for i, j, step in np.ndindex(rep_m, rep_n, rep_k):
            tops = {}
            for which, atom, width in (
                ("A", i * rep_k + step, k),
                ("B", j * rep_k + step, n),
                ("C", i * rep_n + j, n),
            ):
                registers = held[which][warp, :, atom * each[which] : (atom + 1) * each[which]]
                top = divmod(int(registers.min()), width)
                rows, columns = np.divmod(registers, width)
                fragment = held_elements(
                    LinearLayout(
                        {**dict(fragments.operand(which).bases), "warp": []},
                        fragments.operand(which).shape,
                    )
                )[0]
                inner = fragments.operand(which).shape[1]
                np.testing.assert_array_equal(rows - top[0], fragment // inner)
                np.testing.assert_array_equal(columns - top[1], fragment % inner)
                tops[which] = top
            assert tops["A"][0] == tops["C"][0]
            assert tops["B"][1] == tops["C"][1]
            assert tops["A"][1] == tops["B"][0] == step * ak


def test_batches_repeat_the_matrix_in_the_highest_registers() -> None:
    plain = mma_operand_layout(M16N8K16_F16.a, (32, 32), (2, 1), "A")
    batched = mma_operand_layout(M16N8K16_F16.a, (4, 32, 32), (2, 1), "A")
    bits = plain.in_bits("register")
    assert [v[1:] for v in batched.basis("register")[:bits]] == list(plain.basis("register"))
    assert batched.basis("register")[bits:] == ((1, 0, 0), (2, 0, 0))
    assert batched.is_surjective


def test_operands_are_copied_over_the_warps_of_the_other_dim() -> None:
    a = mma_operand_layout(M16N8K16_F16.a, (64, 16), (2, 2), "A")
    b = mma_operand_layout(M16N8K16_F16.b, (16, 64), (2, 2), "B")
    c = mma_operand_layout(M16N8K16_F16.c, (64, 64), (2, 2), "C")
    assert (a.free_mask("warp"), b.free_mask("warp"), c.free_mask("warp")) == (0b10, 0b01, 0)


def test_warps_beyond_the_tile_hold_copies() -> None:
    c = mma_operand_layout(M16N8K16_F16.c, (16, 16), (4, 1), "C")
    assert c.free_mask("warp") == 0b11
    assert c.is_surjective


@pytest.mark.parametrize("shape", [(8, 16), (16, 8), (16,)])
def test_tiles_below_the_atom_are_rejected(shape: tuple[int, ...]) -> None:
    with pytest.raises(LayoutError, match="smaller than the fragment"):
        mma_operand_layout(M16N8K16_F16.a, shape, (1, 1), "A")


def test_wgmma_accumulators_follow_the_formula_of_the_ptx_isa() -> None:
    layout = wgmma_accumulator((256, 32), 2)
    assert layout.is_injective and layout.is_surjective
    for warp, lane, register in np.ndindex(8, 32, 32):
        instruction, i = divmod(register, 16)
        row = 128 * instruction + 16 * warp + eight_below(lane, i % 4 >= 2)
        column = 8 * (i // 4) + 2 * member(lane) + (i & 1)
        assert layout.apply(warp=warp, lane=lane, register=register) == (row, column)


def test_wgmma_accumulators_need_64_rows_per_warpgroup() -> None:
    with pytest.raises(LayoutError, match="2 warpgroups need 128 rows"):
        wgmma_accumulator((32, 32), 2)


def test_two_warpgroups_have_half_of_the_columns_of_64_rows() -> None:
    layout, alone = wgmma_accumulator((64, 32), 2), wgmma_accumulator((64, 16), 1)
    assert layout.is_injective and layout.is_surjective
    for warp, lane, register in np.ndindex(8, 32, 8):
        row, column = alone.apply(warp=warp % 4, lane=lane, register=register)
        place = row, column + 16 * (warp // 4)
        assert layout.apply(warp=warp, lane=lane, register=register) == place


# Shared memory


def test_row_major_counts_elements_in_order() -> None:
    layout = row_major((4, 8))
    assert [layout.apply_index(offset=o) for o in range(32)] == list(range(32))
    columns = row_major((4, 8), order=(0, 1))
    assert [columns.apply(offset=o) for o in (0, 1, 4)] == [(0, 0), (1, 0), (0, 1)]


@pytest.mark.parametrize(("bits", "base", "shift"), [(0, 0, 0), (3, 4, 3), (2, 3, 3), (1, 0, 4)])
def test_swizzles_follow_their_formula_and_undo_themselves(
    bits: int, base: int, shift: int
) -> None:
    layout = swizzle(bits, base, shift, 1024)
    mask = ((1 << bits) - 1) << base
    for offset in range(1024):
        assert layout.apply(offset=offset) == (offset ^ ((offset >> shift) & mask),)
    assert layout.compose(layout) == LinearLayout.identity("offset", 1024)


def test_overlapping_swizzles_are_rejected() -> None:
    with pytest.raises(LayoutError, match=r"swizzle<3, 4, 2>"):
        swizzle(3, 4, 2, 1024)


@pytest.mark.parametrize(
    ("swizzle_bytes", "element_bits"), [(128, 16), (128, 8), (64, 16), (32, 32)]
)
def test_tma_swizzles_permute_16_byte_chunks(swizzle_bytes: int, element_bits: int) -> None:
    size = element_bits // 8
    row = swizzle_bytes // size
    layout = tma_swizzled((16, row), (1, 0), element_bits, swizzle_bytes)
    for offset in range(16 * row):
        byte = offset * size
        chunk = (byte >> 4) ^ ((byte >> 7) & (swizzle_bytes // 16 - 1))
        expected = (chunk << 4 | byte % 16) // size
        assert layout.apply_index(offset=offset) == expected


def test_tma_swizzles_need_rows_of_their_width() -> None:
    with pytest.raises(LayoutError, match="needs rows of 64 elements"):
        tma_swizzled((16, 32), (1, 0), 16, 128)
    with pytest.raises(LayoutError, match="256-byte"):
        tma_swizzled((16, 128), (1, 0), 16, 256)

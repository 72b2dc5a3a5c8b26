"""Left operands read by threads from tiles whose rows are contiguous: coverage and banks."""

from __future__ import annotations

import pytest

from tileiras.codegen.lowering.wgmma_fragments import _MATRIX_LINES
from tileiras.dialects.layout import LayoutError, LinearLayout
from tileiras.dialects.layout.mma import wgmma_accumulator
from tileiras.dialects.layout.offsets import bank_conflicts, vector_elements
from tileiras.dialects.layout.shared import swizzled_panels
from tileiras.dialects.layout.wgmma_rows import (
    register_rows_accumulator,
    register_rows_fragments,
    tile_row_bits,
)

SIZES = [(64, 1), (128, 1), (128, 2), (256, 1), (256, 2)]


@pytest.mark.parametrize("bits", [8, 32])
@pytest.mark.parametrize(("rows", "warpgroups"), SIZES)
def test_every_row_is_computed_once(rows: int, warpgroups: int, bits: int) -> None:
    assert sorted(tile_row_bits(rows, bits, warpgroups)) == list(range(rows.bit_length() - 1))
    layout = register_rows_accumulator((rows, 64), bits, warpgroups)
    assert layout.is_injective
    assert layout.is_surjective


@pytest.mark.parametrize("bits", [8, 32])
def test_fragments_and_accumulator_agree_on_rows(bits: int) -> None:
    fragments = register_rows_fragments((256, 512 // bits * 4), bits, 2)
    accumulator = register_rows_accumulator((256, 64), bits, 2)
    row = {"register": 1 if bits == 32 else 2, "lane": 2}
    for name, first in row.items():
        if name == "register":
            pair = fragments.basis("register")[0 if bits == 32 else 2]
            assert accumulator.basis("register")[1] == (pair[0], 0)
            continue
        rows = [vector[0] for vector in fragments.basis("lane")[first:]]
        assert rows == [vector[0] for vector in accumulator.basis("lane")[first:]]
    assert fragments.basis("warp") == accumulator.basis("warp")
    assert accumulator != wgmma_accumulator((256, 64), 2)


@pytest.mark.parametrize(("rows", "warpgroups"), SIZES)
def test_words_are_read_as_vectors_without_conflicts(rows: int, warpgroups: int) -> None:
    fragments = register_rows_fragments((rows, 32), 32, warpgroups)
    shared = swizzled_panels((rows, 32), 0, 32, 128)
    vector = vector_elements(fragments, shared, 32)
    assert vector == (4 if rows >= 128 * warpgroups else 2)
    assert bank_conflicts(fragments, shared, 32, vector) == 1


def test_rows_as_the_instruction_numbers_them_would_conflict() -> None:
    straight = LinearLayout(
        {
            "register": [(8, 0), (0, 4)],
            "lane": [(0, 1), (0, 2), (1, 0), (2, 0), (4, 0)],
            "warp": [(16, 0), (32, 0)],
        },
        (64, 8),
    )
    assert bank_conflicts(straight, swizzled_panels((64, 8), 0, 32, 128), 32, 1) == 2


def test_lines_of_a_matrix_lie_on_different_banks() -> None:
    offset_of = swizzled_panels((128, 128), 0, 8, 128).invert()
    for matrix in range(4):
        chunks: list[int] = []
        for lane in range(8 * matrix, 8 * matrix + 8):
            line = 0
            for bit, k in enumerate(_MATRIX_LINES):
                line ^= k if lane >> bit & 1 else 0
            assert line // 16 == matrix // 2
            chunks.append(offset_of.apply_index(dim0=0, dim1=line) // 16 % 8)
        assert sorted(chunks) == list(range(8))


def test_16_bit_operands_need_no_threads() -> None:
    with pytest.raises(LayoutError, match="16 bits"):
        tile_row_bits(128, 16, 1)

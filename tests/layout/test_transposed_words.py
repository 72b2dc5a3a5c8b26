"""Operands of 32-bit words transposed by threads: coverage, vectors and banks."""

from __future__ import annotations

import pytest

from tileiras.dialects.layout import LayoutError
from tileiras.dialects.layout.offsets import bank_conflicts, register_groups
from tileiras.dialects.layout.shared import row_major, swizzled_panels
from tileiras.dialects.layout.transposed_words import (
    CHUNK_WORDS,
    is_word_transposable,
    transposed_words,
)

SHAPES = [(8, 128), (16, 64), (32, 32), (32, 64), (32, 128), (32, 256), (64, 128), (128, 32)]


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_word_is_transposed_once(shape: tuple[int, int], warps: int) -> None:
    words = transposed_words(shape, warps)
    assert words.is_injective and words.is_surjective
    assert words.in_size("register") == shape[0] * shape[1] // (32 * warps)


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("shape", SHAPES)
def test_banks_are_read_and_written_without_conflicts(shape: tuple[int, int], warps: int) -> None:
    """Whatever the swizzle of the transposed tile, which has 8, 16 or more K in a row."""
    words = transposed_words(shape, warps)
    assert bank_conflicts(words, swizzled_panels(shape, 1, 32, 128), 32, 1) == 1
    transposed = swizzled_panels(shape, 0, 32, min(128, 4 * shape[0]))
    assert bank_conflicts(words, transposed, 32, CHUNK_WORDS) == 1
    groups = register_groups(words, transposed, CHUNK_WORDS)
    chunks = [(first, first + 1, first + 2, first + 3) for first in range(0, 4 * len(groups), 4)]
    assert [group.registers for group in groups] == chunks


def test_chunks_would_meet_without_a_swizzle() -> None:
    dense = row_major((32, 64), (0, 1))
    assert bank_conflicts(transposed_words((32, 64), 4), dense, 32, CHUNK_WORDS) == 8


@pytest.mark.parametrize(
    ("shape", "warps"), [((32, 16), 4), ((8, 64), 8), ((16, 32), 8), ((32, 8), 4)]
)
def test_tiles_without_work_for_all_warps_are_refused(shape: tuple[int, int], warps: int) -> None:
    assert not is_word_transposable(shape, warps)
    with pytest.raises(LayoutError, match="cannot transpose"):
        transposed_words(shape, warps)

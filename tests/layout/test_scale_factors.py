"""Where scales lie in a stage and in tensor memory, by the PTX ISA's "Scale factor layout"."""

from __future__ import annotations

import pytest

from tileiras.dialects.layout.scale_factors import (
    CHUNK_BYTES,
    CHUNK_COLUMNS,
    chunk_number,
    chunks,
    scale_bytes,
    scale_columns,
    scale_offset,
    scale_terms,
)
from tileiras.dialects.nv_tileas.chunks import chunk_layout


def test_a_chunk_is_32_rows_of_16_bytes() -> None:
    """Row 77 = 2 * 32 + 13: the third word of line 13; the copy brings it to column 2, lane 13."""
    assert scale_offset(77, 3, 128) == 13 * 16 + 2 * 4 + 3


def test_rows_come_before_further_blocks() -> None:
    assert [chunk_number(row, block, 256) for row, block in ((0, 0), (128, 0), (0, 4))] == [0, 1, 2]
    assert chunk_number(0, 4, 64) == 1


@pytest.mark.parametrize(("rows", "blocks"), [(128, 4), (256, 8), (64, 4), (128, 2), (16, 16)])
def test_every_scale_has_a_byte_of_its_own(rows: int, blocks: int) -> None:
    places = {scale_offset(row, block, rows) for row in range(rows) for block in range(blocks)}
    assert len(places) == rows * blocks
    assert max(places) < scale_bytes(rows, blocks) == chunks(rows, blocks) * CHUNK_BYTES


def test_columns_follow_from_chunks() -> None:
    assert scale_columns(256, 8) == 4 * CHUNK_COLUMNS
    assert scale_columns(64, 2) == CHUNK_COLUMNS


@pytest.mark.parametrize(
    ("shape", "dims"), [((128, 8), (0, 1)), ((8, 256), (1, 0)), ((1, 64, 4), (1, 2))]
)
@pytest.mark.parametrize("warps", [1, 4])
def test_threads_copy_each_word_to_its_place(
    shape: tuple[int, ...], dims: tuple[int, int], warps: int
) -> None:
    row_dim, k_dim = dims
    layout = chunk_layout(shape, k_dim, 4, warps)
    terms = scale_terms(layout, row_dim, k_dim)
    found = {
        terms.base(lane, warp) ^ register
        for warp in range(warps)
        for lane in range(32)
        for register in terms.register
    }
    rows, blocks = shape[row_dim], shape[k_dim]
    words = {scale_offset(row, k, rows) for row in range(rows) for k in range(0, blocks, 4)}
    assert found == words

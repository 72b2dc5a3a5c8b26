"""Where the scales of a block-scaled `tcgen05.mma` lie: in tensor memory, and before in a stage.

An instruction reads the scales of 128 rows of A (or columns of B) and four blocks along K from four
columns of tensor memory: row r in lane r % 32 of column r / 32, a byte for each block. All four
quarters of the lanes hold the same. PTX ISA, "Scale factor layout": "Scale factor A", "Scale factor
B", "SFA_ID", "SFB_ID".

`tcgen05.cp.32x128b.warpx4` brings 32 rows of 16 bytes there, which is one *chunk* of 512 bytes in
shared memory: byte 16 (r % 32) + 4 (r / 32) + k holds the scale of row r and block k. Chunks of all
rows come first, those of the next four blocks follow.
"""

from __future__ import annotations

from tileiras.dialects.layout.linear_layout import LinearLayout
from tileiras.dialects.layout.offsets import OffsetTerms

WORD_BLOCKS = 4
"""Blocks along K of a word: bytes of 32 bits."""
CHUNK_ROWS = 128
"""Rows of a chunk."""
CHUNK_BYTES = 512
"""What one `tcgen05.cp.32x128b` copies."""
CHUNK_COLUMNS = 4
"""Columns of tensor memory that it fills."""
GROUP_BYTES = 128
"""Eight rows of 16 bytes: a core matrix (PTX ISA, "Canonical layouts", no swizzle)."""
LANE_ROWS = 32
"""Rows of a chunk whose scales follow each other, 16 bytes apart."""
ROW_BYTES = 16
"""Of a chunk: what a lane of tensor memory gets of it."""


def row_chunks(rows: int) -> int:
    """Chunks that follow each other along the rows."""
    return -(-rows // CHUNK_ROWS)


def chunks(rows: int, blocks: int) -> int:
    """Chunks of the scales of so many rows and blocks along K."""
    return row_chunks(rows) * -(-blocks // WORD_BLOCKS)


def scale_bytes(rows: int, blocks: int) -> int:
    """Bytes of a stage for the scales of an operand."""
    return chunks(rows, blocks) * CHUNK_BYTES


def scale_columns(rows: int, blocks: int) -> int:
    """Columns of tensor memory for them."""
    return chunks(rows, blocks) * CHUNK_COLUMNS


def chunk_number(row: int, block: int, rows: int) -> int:
    """Which chunk has the scale of a row and block."""
    return block // WORD_BLOCKS * row_chunks(rows) + row // CHUNK_ROWS


def scale_offset(row: int, block: int, rows: int) -> int:
    """Bytes from the first scale of an operand of `rows` to that of a row and block."""
    within = row % CHUNK_ROWS
    place = within % LANE_ROWS * ROW_BYTES + within // LANE_ROWS * WORD_BLOCKS
    return chunk_number(row, block, rows) * CHUNK_BYTES + place + block % WORD_BLOCKS


def scale_terms(layout: LinearLayout, row_dim: int, k_dim: int) -> OffsetTerms:
    """Byte offsets in a stage of the scales that threads hold; other dims have one element."""
    rows = layout.shape[row_dim]

    def offset(at: tuple[int, ...]) -> int:
        return scale_offset(at[row_dim], at[k_dim], rows)

    steps = {name: [offset(step) for step in layout.basis(name)] for name in layout.in_dims}
    registers = [0]
    for step in steps["register"]:
        registers += [offset_ ^ step for offset_ in registers]
    return OffsetTerms(tuple(registers), tuple(steps["lane"]), tuple(steps["warp"]))

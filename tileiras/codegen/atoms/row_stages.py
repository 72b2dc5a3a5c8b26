"""Tiles whose rows are scattered, on their way through shared memory.

Behind each row there are 16 bytes more. So the eight rows that `stmatrix` writes at once lie in
different banks, and there is room to say where the row goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tileiras.codegen.atoms.matrix_tiles import MatrixTiles, plan_matrix_tiles
from tileiras.codegen.atoms.store_pieces import Held, stored_layout
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.shared import row_major

ACCESS_BYTES = 16
"""Fixed: what a thread moves at once (PTX ISA, "st", vectors of 128 bits)."""
MOST_ROW_BYTES = 512
"""Fixed: a warp stores a row at once, or several."""
MOST_STAGED = 36 * 1024
"""Policy: shared memory for a tile on its way out; larger ones go in parts of fewer columns."""
LANES = 32


@dataclass(frozen=True)
class RowStage:
    """Shared memory for `rows` of `columns`, which are one of the `parts` of a tile.

    `layout` is how threads hold a part, `tiles` how it is written where rows are not apart.
    """

    rows: int
    columns: int
    parts: int
    element_bytes: int
    layout: LinearLayout
    tiles: MatrixTiles

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of a part."""
        return self.columns * self.element_bytes

    @property
    def pitch(self) -> int:
        """Bytes from a row to the next."""
        return self.row_bytes + ACCESS_BYTES

    @property
    def bytes(self) -> int:
        """Shared memory of a part."""
        return self.rows * self.pitch

    def spread(self, offset: int) -> int:
        """Where an offset of rows that are not apart lies."""
        return offset + offset // self.row_bytes * ACCESS_BYTES


def row_stage(
    shape: Sequence[int], warpgroups: int, element_bits: int, *, transposed: bool
) -> RowStage | None:
    """How a tile that a product leaves in registers is staged; None where `stmatrix` cannot."""
    rows, columns = shape
    size, held = element_bits // 8, Held.COLUMNS if transposed else Held.ROWS
    parts = 1
    while rows * (columns // parts * size + ACCESS_BYTES) > MOST_STAGED:
        parts *= 2
    # Of a transposed product each warpgroup has columns of its own.
    row_bytes = columns // parts * size
    if (parts > 1 and transposed) or row_bytes % ACCESS_BYTES or row_bytes > MOST_ROW_BYTES:
        return None
    part = (rows, columns // parts)
    layout = stored_layout(part, warpgroups, held)
    tiles = plan_matrix_tiles(layout, row_major(part, (1, 0)), element_bits)
    if tiles is None or any(offset & tiles.thread_mask for offset in tiles.offsets):
        return None
    return RowStage(*part, parts, size, layout, tiles)


def stage_of_layout(layout: LinearLayout, warpgroups: int, element_bits: int) -> RowStage | None:
    """The same of a tile whose layout says whether its product is transposed."""
    held = Held.COLUMNS if layout == stored_layout(layout.shape, warpgroups, Held.COLUMNS) else None
    return row_stage(layout.shape, warpgroups, element_bits, transposed=held is not None)


def rows_layout(shape: Sequence[int], chunk: int, warps: int) -> LinearLayout | None:
    """Where threads hold the first element of every chunk of a row: a row in each thread.

    None where there are more rows than threads.
    """
    rows, columns = shape
    count, warp_bits = rows.bit_length() - 1, warps.bit_length() - 1
    across = [(1 << bit, 0) for bit in range(count)]
    lane_bits = LANES.bit_length() - 1
    if count > lane_bits + warp_bits:
        return None
    apart = [*across, *[(0, 0)] * (lane_bits + warp_bits - count)]
    first = chunk.bit_length() - 1
    bases = {
        "register": [(0, 1 << bit) for bit in range(first, columns.bit_length() - 1)],
        "lane": apart[:lane_bits],
        "warp": apart[lane_bits:],
    }
    return LinearLayout(bases, tuple(shape))

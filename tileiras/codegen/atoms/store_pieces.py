"""Pieces in which a warpgroup's rows of a tile leave by TMA, through shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.codegen.atoms.shared_operands import SWIZZLE_BYTES
from tileiras.codegen.atoms.wgmma import ROWS
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.mma import wgmma_accumulator

PIECE_BYTES = ROWS * SWIZZLE_BYTES
"""The rows of one wgmma by the widest swizzle span: tiles with shorter rows have smaller pieces."""
BUFFERS = 2
"""Pieces of a warpgroup in memory of their own: one is written while TMA reads the other."""


def store_bytes(warpgroups: int) -> int:
    """Shared memory for tiles on their way out."""
    return warpgroups * BUFFERS * PIECE_BYTES


def stored_layout(shape: Sequence[int], warpgroups: int, transposed: bool) -> LinearLayout:
    """Where the threads hold a tile from which pieces are cut: as a product leaves it."""
    rows, columns = shape[-2:]
    if transposed:
        matrix = wgmma_accumulator((columns, rows), warpgroups).permute((1, 0))
    else:
        matrix = wgmma_accumulator((rows, columns), warpgroups)
    return matrix.reshape(tuple(shape))

"""Pieces in which a warpgroup's rows of a tile leave by TMA, through shared memory."""

from __future__ import annotations

from tileiras.codegen.atoms.shared_operands import SWIZZLE_BYTES
from tileiras.codegen.atoms.wgmma import ROWS

PIECE_BYTES = ROWS * SWIZZLE_BYTES
"""The rows of one wgmma by the widest swizzle span: tiles with shorter rows have smaller pieces."""
BUFFERS = 2
"""Pieces of a warpgroup in memory of their own: one is written while TMA reads the other."""


def store_bytes(warpgroups: int) -> int:
    """Shared memory for tiles on their way out."""
    return warpgroups * BUFFERS * PIECE_BYTES

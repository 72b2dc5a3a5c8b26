"""Shared memory that operations need beside the pipelines of a specialised kernel.

Operations need it for a moment, one after another, so a kernel needs the largest of the needs. A
change of layout takes the whole tile if there is room, and goes in rounds if not: it counts
with at most `ROUND_BYTES`. Scalars are the same in all threads and need nothing, except what one
thread finds out and tells the others.
"""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.exchange import CELL_BYTES
from tileiras.dialects.nv_tileaa.memory import (
    LoadBase,
    StoreBase,
    TiledLoadBase,
    TiledStoreBase,
)
from tileiras.dialects.nv_tileaa.storage import storage_bytes, value_bytes
from tileiras.dialects.nv_tileas.encoding import layout_of

ALIGNMENT = 128
"""Policy: bytes; a region of shared memory starts and ends at such a multiple."""
ROUND_BYTES = 32 * 1024
"""Policy: what a change of layout should get: a tile of 128x128 f32 takes two rounds of it."""
LEAST_ROUND_BYTES = 4096
"""Policy: a round of less would move too little at a time."""
WARP_THREADS = 32
"""Fixed: threads of a warp (PTX ISA)."""
MAX_WARPS = 8
"""Policy: warps that compute in a specialised kernel: each has its partial result of a reduction.
"""

_MOVING = (
    aa.CatOp,
    aa.ExtractOp,
    aa.InsertOp,
    aa.PackOp,
    aa.PermuteOp,
    aa.ReshapeOp,
    aa.ScanOp,
    aa.UnpackOp,
    aa.TiledAtomicRedOp,
    LoadBase,
    StoreBase,
    TiledLoadBase,
    TiledStoreBase,
)
"""Operations with a layout of their own, which their tiles have to be brought into or out of."""
_IN_ROUNDS = (
    aa.PermuteOp,
    aa.ReshapeOp,
    aa.TiledAtomicRedOp,
    LoadBase,
    StoreBase,
    TiledLoadBase,
    TiledStoreBase,
)
"""Those of them for which little memory is enough."""
_CALLING = (aa.AllocaOp, aa.AssertOp, aa.PrintOp)
"""Operations that call the device runtime, or keep shared memory for as long as the kernel runs."""


def scratch_bytes(op: Operation) -> int:
    """Bytes of shared memory that one execution of an operation should get, 0 for most."""
    match op:
        case aa.AtomicRMWOp() | aa.AtomicCASOp():
            size = value_bytes(op.result) if op.result.first_use is not None else 0
        case aa.ReduceOp():
            size = sum(MAX_WARPS * value_bytes(result) for result in op.results)
        case _ if isinstance(op, _MOVING):
            values = (*op.operands, *op.results)
            tiles = (value for value in values if isinstance(value.type, TensorType))
            size = min(ROUND_BYTES, max(map(value_bytes, tiles), default=0))
        case _:
            size = 0
    return -(-size // ALIGNMENT) * ALIGNMENT


def least_bytes(op: Operation) -> int:
    """Bytes that an operation needs at once, where `scratch_bytes` says what it should get.

    What only changes layouts goes in rounds.
    """
    wanted = scratch_bytes(op)
    return min(wanted, LEAST_ROUND_BYTES) if isinstance(op, _IN_ROUNDS) else wanted


def sent_bytes(op: aa.ShareTilesOp, warps: int, ctas: int) -> int:
    """Shared memory of the CTA that gets the tiles of all `ctas`, once they have layouts."""
    cells = 0
    for tile in op.tiles:
        layout = layout_of(tile.type)
        registers = layout.in_size("register") if layout is not None else 1
        element = tile.type.element_type if isinstance(tile.type, TensorType) else tile.type
        cells += -(-registers * storage_bytes(element) // CELL_BYTES)
    return cells * CELL_BYTES * WARP_THREADS * warps * ctas


def calls_runtime(op: Operation) -> bool:
    """Whether an operation wants more than room: a call ends what `setmaxnreg` promises ptxas."""
    return isinstance(op, _CALLING)

"""Buffers through which tiles leave by a warp of their own: how large they are, and how many."""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr, TensorType
from xdsl.ir import Block, SSAValue

from tileiras.codegen.atoms.shared_operands import widest_swizzle
from tileiras.codegen.atoms.store_pieces import BUFFERS, PIECE_BYTES
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import tma_stores as ts
from tileiras.errors import InternalError
from tileiras.planning.resources.cta import ROWS_PER_WARPGROUP, STAGE_BARRIER_BYTES

PASS_NAME = "tileas-optimize-alloc-tensor"
WARPS_PER_WARPGROUP = 4


def choose_store_buffers(func: aa.FuncOp, switch: pl.AgentSwitchOp, free: int) -> None:
    """Room for all that consumers store at once, if `free` bytes hold it beside what is taken.

    Then a stage is a whole tile: one wait and one arrival for it. Otherwise stages are single
    pieces, as many as there is room for; a power of two, as the pieces of a tile are, so that which
    stage is next needs no register.
    """
    warpgroups = switch.consumer_warps.data // WARPS_PER_WARPGROUP
    tiles = _staged_at_once(switch.consumer.block, warpgroups)
    largest, together = max(tiles), sum(tiles)
    of_all = warpgroups * (PIECE_BYTES + STAGE_BARRIER_BYTES)
    room = BUFFERS + max(0, free) // of_all
    pieces, stages = 1, max(BUFFERS, min(room, together))
    if largest * len(tiles) <= room:
        pieces, stages = largest, len(tiles)
    for maker in func.body.block.ops:
        if isinstance(maker, ts.CreateStorePipelineOp):
            maker.properties["pieces"] = IntAttr(pieces)
            maker.properties["stages"] = IntAttr(1 << (stages.bit_length() - 1))


def _staged_at_once(block: Block, warpgroups: int) -> list[int]:
    """Pieces of a warpgroup of each tile that is staged between two loops, where most are."""
    most: list[int] = []
    own: list[int] = []
    for op in block.ops:
        if isinstance(op, ts.StageForTmaStoreOp):
            own.append(tile_pieces(op.value, warpgroups))
            continue
        inner = [_staged_at_once(b, warpgroups) for region in op.regions for b in region.blocks]
        found = max(inner, key=sum, default=[])
        if isinstance(op, aa.IfOp):
            own += found
        else:
            most = max(most, found, key=sum)
    return max(most, own, key=sum)


def tile_pieces(value: SSAValue, warpgroups: int) -> int:
    """The pieces that a warpgroup holds of a tile."""
    if not isinstance(value.type, TensorType):
        raise InternalError("a store of no tile", where=PASS_NAME)
    rows, columns = value.type.get_shape()[-2:]
    row = columns * storage_bytes(value.type.element_type)
    swizzle = widest_swizzle(row)
    if swizzle is None:
        raise InternalError("a store of rows without a swizzle", where=PASS_NAME)
    return rows * (row // swizzle) // (ROWS_PER_WARPGROUP * warpgroups)

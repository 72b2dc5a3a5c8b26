"""Tiles that leave by TMA: from a product's registers, in pieces, past the threads.

A piece (`tile_pieces`) has several buffers; before one is written again, TMA has read it. The first
thread of a warpgroup issues its copies and is the one that can wait for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from tileiras.codegen.atoms.reductions import tma_reduction
from tileiras.codegen.atoms.store_pieces import BUFFERS, piece_bytes
from tileiras.codegen.atoms.wgmma import ROWS, WARPGROUP
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.pipelines import RoleState
from tileiras.codegen.lowering.tile_pieces import cut_tile, warpgroup_number
from tileiras.codegen.lowering.tma import tma_dims
from tileiras.codegen.lowering.types import storage_bits
from tileiras.dialects.layout.tmem import BLOCK_ROWS
from tileiras.dialects.llvm.types import GLOBAL, integer_type, pointer_type
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import tma_stores as ts
from tileiras.errors import InternalError


@dataclass(frozen=True)
class Buffers:
    """Where the pieces of this thread's warpgroup lie, one behind the other."""

    base: SSAValue
    count: int


def lower_tma_store(ctx: KernelLowering, op: ts.TmaStoreOp) -> None:
    """All pieces of a tile, one after another."""
    bits = storage_bits(view_type_of(op.view).memref.element_type)
    tile = cut_tile(ctx.layout(op.value.type), ctx.num_warps // 4, bits)
    pieces = tile.pieces
    leader = _leader(ctx)
    target = _acquired_map(ctx, op, leader)
    # All earlier copies are complete: the stores of a thread keep their order.
    ctx.b.tma_store_wait(0)
    ctx.b.barrier()
    buffers, size = _buffers(ctx, op, len(pieces)), piece_bytes(_rows(ctx))
    reduction = store_reduction(op)
    for number, piece in enumerate(pieces):
        source = ctx.b.gep(buffers.base, number % buffers.count * size)
        tile.write(ctx, ctx.value(op.value), piece, source)
        ctx.b.fence_proxy_async()
        if number + 1 < len(pieces) and number + 2 > buffers.count:
            ctx.b.tma_store_wait(buffers.count - 2, read=True)
        ctx.b.barrier()
        starts = tile_starts(ctx, op)
        place = tile.place(ctx.b, piece, warpgroup_number(ctx))
        coordinates = piece_coordinates(ctx, op.view, starts, place)
        ctx.b.tma_store(target, coordinates, source, reduction=reduction, predicate=leader)
        ctx.b.tma_store_commit()
    if ctx.roles.freed or not op.delayed.data:
        ctx.b.tma_store_wait(0, read=True)
    ctx.scratch.unknown()


def store_reduction(op: ts.TmaStoreOp | ts.StoreStageOp) -> str | None:
    """How TMA combines the elements with those in memory; None if it overwrites them."""
    if op.reduction is None:
        return None
    name = tma_reduction(op.reduction.data, view_type_of(op.view).memref.element_type)
    if name is None:
        raise InternalError("TMA has no such reduction", where="tma_stores")
    return name


def finish_stores(ctx: KernelLowering, maps: RoleState.Maps) -> None:
    """Waits until all copies are complete, then gives the tensor maps back.

    The producer does not need them: all stages that it has filled have been read.
    """
    b = ctx.b
    if maps.ready is not None:
        b.mbarrier_wait(maps.ready, b.i32(0))
    b.tma_store_wait(0)
    b.barrier()
    slot = b.load(maps.place, pointer_type(GLOBAL), 8)
    b.release_tensor_maps(maps.table, slot, b.icmp("eq", b.thread_id(), b.i32(0)))


def give_maps_back(ctx: KernelLowering, maps: RoleState.Maps) -> None:
    """The store warp, whose copies are complete, waits until the producer's have landed."""
    b = ctx.b
    if maps.done is None:
        raise InternalError("nobody tells when the producer is done", where="tma_stores")
    b.mbarrier_wait(maps.done, b.i32(0))
    slot = b.load(maps.place, pointer_type(GLOBAL), 8)
    b.release_tensor_maps(maps.table, slot, ctx.roles.elected(ctx))


def _rows(ctx: KernelLowering) -> int:
    """Rows of a piece, at most."""
    return ROWS if ctx.roles.tensor_memory is None else BLOCK_ROWS


def _leader(ctx: KernelLowering) -> SSAValue:
    """i1: whether this is the first thread of its warpgroup."""
    b = ctx.b
    return b.icmp("eq", b.and_(b.thread_id(), b.i32(WARPGROUP - 1)), b.i32(0))


def _acquired_map(ctx: KernelLowering, op: ts.TmaStoreOp, leader: SSAValue) -> SSAValue:
    """The tensor map, once the producer has made it."""
    b, maps = ctx.b, ctx.roles.maps
    if maps is None or maps.ready is None:
        raise InternalError("a store without a tensor map", where="tma_stores")
    slot = b.load(maps.place, pointer_type(GLOBAL), 8)
    pointer = b.tensor_map(slot, maps.store_maps[op.tensor_map])
    b.mbarrier_wait(maps.ready, b.i32(0))
    issuing, after = b.new_block(), b.new_block()
    b.cond_br(leader, issuing, after)
    b.at(issuing)
    b.acquire_tensor_map(pointer)
    b.br(after)
    b.at(after)
    return pointer


def _buffers(ctx: KernelLowering, op: ts.TmaStoreOp, pieces: int) -> Buffers:
    """Stages that are free, or memory of their own."""
    b, warpgroups, size = ctx.b, ctx.num_warps // 4, piece_bytes(_rows(ctx))
    if op.buffers is None:
        raise InternalError("a store has no buffers", where="tma_stores")
    if isinstance(op.buffers.type, pl.PipelineType):
        freed = ctx.roles.pipeline(op.buffers)
        base = freed.storage
        count = min(pieces, freed.stages * freed.stage_bytes // (warpgroups * size))
    else:
        base, count = ctx.value(op.buffers), BUFFERS
    if warpgroups > 1:
        offset = b.mul(warpgroup_number(ctx), b.i32(count * size))
        base = b.gep(base, b.zext(offset, integer_type(64)))
    return Buffers(base, count)


def tile_starts(ctx: KernelLowering, op: ts.TmaStoreOp | ts.StoreStageOp) -> Sequence[SSAValue]:
    """Where the tile goes, in elements along its dims."""
    b, type = ctx.b, view_type_of(op.view)
    return [
        b.mul(b.int_cast(ctx.value(index), i32), b.i32(step))
        for index, step in zip(op.indices, type.steps, strict=True)
    ]


def piece_coordinates(
    ctx: KernelLowering,
    view: SSAValue,
    tile: Sequence[SSAValue],
    place: tuple[SSAValue, SSAValue],
) -> Sequence[SSAValue]:
    """Where the piece at a place of a tile goes, the fastest dim first."""
    b, starts, rank = ctx.b, list(tile), len(tile)
    starts[rank - 2] = b.add(starts[rank - 2], place[0])
    starts[rank - 1] = b.add(starts[rank - 1], place[1])
    return [starts[dim] for dim in tma_dims(view_type_of(view), rank - 1)]

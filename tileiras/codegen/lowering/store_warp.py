"""Tiles that consumers stage in shared memory, and the warp that has TMA store them.

Each consumer warpgroup has a circular buffer of stages of its own, so that none waits for another
one. Every warp writes its part of a stage, makes it known to the asynchronous proxy and arrives at
the stage's full mbarrier. The store warp, one warp of which one thread issues the copies, hands a
stage back when TMA has read it; consumers wait for that before they write there again, and for
nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue

from tileiras.codegen.atoms.store_pieces import Held, held_layout, piece_bytes
from tileiras.codegen.atoms.wgmma import ROWS, WARPGROUP
from tileiras.codegen.lowering.barrier_makers import BarrierMakers
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.pipelines import BARRIER_BYTES, RoleState, StorePipeline, Variable
from tileiras.codegen.lowering.tensor_maps import make_own_store_maps
from tileiras.codegen.lowering.tile_pieces import CutTile, Piece, cut_tile, warpgroup_number
from tileiras.codegen.lowering.tma_stores import (
    piece_coordinates,
    store_reduction,
    tile_starts,
)
from tileiras.codegen.lowering.types import storage_bits
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.llvm.types import GLOBAL, pointer_type
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.dialects.nv_tileas import tma_stores as ts
from tileiras.errors import InternalError

WARPS = WARPGROUP // 32
"""Warps that fill a stage together: so many arrivals make it full."""


def lower_create_store_pipeline(ctx: KernelLowering, op: Operation) -> None:
    """Makes the barriers of all warpgroups' stages, which lie in the operation's buffers."""
    if not isinstance(op, ts.CreateStorePipelineOp) or op.buffers is None:
        raise InternalError("the rule of create_store_pipeline got another operation")
    warpgroups, stages, pieces = ctx.num_warps // WARPS, op.stages.data, op.pieces.data
    total, size = warpgroups * stages, piece_bytes(op.rows.data if op.rows is not None else ROWS)
    mbarriers = ctx.shared_variable("store_barriers", 2 * total * BARRIER_BYTES, BARRIER_BYTES)
    ctx.scratch.reserve(mbarriers.size.data)
    memory, barriers = ctx.value(op.buffers), ctx.prologue.address_of(mbarriers)
    tiles = [
        use.operation for use in op.result.uses if isinstance(use.operation, ts.StageForTmaStoreOp)
    ]
    contents = [-(-len(_cut(ctx, tile).pieces) // pieces) for tile in tiles]
    stage = Variable(ctx, 0) if any(count % stages for count in contents) else None
    ctx.roles.store_pipelines[op.result] = StorePipeline(
        memory, barriers, stages, pieces, size, warpgroups, Variable(ctx, 0), stage
    )


def init_barriers(ctx: KernelLowering, makers: BarrierMakers) -> None:
    """Makes the mbarriers of the stages, by one thread or by one of each of several warps."""
    b = ctx.b
    for pipeline in ctx.roles.store_pipelines.values():
        for stage in makers.share(pipeline.all_stages):
            with ctx.where(stage.exists):
                b.mbarrier_init(pipeline.full_barrier(b, stage.number), WARPS)
                b.mbarrier_init(pipeline.empty_barrier(b, stage.number), 1)


def lower_stage_for_tma_store(ctx: KernelLowering, op: Operation) -> None:
    """Writes a warpgroup's pieces of a tile, stage by stage, each once TMA has read what was there.

    Warps of a warpgroup do not wait for each other, only for the store warp.
    """
    if not isinstance(op, ts.StageForTmaStoreOp) or not isinstance(op.value.type, TensorType):
        raise InternalError("the rule of stage_for_tma_store got another operation")
    b, pipeline = ctx.b, ctx.roles.store_pipeline(op.pipeline)
    tile = _cut(ctx, op)
    group = warpgroup_number(ctx) if pipeline.warpgroups > 1 else 0
    first = b.icmp("eq", b.and_(b.thread_id(), b.i32(31)), b.i32(0))
    for turn, content in enumerate(_contents(tile.pieces, pipeline)):
        number = pipeline.number(b, pipeline.next_stage(b, turn), group)
        b.mbarrier_wait(pipeline.empty_barrier(b, number), b.xor(pipeline.parity.get(b), b.i32(1)))
        address = pipeline.stage_address(b, number)
        for position, piece in enumerate(content):
            place = b.gep(address, position * pipeline.piece_bytes)
            tile.write(ctx, ctx.value(op.value), piece, place)
        b.fence_proxy_async()
        b.warp_barrier()
        b.mbarrier_arrive(pipeline.full_barrier(b, number), predicate=first)
        pipeline.advance(b, turn)


def _cut(ctx: KernelLowering, op: ts.StageForTmaStoreOp) -> CutTile:
    """The pieces of a staged tile."""
    if not isinstance(op.value.type, TensorType):
        raise InternalError("no tile is staged", where="store_warp")
    bits = storage_bits(op.value.type.element_type)
    return cut_tile(ctx.layout(op.value.type), ctx.num_warps // WARPS, bits)


def _contents(pieces: Sequence[Piece], pipeline: StorePipeline) -> Iterator[Sequence[Piece]]:
    """The pieces of a warpgroup, those of a stage together."""
    for start in range(0, len(pieces), pipeline.pieces):
        yield pieces[start : start + pipeline.pieces]


def start_store_warp(ctx: KernelLowering, program: Block) -> None:
    """Meets the others, then waits until the producer has made the tensor maps that it makes.

    Those that it makes itself it makes in front of the loop with all stores of its program.
    """
    b, maps = ctx.b, ctx.roles.maps
    if ctx.roles.own_store_maps is not None:
        ctx.roles.meet(ctx)
        ctx.roles.store_loop = _store_loop(program)
        if ctx.roles.store_loop is None:
            make_own_store_maps(ctx, ctx.roles.own_store_maps)
        return
    if maps is None or maps.ready is None:
        raise InternalError("a store warp without tensor maps", where="store_warp")
    ctx.roles.meet(ctx)
    address = maps.store_pointer = b.load(maps.place, pointer_type(GLOBAL), 8)
    if maps.store_maps:
        b.mbarrier_wait(maps.ready, b.i32(0))
    for maker, number in maps.store_maps.items():
        ctx.values[maker] = b.tensor_map(address, number)
        b.acquire_tensor_map(ctx.values[maker])


def _store_loop(program: Block) -> aa.ForOp | None:
    """The loop with all stores of a store warp's program, which it has only then."""
    loops = [op for op in program.ops if isinstance(op, aa.ForOp)]
    stores = [op for op in program.walk() if isinstance(op, ts.StoreStageOp)]
    if len(loops) != 1 or not all(loops[0].is_ancestor(store) for store in stores):
        return None
    return loops[0]


def start_store_loop(ctx: KernelLowering, loop: aa.ForOp) -> None:
    """The store warp makes its tensor maps, or is done where there is no iteration.

    The fence that acquires a map stops the copies of the whole SM until the map is there, those of
    the producer's first tiles, too.
    """
    if loop is not ctx.roles.store_loop or ctx.roles.own_store_maps is None:
        return
    b = ctx.b
    storing, done = b.new_block(), b.new_block()
    predicate = "ult" if loop.unsigned_cmp is not None else "slt"
    bounds = (ctx.value(loop.lower_bound), ctx.value(loop.upper_bound))
    b.cond_br(b.icmp(predicate, *bounds), storing, done)
    ctx.start_block(done)
    b.ret()
    ctx.start_block(storing)
    make_own_store_maps(ctx, ctx.roles.own_store_maps)


def lower_store_stage(ctx: KernelLowering, op: ts.StoreStageOp) -> None:
    """Issues the copies of a tile's stages, one stage of every warpgroup after another.

    Stages are handed back as late as the pipeline allows without anyone waiting for it, so that as
    many copies as possible are under way, and all of them at the end of the tile.
    """
    b, pipeline, type = ctx.b, ctx.roles.store_pipeline(op.pipeline), view_type_of(op.view)
    layout = held_layout(type.tile_shape, pipeline.warpgroups, _held(op))
    tile = cut_tile(layout, pipeline.warpgroups, storage_bits(type.memref.element_type))
    reduction, leader = store_reduction(op), ctx.roles.elected(ctx)
    starts, target = tile_starts(ctx, op), ctx.value(op.tensor_map)
    # All earlier copies are complete: stores keep their order.
    b.tma_store_wait(0)
    under_way: list[SSAValue] = []
    for turn, content in enumerate(_contents(tile.pieces, pipeline)):
        stage, parity = pipeline.next_stage(b, turn), pipeline.parity.get(b)
        for group in range(pipeline.warpgroups):
            number = pipeline.number(b, stage, group)
            b.mbarrier_wait(pipeline.full_barrier(b, number), parity)
            address = pipeline.stage_address(b, number)
            for position, piece in enumerate(content):
                place = tile.place(b, piece, group)
                coordinates = piece_coordinates(ctx, op.view, starts, place)
                source = b.gep(address, position * pipeline.piece_bytes)
                b.tma_store(target, coordinates, source, reduction=reduction, predicate=leader)
            b.tma_store_commit()
        under_way.append(stage)
        pipeline.advance(b, turn)
        if len(under_way) == pipeline.stages:
            _hand_back(ctx, pipeline, under_way, leader)
    while under_way:
        _hand_back(ctx, pipeline, under_way, leader)


def _held(op: ts.StoreStageOp) -> Held:
    """How warpgroups have shared a tile out."""
    if op.lanes is not None:
        return Held.LANES
    return Held.ROWS if op.transposed is None else Held.COLUMNS


def _hand_back(
    ctx: KernelLowering, pipeline: StorePipeline, under_way: list[SSAValue], leader: SSAValue
) -> None:
    """Waits until TMA has read the oldest stages under way; their warpgroups may write there."""
    b, stage = ctx.b, under_way.pop(0)
    b.tma_store_wait(len(under_way) * pipeline.warpgroups, read=True)
    for group in range(pipeline.warpgroups):
        empty = pipeline.empty_barrier(b, pipeline.number(b, stage, group))
        b.mbarrier_arrive(empty, predicate=leader)


def lower_store_tail(ctx: KernelLowering, op: Operation) -> None:
    """Waits until all copies are complete; where no slot may be in use until all are read."""
    own = ctx.roles.own_store_maps
    ctx.b.tma_store_wait(0, read=own is not None and own.table.keeps)


def give_own_maps_back(ctx: KernelLowering, maps: RoleState.Maps) -> None:
    """Releases the slot of a store warp's own maps, when all copies are complete."""
    b = ctx.b
    if maps.store_pointer is None:
        raise InternalError("a store warp has made no tensor maps", where="store_warp")
    if not maps.table.keeps:
        b.release_tensor_maps(maps.table, maps.store_pointer, ctx.roles.elected(ctx))
        return
    held, done = b.new_block(), b.new_block()
    b.cond_br(b.is_tensor_map_slot(maps.table, maps.store_pointer), held, done)
    ctx.start_block(held)
    b.tma_store_wait(0)
    b.release_tensor_maps(maps.table, maps.store_pointer, ctx.roles.elected(ctx))
    b.br(done)
    ctx.start_block(done)

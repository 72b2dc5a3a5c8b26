"""The producer's operations: tensor maps, waiting for empty stages, copies into them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.codegen.atoms.element_names import tensor_map_element
from tileiras.codegen.atoms.tma_boxes import boxes
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.pipelines import MOST_UNROLLED_STAGES
from tileiras.codegen.lowering.tensors import cluster_rank
from tileiras.codegen.target import Feature
from tileiras.dialects.cuda_tile.types import DYNAMIC
from tileiras.dialects.llvm.types import integer_type
from tileiras.dialects.nv_tileaa.types import TiledViewType
from tileiras.dialects.nv_tileaa.views import half_of, view_type_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.errors import InternalError


def tma_dims(type: TiledViewType, axis: int) -> list[int]:
    """Tile dims in the order of a tensor map: `axis` first, then from the last to the first."""
    rest = [dim for dim in reversed(range(len(type.tile_shape))) if dim != axis]
    return [axis, *rest]


def element_name(element: Attribute) -> str:
    """What a tensor map calls an element type."""
    name = tensor_map_element(element)
    if name is None:
        raise InternalError(f"no tensor map element for {element}", where="tma")
    return name


def map_maker(map: SSAValue) -> pl.MakeTensorMapOp:
    """The operation that makes a tensor map, and says what it is for."""
    maker = map.owner
    if not isinstance(maker, pl.MakeTensorMapOp):
        raise InternalError("a tensor map has no maker", where="tma")
    return maker


def view_operand(
    ctx: KernelLowering, statics: Sequence[int], dynamic: Sequence[SSAValue], dim: int
) -> SSAValue:
    """A size or stride in elements."""
    if statics[dim] != DYNAMIC:
        return ctx.b.i64(statics[dim])
    return ctx.value(dynamic[sum(value == DYNAMIC for value in statics[:dim])])


def lower_producer_acquire(ctx: KernelLowering, op: pl.ProducerAcquireOp) -> None:
    """Waits until the stage has been handed back, then announces what TMA will bring."""
    pipeline = ctx.roles.pipeline(op.pipeline)
    b = ctx.b
    stage, parity = pipeline.position(ctx)
    current = stage.get(b)
    b.mbarrier_wait(pipeline.empty_barrier(b, current), b.xor(parity.get(b), b.i32(1)))
    elected = ctx.roles.elected(ctx)
    full = pipeline.full_barrier(b, current)
    if op.bytes.data:
        b.mbarrier_expect_tx(full, op.bytes.data, elected, _skipped(ctx, op))
    else:
        b.mbarrier_arrive(full, predicate=elected)


def _skipped(ctx: KernelLowering, op: pl.ProducerAcquireOp) -> SSAValue | None:
    """Bytes that do not come, by the conditions; None if all do."""
    total: SSAValue | None = None
    sizes = op.skipped.data if op.skipped is not None else ()
    for condition, size in zip(op.conditions, sizes, strict=True):
        bytes = ctx.b.select(ctx.value(condition), ctx.b.i32(size), ctx.b.i32(0))
        total = bytes if total is None else ctx.b.add(total, bytes)
    return total


def lower_producer_commit(ctx: KernelLowering, op: Operation) -> None:
    """On to the next stage; threads that copy arrive at this one when their copies have landed."""
    pipeline = ctx.roles.pipeline(op.operands[0])
    if ctx.roles.is_transposer:
        stage, _ = pipeline.position(ctx)
        ctx.b.mbarrier_arrive(pipeline.full_barrier(ctx.b, stage.get(ctx.b)))
    elif pipeline.gather_threads:
        stage, _ = pipeline.position(ctx)
        ctx.b.mbarrier_arrive_copies(pipeline.full_barrier(ctx.b, stage.get(ctx.b)))
    pipeline.advance(ctx)


def lower_producer_tail(ctx: KernelLowering, op: pl.ProducerTailOp) -> None:
    """Waits until all copies have landed, so that the tensor maps may be given up."""
    wait_for_copies(ctx, op.pipeline, handed_back=op.handed_back is not None)


def wait_for_copies(ctx: KernelLowering, value: SSAValue, *, handed_back: bool = False) -> None:
    """Waits until all copies into a pipeline have landed; the position stays.

    Not until the stages are handed back, unless asked: what the producer has to do then would keep
    the CTA, which is about to end, from making room for the next one. Where CTAs share a pipeline
    it is: then no other CTA reaches into this one any more, nor do products of another one read it.
    """
    pipeline = ctx.roles.pipeline(value)
    b = ctx.b
    stage, parity = pipeline.position(ctx)
    before = parity.get(b)

    def wait() -> None:
        # The phase of the last contents; one that is over already where there was none.
        current = stage.get(b)
        barrier = pipeline.full_barrier(b, current)
        if handed_back or pipeline.is_shared or pipeline.is_paired:
            barrier = pipeline.empty_barrier(b, current)
        b.mbarrier_wait(barrier, b.xor(parity.get(b), b.i32(1)))
        pipeline.advance(ctx)

    if pipeline.stages <= MOST_UNROLLED_STAGES:
        for _ in range(pipeline.stages):
            wait()
    else:
        head, done = b.new_block([i32]), b.new_block()
        b.br(head, [b.i32(1)])
        b.at(head)
        wait()
        following = b.add(head.args[0], b.i32(1))
        is_last = b.icmp("eq", head.args[0], b.i32(pipeline.stages))
        b.cond_br(is_last, done, head, (), [following], no_unroll=True)
        ctx.start_block(done)
    parity.set(b, before)


def lower_tma_load(ctx: KernelLowering, op: pl.TmaLoadOp) -> None:
    """A copy per box. Boxes of a tile that is the same in all CTAs of the cluster are divided."""
    b, type = ctx.b, view_type_of(op.view)
    if op.halved is not None:
        type = half_of(type, op.halved.data)
    pipeline = ctx.roles.pipeline(op.pipeline)
    axis = op.axis.data
    stage, _ = pipeline.position(ctx)
    current = stage.get(b)
    target = b.gep(pipeline.stage_address(b, current), op.offset.data)
    barrier = pipeline.full_barrier(b, current)
    tile = [
        b.mul(b.int_cast(ctx.value(index), i32), b.i32(step))
        for index, step in zip(op.indices, type.steps, strict=True)
    ]
    if op.halved is not None:
        dim = op.halved.data
        half = b.and_(cluster_rank(ctx), b.i32(1))
        tile[dim] = b.add(tile[dim], b.mul(half, b.i32(type.tile_shape[dim])))
    maker = map_maker(op.tensor_map)
    extents = tuple(maker.box.data[dim] for dim in type.dim_map)
    order = tma_dims(type, axis)
    pieces = boxes(type, axis, extents)
    for number, box in enumerate(pieces):
        starts = [b.add(start, b.i32(by)) if by else start for start, by in zip(tile, box.starts)]
        predicate, mask = ctx.roles.elected(ctx), None
        if op.skip_if is not None:
            predicate = b.and_(predicate, b.xor(ctx.value(op.skip_if), b.i1(True)))
        if op.multicast_if is not None:
            same, apart = ctx.value(op.multicast_if), op.rank_bits
            owner = number * op.sharers(ctx.cluster_size) // len(pieces)
            if op.row_size is None:
                predicate, mask = _shared_copy(ctx, same, owner, predicate, apart)
            else:
                predicate, mask = _row_copy(ctx, ctx.value(op.row_size), owner, predicate)
        b.tma_load(
            b.gep(target, box.offset),
            ctx.value(op.tensor_map),
            [starts[dim] for dim in order],
            barrier,
            multicast=mask,
            predicate=predicate,
            own_cta=mask is None and ctx.target.has(Feature.TMA_TO_OWN_CTA),
        )


def _shared_copy(
    ctx: KernelLowering, same: SSAValue, owner: int, elected: SSAValue, apart: int
) -> tuple[SSAValue, SSAValue]:
    """Whether this thread issues a copy that is CTA `owner`'s if shared, and for which CTAs.

    Those share whose ranks agree in the bits `apart`; the owner is a number among them.
    """
    b, rank = ctx.b, cluster_rank(ctx)
    is_owner = b.icmp("eq", _number_among(ctx, rank, apart), b.i32(owner))
    issues = b.and_(elected, b.or_(is_owner, b.xor(same, b.i1(True))))
    alone = b.shl(b.i32(1), rank)
    first = sum(1 << other for other in range(ctx.cluster_size) if not other & apart)
    everyone = b.i32(first)
    if apart:
        everyone = b.shl(everyone, b.and_(rank, b.i32(apart)))
    return issues, b.trunc(b.select(same, everyone, alone), integer_type(16))


def _row_copy(
    ctx: KernelLowering, size: SSAValue, owner: int, elected: SSAValue
) -> tuple[SSAValue, SSAValue]:
    """The same where CTAs lie in rows of `size` (i32) that share: the owner of a box in a row of
    all CTAs is `owner`; in a shorter one a CTA has the boxes of several neighbours.
    """
    b, rank = ctx.b, cluster_rank(ctx)
    place = b.and_(rank, b.sub(size, b.i32(1)))
    by = ctx.cluster_size.bit_length() - 1
    is_owner = b.icmp("eq", place, b.lshr(b.mul(size, b.i32(owner)), b.i32(by)))
    row = b.sub(b.shl(b.i32(1), size), b.i32(1))
    mask = b.shl(row, b.sub(rank, place))
    return b.and_(elected, is_owner), b.trunc(mask, integer_type(16))


def _number_among(ctx: KernelLowering, rank: SSAValue, apart: int) -> SSAValue:
    """The number of a CTA among those whose ranks agree in the bits `apart`, which lie together:
    all that its other bits, taken together, say.
    """
    free = (ctx.cluster_size - 1) & ~apart
    shift = (free & -free).bit_length() - 1
    if free >> shift & (free >> shift) + 1:
        raise InternalError(f"CTAs {free:#b} of a cluster do not lie together", where="tma")
    number = ctx.b.lshr(rank, ctx.b.i32(shift)) if shift else rank
    is_highest = free >> shift << shift | (1 << shift) - 1 == ctx.cluster_size - 1
    return number if is_highest else ctx.b.and_(number, ctx.b.i32(free >> shift))

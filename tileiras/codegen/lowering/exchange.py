"""Tiles that the CTAs of a cluster send to one of them, through distributed shared memory.

Each thread stores its elements into the memory of the reader, where the same thread finds them:
cell c of thread t of CTA r lies at `((r * cells + c) * threads + t) * 16`. Of threads that have the
same elements the first one sends, and all read what it has sent. The stores (`st.async`)
tell an mbarrier of the reader that they have arrived, so that no fence is needed and nobody waits
for them but the reader. Before, the CTAs meet at the cluster's barrier: the memory belonged to
pipelines that the reader may have been reading, and its mbarrier has to be there. That barrier is
relaxed (as CUTLASS's that follows the making of mbarriers): nothing that was written is handed on.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import TensorType, i32, i64
from xdsl.ir import Operation, SSAValue

from tileiras.codegen.lowering.context import KernelLowering, LoweringRules, SentTile, SentTiles
from tileiras.codegen.lowering.staging import memory_element, memory_form, register_form
from tileiras.codegen.lowering.tensors import cluster_rank
from tileiras.codegen.lowering.types import register_type
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout.blocked import LANE_BITS
from tileiras.dialects.llvm.types import bit_width, lanes_of, scalar_of, vector_type
from tileiras.dialects.nv_tileaa.exchange import CELL_BYTES
from tileiras.dialects.nv_tileas.encoding import layout_of
from tileiras.errors import InternalError

WORD_BYTES = 4
MEMORY_ALIGN = 128


def lower_share(ctx: KernelLowering, op: aa.ShareTilesOp) -> None:
    """All of the cluster meet: the reader has announced what it gets, and its memory is free."""
    words = [_words(ctx, tile) for tile in op.tiles]
    masks = [_copies(tile) for tile in op.tiles]
    cells = [-(-_count(each) * WORD_BYTES // CELL_BYTES) for each in words]
    copies = [lanes.bit_count() + warps.bit_count() for lanes, warps in masks]
    threads = [32 * ctx.num_warps >> bits for bits in copies]
    sizes = [count * CELL_BYTES * owners for count, owners in zip(cells, threads, strict=True)]
    b, size = ctx.b, sum(sizes)
    base = _room(ctx, size * op.members)
    barrier = ctx.prologue.address_of(ctx.shared_variable("arrived", 8, 8))
    ctx.scratch.reserve(MEMORY_ALIGN)
    pairs = zip(words, threads, strict=True)
    bytes = sum(_count(elements) * WORD_BYTES * owners for elements, owners in pairs)
    with ctx.first_thread_alone():
        b.mbarrier_init(barrier, 1)
        b.fence_mbarrier_init()
        b.mbarrier_expect_tx(barrier, bytes * (op.members - 1))
    b.cluster_arrive(relaxed=True)
    b.cluster_wait()
    tiles: list[SentTile] = []
    for number, elements in enumerate(words):
        lanes, warps = masks[number]
        place = b.gep(base, b.zext(_owner_offset(ctx, lanes, warps), i64))
        start, step = sum(sizes[:number]), CELL_BYTES * threads[number]
        owns = ctx.threads.all_zero(lanes, warps)
        tiles.append(SentTile(elements, place, start, step, owns))
    ctx.exchanges[op.result] = SentTiles(tuple(tiles), barrier, size)
    for tile in tiles:
        # Where others have the same elements, the reader's own ones stay in registers.
        if tile.owns is None:
            _keep(ctx, tile, b.gep(b.gep(tile.place, op.reader.data * size), tile.start))


def lower_send(ctx: KernelLowering, op: Operation) -> None:
    """Every thread sends its elements; of those that have the same ones the first."""
    share = op.operands[0].owner
    if not isinstance(op, aa.SendSharedOp) or not isinstance(share, aa.ShareTilesOp):
        raise InternalError("the rule of send_shared got another operation")
    b, sent = ctx.b, ctx.exchanges[op.exchange]
    rank, reader = cluster_rank(ctx), b.i32(share.reader.data)
    if share.group is not None:
        # Groups have as many CTAs as a power of two, and their ranks follow each other.
        own = b.and_(rank, b.i32(share.members - 1))
        rank, reader = own, b.add(b.sub(rank, own), reader)
    mine = b.zext(b.mul(rank, b.i32(sent.size)), i64)
    for tile in sent.tiles:
        with ctx.where(tile.owns):
            place = b.gep(b.gep(tile.place, mine), tile.start)
            _send(ctx, tile, place, sent.barrier, reader)


def _copies(tile: SSAValue) -> tuple[int, int]:
    """The bits of lane and of warp that do not matter for what a thread has of a tile."""
    layout = layout_of(tile.type)
    return (0, 0) if layout is None else (layout.free_mask("lane"), layout.free_mask("warp"))


def _owner_offset(ctx: KernelLowering, lanes: int, warps: int) -> SSAValue:
    """Bytes up to a thread's cell among those of the threads that have different elements."""
    if not lanes and not warps:
        return ctx.b.mul(ctx.b.thread_id(), ctx.b.i32(CELL_BYTES))
    bases: list[list[int]] = []
    next = CELL_BYTES
    for mask, count in ((lanes, LANE_BITS), (warps, ctx.num_warps.bit_length() - 1)):
        bases.append([])
        for bit in range(count):
            is_free = bool(mask >> bit & 1)
            bases[-1].append(0 if is_free else next)
            next *= 1 if is_free else 2
    return ctx.threads.linear(*bases)


def _count(words: SSAValue) -> int:
    return lanes_of(words.type) or 1


def _words(ctx: KernelLowering, tile: SSAValue) -> SSAValue:
    """A thread's elements as a vector of whole registers."""
    value = memory_form(ctx, ctx.value(tile))
    bits = (lanes_of(value.type) or 1) * bit_width(scalar_of(value.type))
    if bits % (WORD_BYTES * 8):
        raise InternalError("a thread has too little of a tile to send", where="exchange")
    return ctx.b.bitcast(value, vector_type(i32, bits // (WORD_BYTES * 8)))


def _room(ctx: KernelLowering, size: int) -> SSAValue:
    """Memory for the tiles of all CTAs, the same in each: in a pipeline that is not used any
    more.
    """
    base = ctx.scratch.keep(size)
    if base is None:
        ctx.scratch.reserve(size)
        base = ctx.prologue.address_of(ctx.shared_variable("sent", size, MEMORY_ALIGN))
    return base


def _cells(
    ctx: KernelLowering, tile: SentTile, place: SSAValue
) -> Iterator[tuple[SSAValue, range]]:
    """A thread's cells from its first one on: where each lies, and which of its words it has."""
    count, width = _count(tile.words), CELL_BYTES // WORD_BYTES
    for number, start in enumerate(range(0, count, width)):
        yield ctx.b.gep(place, number * tile.step), range(start, min(start + width, count))


def _keep(ctx: KernelLowering, tile: SentTile, place: SSAValue) -> None:
    """A thread's words into its cells, for itself, should its CTA be the reader."""
    for cell, lanes in _cells(ctx, tile, place):
        ctx.b.store(ctx.b.slice(tile.words, lanes.start, len(lanes)), cell, len(lanes) * WORD_BYTES)


def _send(
    ctx: KernelLowering, tile: SentTile, place: SSAValue, barrier: SSAValue, reader: SSAValue
) -> None:
    """A thread's words into its cells in another CTA."""
    for cell, lanes in _cells(ctx, tile, place):
        sent = [ctx.b.extract(tile.words, lane) for lane in lanes]
        ctx.b.store_async(cell, reader, sent, barrier)


def lower_await(ctx: KernelLowering, op: aa.AwaitSharedOp) -> None:
    """All threads wait for all tiles."""
    ctx.b.mbarrier_wait(ctx.exchanges[op.exchange].barrier, ctx.b.i32(0), of_cluster=True)


def lower_read(ctx: KernelLowering, op: Operation) -> None:
    """The elements that this thread's counterpart in a CTA has sent."""
    if not isinstance(op, aa.ReadSharedOp) or not isinstance(op.result.type, TensorType):
        raise InternalError("the rule of read_shared got another operation")
    b, sent = ctx.b, ctx.exchanges[op.exchange]
    element = register_type(op.result.type.element_type)
    stored = memory_element(element)
    size = bit_width(stored) // 8
    lanes, width = lanes_of(ctx.lowered_type(op.result.type)) or 1, CELL_BYTES // size
    tile = sent.tiles[op.number.data]
    share = op.exchange.owner
    if tile.owns is not None and isinstance(share, aa.ShareTilesOp) and share.reader == op.rank:
        ctx.values[op.result] = ctx.value(share.tiles[op.number.data])
        return
    first = op.rank.data * sent.size + tile.start
    parts: list[SSAValue] = []
    for number, start in enumerate(range(0, lanes, width)):
        count = min(width, lanes - start)
        place = b.gep(tile.place, first + number * tile.step)
        # Where it stands, not where it is needed: there it would be waited for.
        parts.append(b.load(place, vector_type(stored, count), count * size, volatile=True))
    ctx.values[op.result] = register_form(ctx, b.concat(parts), element)


RULES: LoweringRules = {
    aa.ShareTilesOp: lower_share,
    aa.SendSharedOp: lower_send,
    aa.AwaitSharedOp: lower_await,
    aa.ReadSharedOp: lower_read,
}

"""Tiles that the CTAs of a cluster send to one of them, through distributed shared memory.

Each thread stores its elements into the memory of the reader, where the same thread finds them:
cell c of thread t of CTA r lies at `((r * cells + c) * threads + t) * 16`. The stores (`st.async`)
tell an mbarrier of the reader that they have arrived, so that no fence is needed and nobody waits
for them but the reader. Before, the CTAs meet at the cluster's barrier: the memory belonged to
pipelines that the reader may have been reading, and its mbarrier has to be there. That barrier is
relaxed (as CUTLASS's that follows the making of mbarriers): nothing that was written is handed on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xdsl.dialects.builtin import TensorType, i32, i64
from xdsl.ir import Operation, SSAValue

from tileiras.codegen.lowering.context import KernelLowering, SentTiles
from tileiras.codegen.lowering.staging import memory_element, memory_form, register_form
from tileiras.codegen.lowering.tensors import cluster_rank
from tileiras.codegen.lowering.types import register_type
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.llvm.types import bit_width, lanes_of, scalar_of, vector_type
from tileiras.dialects.nv_tileaa.exchange import CELL_BYTES
from tileiras.errors import InternalError

WORD_BYTES = 4
MEMORY_ALIGN = 128


def lower_share(ctx: KernelLowering, op: Operation) -> None:
    """All of the cluster meet: the reader has announced what it gets, and its memory is free."""
    if not isinstance(op, aa.ShareTilesOp):
        raise InternalError("the rule of share_tiles got another operation")
    words = [_words(ctx, tile) for tile in op.tiles]
    starts: list[int] = []
    cells = 0
    for elements in words:
        starts.append(cells)
        cells += -(-(lanes_of(elements.type) or 1) * WORD_BYTES // CELL_BYTES)
    b, size = ctx.b, cells * CELL_BYTES * 32 * ctx.num_warps
    base = _room(ctx, size * ctx.cluster_size)
    barrier = ctx.prologue.address_of(ctx.shared_variable("arrived", 8, 8))
    ctx.scratch.reserve(MEMORY_ALIGN)
    bytes = sum((lanes_of(elements.type) or 1) * WORD_BYTES for elements in words)
    with ctx.first_thread_alone():
        b.mbarrier_init(barrier, 1)
        b.fence_mbarrier_init()
        b.mbarrier_expect_tx(barrier, bytes * 32 * ctx.num_warps * (ctx.cluster_size - 1))
    b.cluster_arrive(relaxed=True)
    b.cluster_wait()
    place = b.gep(base, b.zext(b.mul(b.thread_id(), b.i32(CELL_BYTES)), i64))
    sent = SentTiles(tuple(words), barrier, place, tuple(starts), cells)
    ctx.exchanges[op.result] = sent
    own = b.gep(place, op.reader.data * _offset(ctx, cells))
    for elements, start in zip(words, starts, strict=True):
        _keep(ctx, elements, b.gep(own, _offset(ctx, start)))


def lower_send(ctx: KernelLowering, op: Operation) -> None:
    """Every thread sends its elements."""
    share = op.operands[0].owner
    if not isinstance(op, aa.SendSharedOp) or not isinstance(share, aa.ShareTilesOp):
        raise InternalError("the rule of send_shared got another operation")
    b, sent = ctx.b, ctx.exchanges[op.exchange]
    size = _offset(ctx, sent.cells)
    mine = b.gep(sent.place, b.zext(b.mul(cluster_rank(ctx), b.i32(size)), i64))
    for elements, start in zip(sent.words, sent.starts, strict=True):
        place = b.gep(mine, _offset(ctx, start))
        _send(ctx, elements, place, sent.barrier, share.reader.data)


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


def _offset(ctx: KernelLowering, cell: int) -> int:
    return cell * CELL_BYTES * 32 * ctx.num_warps


def _cells(
    ctx: KernelLowering, words: SSAValue, place: SSAValue
) -> Iterator[tuple[SSAValue, range]]:
    """A thread's cells from its first one on: where each lies, and which of its words it has."""
    count, width = lanes_of(words.type) or 1, CELL_BYTES // WORD_BYTES
    for number, start in enumerate(range(0, count, width)):
        yield ctx.b.gep(place, _offset(ctx, number)), range(start, min(start + width, count))


def _keep(ctx: KernelLowering, words: SSAValue, place: SSAValue) -> None:
    """A thread's words into its cells, for itself, should its CTA be the reader."""
    for cell, lanes in _cells(ctx, words, place):
        ctx.b.store(ctx.b.slice(words, lanes.start, len(lanes)), cell, len(lanes) * WORD_BYTES)


def _send(
    ctx: KernelLowering, words: SSAValue, place: SSAValue, barrier: SSAValue, reader: int
) -> None:
    """A thread's words into its cells in another CTA."""
    for cell, lanes in _cells(ctx, words, place):
        sent = [ctx.b.extract(words, lane) for lane in lanes]
        ctx.b.store_async(cell, ctx.b.i32(reader), sent, barrier)


def lower_await(ctx: KernelLowering, op: Operation) -> None:
    """All threads wait for all tiles."""
    if not isinstance(op, aa.AwaitSharedOp):
        raise InternalError("the rule of await_shared got another operation")
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
    first = op.rank.data * sent.cells + sent.starts[op.number.data]
    parts: list[SSAValue] = []
    for number, start in enumerate(range(0, lanes, width)):
        count = min(width, lanes - start)
        place = b.gep(sent.place, _offset(ctx, first + number))
        # Where it stands, not where it is needed: there it would be waited for.
        parts.append(b.load(place, vector_type(stored, count), count * size, volatile=True))
    ctx.values[op.result] = register_form(ctx, b.concat(parts), element)


RULES: dict[type[Operation], Callable[[KernelLowering, Operation], None]] = {
    aa.ShareTilesOp: lower_share,
    aa.SendSharedOp: lower_send,
    aa.AwaitSharedOp: lower_await,
    aa.ReadSharedOp: lower_read,
}

"""Tile blocks that a CTA takes over before they start (`for` with `takes_over`).

The producer's first thread asks for the next cluster as soon as it begins a tile, so that the
answer is there long before the tile is done. Every warp of every role reads the answer for itself
and hands its slot back. Two slots let the producer ask while others are a tile behind.

In a cluster the first CTA asks for both. The answer comes to both; slots are handed back to the CTA
that asks, which stays until that has been done for the last one.

Where no hardware answers, the producer draws a number from a queue (`tile_queue.py`).
"""

from __future__ import annotations

from xdsl.dialects.builtin import i32
from xdsl.ir import Operation, SSAValue

from tileiras.codegen.lowering.barrier_makers import BarrierMakers
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.longest_tile_first import grid_counts, longest_tile_first_block
from tileiras.codegen.lowering.pipelines import BARRIER_BYTES, TakenBlocks, TileQueue, Variable
from tileiras.codegen.lowering.tensors import among_all, cluster_rank
from tileiras.codegen.lowering.tile_queue import WORD_BYTES, drawn_number, in_order, tile_queue
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.llvm import memory as llvm_memory
from tileiras.dialects.llvm.types import SHARED, pointer_type
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import tcgen05 as tc
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.errors import InternalError

SLOTS = 2
"""Policy: answers that may be read at a time; a power of two."""
ANSWER_BYTES = 16
"""Bytes of an answer, and what its place is a multiple of."""
_FULL = SLOTS * ANSWER_BYTES
_EMPTY = _FULL + SLOTS * BARRIER_BYTES
_BYTES = _EMPTY + SLOTS * BARRIER_BYTES
"""Where the barriers lie, and all of the memory: a power of two, a divisor of its address."""
_TURNS = 2 * SLOTS
"""How far answers are counted: slots, twice, for the parity."""
LANES = 32


def reserve_slots(ctx: KernelLowering, switch: pl.AgentSwitchOp) -> None:
    """Memory for the answers and their mbarriers."""
    func = switch.parent_op()
    if not isinstance(func, aa.FuncOp):
        raise InternalError("warp roles outside of a kernel", where="taken blocks")
    loops = [op for op in func.walk() if isinstance(op, aa.ForOp) and op.takes_over is not None]
    name = ctx.symbols.unique("taken")
    made = llvm_memory.GlobalOp.make(name, _BYTES, SHARED, _BYTES)
    ctx.add_globals(made)
    ctx.scratch.reserve(2 * _BYTES)
    place = Variable(ctx, 0)
    place.set(ctx.prologue, ctx.prologue.ptrtoint(ctx.prologue.address_of(made), i32))
    readers = sum(_warps(ctx, loop, switch) for loop in loops)
    queue = tile_queue(ctx) if func.tile_queue is not None else None
    ctx.roles.taken = TakenBlocks(made, readers, place, queue)


def _warps(ctx: KernelLowering, loop: Operation, switch: pl.AgentSwitchOp) -> int:
    """Warps of the warp role that runs a loop."""
    region = loop.parent_region()
    while region is not None:
        around = region.parent
        if isinstance(around, tc.ProductWarpOp) or region is switch.store:
            return 1
        if isinstance(around, wg.TransposeWarpsOp):
            return around.warps.data
        if region is switch.producer:
            return switch.working_warps.data
        if region is switch.consumer:
            return ctx.num_warps
        region = around.parent_region() if around is not None else None
    raise InternalError("no warp role runs a loop", where="taken blocks")


def init_barriers(ctx: KernelLowering, taken: TakenBlocks, makers: BarrierMakers) -> None:
    """One thread makes the mbarriers of the slots."""
    with ctx.where(makers.is_first):
        b = ctx.b
        memory = b.address_of(taken.memory)
        for number in range(SLOTS):
            b.mbarrier_init(b.gep(memory, _FULL + number * BARRIER_BYTES), 1)
            readers = taken.readers * ctx.cluster_size
            b.mbarrier_init(b.gep(memory, _EMPTY + number * BARRIER_BYTES), readers)


def ask(ctx: KernelLowering) -> None:
    """The producer asks for what follows the tile that it begins, if the hardware answers."""
    if not ctx.roles.is_producer or _taken(ctx).queue is not None:
        return
    b, taken = ctx.b, _taken(ctx)
    elected = ctx.roles.elected(ctx)
    place = taken.place.get(b)
    full = _barrier(ctx, place, _FULL)
    b.mbarrier_expect_tx(full, ANSWER_BYTES, elected)
    with _AskingCta(ctx):
        b = ctx.b
        b.mbarrier_wait(_barrier(ctx, place, _EMPTY), b.xor(_parity(ctx, place), b.i32(1)))
        b.try_cancel(_answer(ctx, place), full, elected, of_cluster=ctx.cluster_size > 1)


def next_block(ctx: KernelLowering, end: SSAValue) -> SSAValue:
    """The number of the tile block that follows, `end` if there is none."""
    b, taken = ctx.b, _taken(ctx)
    place = taken.place.get(b)
    if taken.queue is not None:
        return _next_of_queue(ctx, taken.queue, end)
    b.mbarrier_wait(_barrier(ctx, place, _FULL), _parity(ctx, place))
    answer = b.query_cancel(_answer(ctx, place))
    b.fence_proxy_async()
    b.warp_barrier()
    first = b.icmp("eq", b.and_(b.thread_id(), b.i32(LANES - 1)), b.i32(0))
    asks = b.i32(0) if ctx.cluster_size > 1 else None
    b.mbarrier_arrive(_barrier(ctx, place, _EMPTY), cluster_cta=asks, predicate=first)
    taken.place.set(b, _moved(ctx, place, 1))
    found, *numbers = (b.extract(answer, word) for word in range(4))
    if ctx.roles.tile_order is not None:
        numbers = longest_tile_first_block(b, numbers, grid_counts(b), ctx.roles.tile_order)
    number = among_all(ctx, b, *numbers)
    # A cluster that divides a tile is one tile block, and else as many as it has CTAs.
    if not ctx.divides_tiles:
        number = b.mul(number, b.i32(ctx.cluster_size))
    return b.select(b.icmp("ne", found, b.i32(0)), number, end)


def _next_of_queue(ctx: KernelLowering, queue: TileQueue, end: SSAValue) -> SSAValue:
    """The same, drawn by the producer, for the other warp roles, too."""
    b, taken = ctx.b, _taken(ctx)
    place = taken.place.get(b)
    full, empty = _barrier(ctx, place, _FULL), _barrier(ctx, place, _EMPTY)
    if ctx.roles.is_producer:
        elected = ctx.roles.elected(ctx)
        number = drawn_number(ctx, queue, end, elected)
        b.mbarrier_wait(empty, b.xor(_parity(ctx, place), b.i32(1)))
        with ctx.where(elected):
            ctx.b.store(number, _answer(ctx, place), WORD_BYTES)
        b = ctx.b
        b.mbarrier_arrive(full, predicate=elected)
    b.mbarrier_wait(full, _parity(ctx, place))
    number = b.load(_answer(ctx, place), i32, WORD_BYTES, volatile=True)
    b.warp_barrier()
    first = b.icmp("eq", b.and_(b.thread_id(), b.i32(LANES - 1)), b.i32(0))
    b.mbarrier_arrive(empty, predicate=first)
    taken.place.set(b, _moved(ctx, place, 1))
    return in_order(ctx, number, end)


def wait_for_readers(ctx: KernelLowering) -> None:
    """In a cluster the CTA that asks stays until all warps have handed the last answer back.

    Where there was none, the phase before the first one is over.
    """
    if not ctx.roles.is_producer or ctx.cluster_size == 1:
        return
    taken = _taken(ctx)
    last = _moved(ctx, taken.place.get(ctx.b), -1)
    with _AskingCta(ctx):
        ctx.b.mbarrier_wait(_barrier(ctx, last, _EMPTY), _parity(ctx, last))


class _AskingCta:
    """What is built inside is done by the CTA of the cluster that asks."""

    def __init__(self, ctx: KernelLowering):
        self.ctx = ctx
        self.after = ctx.b.new_block() if ctx.cluster_size > 1 else None

    def __enter__(self) -> None:
        if self.after is not None:
            b, inside = self.ctx.b, self.ctx.b.new_block()
            b.cond_br(b.icmp("eq", cluster_rank(self.ctx), b.i32(0)), inside, self.after)
            self.ctx.start_block(inside)

    def __exit__(self, *_: object) -> None:
        if self.after is not None:
            self.ctx.b.br(self.after)
            self.ctx.start_block(self.after)


def _taken(ctx: KernelLowering) -> TakenBlocks:
    if ctx.roles.taken is None:
        raise InternalError("no slots for tile blocks that are taken over", where="taken blocks")
    return ctx.roles.taken


def _moved(ctx: KernelLowering, place: SSAValue, by: int) -> SSAValue:
    """The place of the next answer, or of the one before."""
    b = ctx.b
    counted = b.and_(b.add(place, b.i32(by)), b.i32(_TURNS - 1))
    return b.or_(b.and_(place, b.i32(-_TURNS)), counted)


def _parity(ctx: KernelLowering, place: SSAValue) -> SSAValue:
    """The parity of the pass through the slots."""
    b = ctx.b
    return b.and_(b.lshr(place, b.i32(SLOTS.bit_length() - 1)), b.i32(1))


def _answer(ctx: KernelLowering, place: SSAValue) -> SSAValue:
    """The slot of an answer."""
    return _at(ctx, place, ANSWER_BYTES, 0)


def _barrier(ctx: KernelLowering, place: SSAValue, first: int) -> SSAValue:
    """The mbarrier of an answer: of those from `_FULL` on, that completes when it is there; of
    those from `_EMPTY` on, when all have read it.
    """
    return _at(ctx, place, BARRIER_BYTES, first)


def _at(ctx: KernelLowering, place: SSAValue, size: int, first: int) -> SSAValue:
    """What belongs to a slot, where each has so many bytes."""
    b = ctx.b
    memory = b.inttoptr(b.and_(place, b.i32(-_BYTES)), pointer_type(SHARED))
    slot = b.and_(place, b.i32(SLOTS - 1))
    return b.gep(b.gep(memory, b.mul(slot, b.i32(size))), first)

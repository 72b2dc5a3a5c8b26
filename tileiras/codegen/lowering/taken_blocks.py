"""Tile blocks that a CTA takes over before they start (`for` with `takes_over`).

The producer's first thread asks for the next cluster as soon as it begins a tile, so that the
answer is there long before the tile is done. Every warp of every role reads the answer for itself
and hands its slot back. Two slots let the producer ask while others are a tile behind.

In a cluster the first CTA asks for both. The answer comes to both; slots are handed back to the CTA
that asks, which stays until that has been done for the last one.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.longest_tile_first import longest_tile_first_block
from tileiras.codegen.lowering.pipelines import BARRIER_BYTES, TakenBlocks, Variable
from tileiras.codegen.lowering.tensors import among_all, cluster_rank, grid_size
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.llvm import memory as llvm_memory
from tileiras.dialects.llvm.types import SHARED
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import tcgen05 as tc
from tileiras.errors import InternalError

SLOTS = 2
"""Policy: answers that may be read at a time; a power of two."""
ANSWER_BYTES = 16
"""Bytes of an answer, and what its place is a multiple of."""
LANES = 32


def reserve_slots(ctx: KernelLowering, switch: pl.AgentSwitchOp) -> None:
    """Memory for the answers and their mbarriers."""
    func = switch.parent_op()
    if func is None:
        raise InternalError("warp roles outside of a kernel", where="taken blocks")
    loops = [op for op in func.walk() if isinstance(op, aa.ForOp) and op.takes_over is not None]
    made = [
        llvm_memory.GlobalOp.make(ctx.symbols.unique(name), size, SHARED, align)
        for name, size, align in (
            ("taken", SLOTS * ANSWER_BYTES, ANSWER_BYTES),
            ("taken_barriers", 2 * SLOTS * BARRIER_BYTES, BARRIER_BYTES),
        )
    ]
    ctx.add_globals(*made)
    ctx.scratch.reserve(sum(item.size.data for item in made))
    slots, barriers = (ctx.prologue.address_of(item) for item in made)
    readers = sum(_warps(ctx, loop, switch) for loop in loops)
    ctx.roles.taken = TakenBlocks(slots, barriers, readers, Variable(ctx, 0))


def _warps(ctx: KernelLowering, loop: Operation, switch: pl.AgentSwitchOp) -> int:
    """Warps of the warp role that runs a loop."""
    region = loop.parent_region()
    while region is not None:
        around = region.parent
        if isinstance(around, tc.ProductWarpOp) or region is switch.store:
            return 1
        if region is switch.producer:
            return switch.working_warps.data
        if region is switch.consumer:
            return ctx.num_warps
        region = around.parent_region() if around is not None else None
    raise InternalError("no warp role runs a loop", where="taken blocks")


def init_barriers(ctx: KernelLowering, taken: TakenBlocks) -> None:
    """One thread makes the mbarriers of the slots."""
    b = ctx.b
    for number in range(SLOTS):
        b.mbarrier_init(_full(ctx, taken, b.i32(number)), 1)
        b.mbarrier_init(_empty(ctx, taken, b.i32(number)), taken.readers * ctx.cluster_size)


def ask(ctx: KernelLowering) -> None:
    """The producer asks for what follows the tile that it begins."""
    if not ctx.roles.is_producer:
        return
    b, taken = ctx.b, _taken(ctx)
    elected = ctx.roles.elected(ctx)
    position = taken.position.get(b)
    slot = _slot(ctx, position)
    full = _full(ctx, taken, slot)
    b.mbarrier_expect_tx(full, ANSWER_BYTES, elected)
    with _AskingCta(ctx):
        b = ctx.b
        b.mbarrier_wait(_empty(ctx, taken, slot), b.xor(_parity(ctx, position), b.i32(1)))
        address = b.gep(taken.slots, b.mul(slot, b.i32(ANSWER_BYTES)))
        b.try_cancel(address, full, elected, of_cluster=ctx.cluster_size > 1)


def next_block(ctx: KernelLowering, end: SSAValue) -> SSAValue:
    """The number of the tile block that follows, `end` if there is none."""
    b, taken = ctx.b, _taken(ctx)
    position = taken.position.get(b)
    slot = _slot(ctx, position)
    b.mbarrier_wait(_full(ctx, taken, slot), _parity(ctx, position))
    answer = b.query_cancel(b.gep(taken.slots, b.mul(slot, b.i32(ANSWER_BYTES))))
    b.fence_proxy_async()
    b.warp_barrier()
    first = b.icmp("eq", b.and_(b.thread_id(), b.i32(LANES - 1)), b.i32(0))
    asks = b.i32(0) if ctx.cluster_size > 1 else None
    b.mbarrier_arrive(_empty(ctx, taken, slot), cluster_cta=asks, predicate=first)
    taken.position.set(b, b.add(position, b.i32(1)))
    found, *numbers = (b.extract(answer, word) for word in range(4))
    if ctx.roles.tile_order is not None:
        counts = [grid_size(ctx, axis) for axis in range(len(numbers))]
        numbers = longest_tile_first_block(b, numbers, counts, ctx.roles.tile_order)
    number = among_all(ctx, b, *numbers)
    # A cluster that divides a tile is one tile block, and else as many as it has CTAs.
    if not ctx.divides_tiles:
        number = b.mul(number, b.i32(ctx.cluster_size))
    return b.select(b.icmp("ne", found, b.i32(0)), number, end)


def wait_for_readers(ctx: KernelLowering) -> None:
    """In a cluster the CTA that asks stays until all warps have handed the last answer back.

    Where there was none, the phase before the first one is over.
    """
    if not ctx.roles.is_producer or ctx.cluster_size == 1:
        return
    taken = _taken(ctx)
    last = ctx.b.sub(taken.position.get(ctx.b), ctx.b.i32(1))
    with _AskingCta(ctx):
        slot = _slot(ctx, last)
        ctx.b.mbarrier_wait(_empty(ctx, taken, slot), _parity(ctx, last))


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


def _slot(ctx: KernelLowering, position: SSAValue) -> SSAValue:
    """The slot of an answer by its number."""
    return ctx.b.and_(position, ctx.b.i32(SLOTS - 1))


def _parity(ctx: KernelLowering, position: SSAValue) -> SSAValue:
    """The parity of the pass through the slots."""
    b = ctx.b
    return b.and_(b.lshr(position, b.i32(SLOTS.bit_length() - 1)), b.i32(1))


def _full(ctx: KernelLowering, taken: TakenBlocks, slot: SSAValue) -> SSAValue:
    """The mbarrier that completes when an answer is there."""
    return ctx.b.gep(taken.barriers, ctx.b.mul(slot, ctx.b.i32(BARRIER_BYTES)))


def _empty(ctx: KernelLowering, taken: TakenBlocks, slot: SSAValue) -> SSAValue:
    """The mbarrier that completes when all have read an answer."""
    return ctx.b.gep(_full(ctx, taken, slot), SLOTS * BARRIER_BYTES)

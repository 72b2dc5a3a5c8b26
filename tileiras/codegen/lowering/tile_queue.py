"""The queue of a launch: numbers of tile blocks, which its CTAs draw one after another.

    first tile of a CTA    its own number              below `tile_blocks`, one for each SM
    each further one       the next one of the queue   from there to the end of the grid

A launch has no memory of its own, so queues lie in a table of the module, in the slot of the launch
that is running (`nvvm.take_number`). The producer draws when it has started the last copies of a
tile: late, for whoever is done first shall get the next one, and while consumers have stages to go
through, so that the trip to memory costs nobody time. What is drawn is a place in the order in
which the grid would start: long tile blocks come first where that is known
(`longest_tile_first.py`).
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.longest_tile_first import grid_counts, longest_tile_first_block
from tileiras.codegen.lowering.pipelines import TileQueue, Variable
from tileiras.codegen.lowering.tensors import among_all, own_number, tile_blocks
from tileiras.dialects.llvm import memory as llvm_memory
from tileiras.dialects.llvm.types import GLOBAL

SLOTS = 256
"""Policy: launches of a kernel that can have a queue at a time; at most 128 run (CUDA programming
guide, "Technical Specifications per Compute Capability").
"""
SLOT_BYTES = 16
WORD_BYTES = 4


def tile_queue(ctx: KernelLowering) -> TileQueue:
    """A table of queues for the kernel's module, and what the producer knows of them: nothing."""
    size, name = SLOTS * SLOT_BYTES, ctx.symbols.unique("queues")
    table = llvm_memory.GlobalOp.make(name, size, GLOBAL, SLOT_BYTES)
    ctx.add_globals(table)
    own = Variable(ctx, 0)
    own.set(ctx.prologue, own_number(ctx))
    return TileQueue(table, Variable(ctx, 0), own)


def drawn_number(
    ctx: KernelLowering, queue: TileQueue, end: SSAValue, elected: SSAValue
) -> SSAValue:
    """What follows the own number, known to the elected thread: `end` or more, if nothing.

    Nobody draws where each CTA has its own tile at most.
    """
    b = ctx.b
    table, state, own = b.address_of(queue.table), queue.state.get(b), queue.own.get(b)
    first = tile_blocks(ctx, 0)
    if ctx.tiles_drawn > 1:
        end = b.udiv(b.add(end, b.i32(ctx.tiles_drawn - 1)), b.i32(ctx.tiles_drawn))
    draws = b.and_(elected, b.icmp("ult", first, end))
    state, number = b.take_number(table, SLOTS, state, own, (first, end), draws)
    queue.state.set(b, state)
    queue.own.set(b, number)
    return number


def in_order(ctx: KernelLowering, place: SSAValue, end: SSAValue) -> SSAValue:
    """The number of the tile block that starts as the one with this place in the grid's order; the
    first of those that are drawn at once.
    """
    order = ctx.roles.tile_order
    if order is None:
        return ctx.b.mul(place, ctx.b.i32(ctx.tiles_drawn)) if ctx.tiles_drawn > 1 else place
    b, counts = ctx.b, grid_counts(ctx.b)
    zero = b.i32(0)
    numbers = [place, zero, zero]
    if order[0] == 0:
        row = b.udiv(place, counts[0])
        numbers = [b.sub(place, b.mul(row, counts[0])), row, zero]
    number = among_all(ctx, b, *longest_tile_first_block(b, numbers, counts, order))
    return b.select(b.icmp("ult", place, end), number, end)

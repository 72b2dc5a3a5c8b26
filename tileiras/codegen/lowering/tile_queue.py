"""The queue of a launch: numbers of tile blocks, which its CTAs draw one after another.

    first tile of a CTA    its own number              below `tile_blocks`, one for each SM
    each further one       the next one of the queue   from there to the end of the grid

A launch has no memory of its own, so queues lie in a table of the module, in the slot of the launch
that is running (`nvvm.take_number`). Numbers are asked for as a tile begins, and looked at as it
ends: the trip to memory costs nobody time. What is drawn is a place in the order in which the grid
would start: long tile blocks come first where that is known (`longest_tile_first.py`).
"""

from __future__ import annotations

from xdsl.dialects.builtin import i64
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
_ASKED_BYTES = 8


def tile_queue(ctx: KernelLowering) -> TileQueue:
    """A table of queues for the kernel's module, and what the producer knows of them: nothing."""
    size, name = SLOTS * SLOT_BYTES, ctx.symbols.unique("queues")
    table = llvm_memory.GlobalOp.make(name, size, GLOBAL, SLOT_BYTES)
    ctx.add_globals(table)
    asked = ctx.prologue.alloca(_ASKED_BYTES, _ASKED_BYTES)
    own = Variable(ctx, 0)
    own.set(ctx.prologue, own_number(ctx))
    return TileQueue(table, Variable(ctx, 0), asked, own)


def ask_queue(
    ctx: KernelLowering, queue: TileQueue, end: SSAValue, elected: SSAValue
) -> None:
    """The elected thread asks for a number below the end, and goes on."""
    b = ctx.b
    table, state = b.address_of(queue.table), queue.state.get(b)
    asked = b.ask_queue(table, SLOTS, state, b.and_(elected, _has_queue(ctx, end)))
    b.store(asked, queue.asked, _ASKED_BYTES)


def drawn_number(
    ctx: KernelLowering, queue: TileQueue, end: SSAValue, elected: SSAValue
) -> SSAValue:
    """What follows the own number, known to the elected thread: `end` or more, if nothing."""
    b = ctx.b
    state, asked = queue.state.get(b), b.load(queue.asked, i64, _ASKED_BYTES)
    limits = (tile_blocks(ctx, 0), end)
    state, number = b.take_number(
        b.address_of(queue.table),
        SLOTS,
        state,
        asked,
        queue.own.get(b),
        limits,
        b.and_(elected, _has_queue(ctx, end)),
    )
    queue.state.set(b, state)
    queue.own.set(b, number)
    return number


def _has_queue(ctx: KernelLowering, end: SSAValue) -> SSAValue:
    """i1: whether there are more tile blocks than CTAs that work."""
    return ctx.b.icmp("ult", tile_blocks(ctx, 0), end)


def in_order(ctx: KernelLowering, place: SSAValue, end: SSAValue) -> SSAValue:
    """The number of the tile block that starts as the one with this place in the grid's order."""
    order = ctx.roles.tile_order
    if order is None:
        return place
    b, counts = ctx.b, grid_counts(ctx.b)
    zero = b.i32(0)
    numbers = [place, zero, zero]
    if order[0] == 0:
        row = b.udiv(place, counts[0])
        numbers = [b.sub(place, b.mul(row, counts[0])), row, zero]
    number = among_all(ctx, b, *longest_tile_first_block(b, numbers, counts, order))
    return b.select(b.icmp("ult", place, end), number, end)

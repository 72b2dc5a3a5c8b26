"""Tiles that the CTAs of a cluster show each other, through distributed shared memory.

Each CTA writes its own tile into its own memory, where the same thread of another CTA finds the
same elements: cell c of thread t lies at `(c * threads + t) * 16`, in all CTAs. Between writing and
reading, and between reading and the end of a CTA, all threads of the cluster that still run meet at
its barrier (PTX ISA, "barrier.cluster": threads that have ended count as having arrived; arrivals
release, waits acquire).
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import TensorType, i64
from xdsl.ir import Operation, SSAValue

from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.staging import memory_element, memory_form, register_form
from tileiras.codegen.lowering.types import register_type
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.llvm.types import bit_width, lanes_of, scalar_of, vector_type
from tileiras.errors import InternalError

CELL_BYTES = 16
MEMORY_ALIGN = 128


def lower_share(ctx: KernelLowering, op: Operation) -> None:
    """Every thread writes its elements; all of the cluster meet."""
    if not isinstance(op, aa.ShareTilesOp):
        raise InternalError("the rule of share_tiles got another operation")
    places = tuple(_room(ctx, tile) for tile in op.tiles)
    for tile, place in zip(op.tiles, places, strict=True):
        _write(ctx, memory_form(ctx, ctx.value(tile)), place)
    ctx.exchanges[op.result] = places
    ctx.b.cluster_arrive()
    ctx.b.cluster_wait()


def _room(ctx: KernelLowering, tile: SSAValue) -> SSAValue:
    """This thread's first cell of memory for a tile: in the rings, if no loop reads them more."""
    value = memory_form(ctx, ctx.value(tile))
    cells = -(-(lanes_of(value.type) or 1) // _lanes_of_cell(value))
    threads = 32 * ctx.num_warps
    size = cells * CELL_BYTES * threads
    base = ctx.scratch.keep(size)
    if base is None:
        ctx.scratch.reserve(size)
        base = ctx.prologue.address_of(ctx.shared_variable("shown", size, MEMORY_ALIGN))
    offset = ctx.b.mul(ctx.b.thread_id(), ctx.b.i32(CELL_BYTES))
    return ctx.b.gep(base, ctx.b.zext(offset, i64))


def _lanes_of_cell(value: SSAValue) -> int:
    """Elements of a cell."""
    return CELL_BYTES * 8 // bit_width(scalar_of(value.type))


def _write(ctx: KernelLowering, value: SSAValue, place: SSAValue) -> None:
    """A thread's elements into its cells."""
    lanes, width = lanes_of(value.type) or 1, _lanes_of_cell(value)
    for number, start in enumerate(range(0, lanes, width)):
        count = min(width, lanes - start)
        part = ctx.b.slice(value, start, count)
        size = count * bit_width(scalar_of(value.type)) // 8
        ctx.b.store(part, _cell(ctx, place, number), size & -size)


def _cell(ctx: KernelLowering, place: SSAValue, number: int) -> SSAValue:
    return ctx.b.gep(place, number * CELL_BYTES * 32 * ctx.num_warps)


def lower_read(ctx: KernelLowering, op: Operation) -> None:
    """The elements of this thread's counterpart in another CTA."""
    if not isinstance(op, aa.ReadSharedOp) or not isinstance(op.result.type, TensorType):
        raise InternalError("the rule of read_shared got another operation")
    b = ctx.b
    element = register_type(op.result.type.element_type)
    stored = memory_element(element)
    size = bit_width(stored) // 8
    lanes = lanes_of(ctx.lowered_type(op.result.type)) or 1
    width = CELL_BYTES // size
    place = b.mapa(ctx.exchanges[op.exchange][op.number.data], b.i32(op.rank.data))
    parts: list[SSAValue] = []
    for number, start in enumerate(range(0, lanes, width)):
        count = min(width, lanes - start)
        bytes = count * size
        part = vector_type(stored, count)
        parts.append(b.load(_cell(ctx, place, number), part, bytes & -bytes))
    ctx.values[op.result] = register_form(ctx, b.concat(parts), element)


def lower_end(ctx: KernelLowering, op: Operation) -> None:
    """What was read has arrived: an arrival releases."""
    ctx.b.cluster_arrive()


def lower_leave(ctx: KernelLowering, op: Operation) -> None:
    """All have read what they want."""
    ctx.b.cluster_wait()


RULES: dict[type[Operation], Callable[[KernelLowering, Operation], None]] = {
    aa.ShareTilesOp: lower_share,
    aa.ReadSharedOp: lower_read,
    aa.EndExchangeOp: lower_end,
    aa.LeaveExchangeOp: lower_leave,
}

"""Tiles whose rows are scattered: staged in shared memory, then stored row by row.

One thread of each row knows where it goes, and says so behind the row in shared memory. So nobody
else computes addresses, and a warp stores whole rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from xdsl.dialects.builtin import IntAttr, i32
from xdsl.ir import SSAValue

from tileiras.codegen.atoms.row_stages import ACCESS_BYTES, RowStage, stage_of_layout
from tileiras.codegen.lowering.addressing import register_coordinates, thread_coordinate
from tileiras.codegen.lowering.context import KernelLowering, LoweringRules
from tileiras.codegen.lowering.pointers import pointee_of
from tileiras.codegen.lowering.types import storage_bits
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.llvm.types import bit_width, integer_type, lanes_of, vector_type
from tileiras.errors import InternalError

WARPGROUP_WARPS, THREADS = 4, 32
POINTER_BYTES, WORD_BYTES = 8, 4
ALIGN = 128
"""Bytes: where the buffer starts."""


def lower_store_rows(ctx: KernelLowering, op: tas.StoreRowsOp) -> None:
    """Part by part: all threads write, then store."""
    b, bits = ctx.b, storage_bits(pointee_of(ctx, op.pointers))
    layout, by_rows = ctx.layout(op.value.type), ctx.layout(op.pointers.type)
    stage = stage_of_layout(layout, ctx.num_warps // WARPGROUP_WARPS, bits)
    if stage is None:
        raise InternalError("a tile whose rows cannot be staged", where="row_stores")
    buffer = _buffer(ctx, stage.bytes)
    for part in range(stage.parts):
        b.barrier()
        _write(ctx, op, stage, layout, buffer, part)
        if not part:
            _write_places(ctx, op, stage, by_rows, buffer)
        b.barrier()
        _store(ctx, op, stage, buffer, part)
    ctx.scratch.unknown()


def _buffer(ctx: KernelLowering, size: int) -> SSAValue:
    """The memory that all such stores of a kernel share."""
    made = ctx.roles.row_buffer
    if made is None:
        made = ctx.roles.row_buffer = ctx.shared_variable("rows", size, ALIGN)
        ctx.scratch.reserve(size)
    elif made.size.data < size:
        ctx.scratch.reserve(size - made.size.data)
        made.properties["size"] = IntAttr(size)
    return ctx.prologue.address_of(made)


def _write(
    ctx: KernelLowering,
    op: tas.StoreRowsOp,
    stage: RowStage,
    layout: LinearLayout,
    buffer: SSAValue,
    part: int,
) -> None:
    """This thread's elements of a part, by `stmatrix`, each row a little further."""
    b, tiles = ctx.b, stage.tiles
    value = b.shuffle(ctx.value(op.value), None, _registers(layout, stage, part))
    words = b.bitcast(value, vector_type(integer_type(32), bit_width(value.type) // 32))
    offset = ctx.threads.linear(tiles.lane, tiles.warp)
    row = b.lshr(offset, b.i32(stage.row_bytes.bit_length() - 1))
    offset = b.add(offset, b.mul(row, b.i32(stage.pitch - stage.row_bytes)))
    base = b.gep(buffer, b.zext(offset, integer_type(64)))
    for group, place in enumerate(tiles.offsets):
        matrices = b.slice(words, group * tiles.count, tiles.count)
        b.stmatrix(matrices, b.gep(base, stage.spread(place)), tiles.transposed)


def _registers(layout: LinearLayout, stage: RowStage, part: int) -> Sequence[int]:
    """The registers of the tile that have a part, in the order of the part's."""
    places = zip(register_coordinates(layout, 0), register_coordinates(layout, 1), strict=True)
    register = {place: number for number, place in enumerate(places)}
    rows, columns = (register_coordinates(stage.layout, axis) for axis in (0, 1))
    first = part * stage.columns
    return [register[row, first + column] for row, column in zip(rows, columns, strict=True)]


def _write_places(
    ctx: KernelLowering,
    op: tas.StoreRowsOp,
    stage: RowStage,
    by_rows: LinearLayout,
    buffer: SSAValue,
) -> None:
    """The address of this thread's row, and a bit for each chunk that the mask has."""
    b = ctx.b
    row = b.mul(thread_coordinate(ctx, by_rows, 0), b.i32(stage.pitch))
    place = b.gep(b.gep(buffer, b.zext(row, integer_type(64))), stage.row_bytes)
    owner, pointer = ctx.owner(by_rows), b.extract(ctx.value(op.pointers), 0)
    b.masked_store(pointer, place, owner, POINTER_BYTES)
    if op.mask is None:
        return
    mask = ctx.value(op.mask)
    bits = [
        b.select(b.extract(mask, number), b.i32(1 << number), b.i32(0))
        for number in range(lanes_of(mask.type) or 1)
    ]
    b.masked_store(reduce(b.or_, bits), b.gep(place, POINTER_BYTES), owner, WORD_BYTES)


def _store(
    ctx: KernelLowering, op: tas.StoreRowsOp, stage: RowStage, buffer: SSAValue, part: int
) -> None:
    """Rows of a part, neighbouring lanes next to each other, a few rows at once."""
    b, lanes = ctx.b, stage.row_bytes // ACCESS_BYTES
    together = THREADS * ctx.num_warps // lanes
    thread = b.thread_id()
    lane = b.and_(thread, b.i32(lanes - 1))
    row = b.lshr(thread, b.i32(lanes.bit_length() - 1))
    base = b.gep(buffer, b.zext(b.mul(row, b.i32(stage.pitch)), integer_type(64)))
    along = b.zext(b.mul(lane, b.i32(ACCESS_BYTES)), integer_type(64))
    columns = ACCESS_BYTES // stage.element_bytes
    bit = b.lshr(b.mul(lane, b.i32(columns)), b.i32(op.chunk.data.bit_length() - 1))
    bit = b.add(bit, b.i32(part * stage.columns // op.chunk.data))
    exists = None
    if together > stage.rows:
        exists = b.icmp("ult", row, b.i32(stage.rows))
    stores: list[tuple[SSAValue, SSAValue, SSAValue | None]] = []
    for first in range(0, stage.rows, together):
        here = b.gep(base, first * stage.pitch)
        there = b.gep(here, stage.row_bytes)
        pointer = b.load(there, integer_type(64), POINTER_BYTES)
        guard = exists
        if op.mask is not None:
            word = b.load(b.gep(there, POINTER_BYTES), i32, WORD_BYTES)
            chosen = b.and_(b.lshr(word, bit), b.i32(1))
            guard = ctx.both(guard, b.icmp("ne", chosen, b.i32(0)))
        value = b.load(b.gep(here, along), vector_type(i32, 4), ACCESS_BYTES)
        target = b.gep(b.inttoptr(pointer, ctx.pointer), along)
        if part:
            target = b.gep(target, part * stage.row_bytes)
        stores.append((value, target, guard))
    for store in stores:
        b.masked_store(*store, ACCESS_BYTES)


RULES: LoweringRules = {
    tas.StoreRowsOp: lower_store_rows,
}

"""Tiles whose rows are scattered: staged in shared memory, then a bulk copy of each row.

Before a tile is staged the copies of the one before have read their rows: each thread waits for
those that it has started, and all for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Operation, SSAValue

from tileiras.codegen.atoms.row_stages import RowStage, stage_of_layout
from tileiras.codegen.lowering.addressing import register_coordinates, thread_coordinate
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.pointers import pointee_of
from tileiras.codegen.lowering.types import storage_bits
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.llvm.types import bit_width, integer_type, vector_type
from tileiras.errors import InternalError

WARPGROUP_WARPS = 4
ALIGN = 128
"""Bytes: where the buffer starts."""


def lower_store_rows(ctx: KernelLowering, op: Operation) -> None:
    """Part by part: waits, writes, and starts the copies."""
    if not isinstance(op, tas.StoreRowsOp):
        raise InternalError("the rule of store_rows got another operation")
    b, bits = ctx.b, storage_bits(pointee_of(ctx, op.pointers))
    layout, by_rows = ctx.layout(op.value.type), ctx.layout(op.pointers.type)
    stage = stage_of_layout(layout, ctx.num_warps // WARPGROUP_WARPS, bits)
    if stage is None:
        raise InternalError("a tile whose rows cannot be staged", where="row_stores")
    buffer = _buffer(ctx, stage.bytes)
    row = b.mul(thread_coordinate(ctx, by_rows, 0), b.i32(stage.pitch))
    source = b.gep(buffer, b.zext(row, integer_type(64)))
    for part in range(stage.parts):
        b.tma_store_wait(0, read=True)
        b.barrier()
        _write(ctx, op, stage, layout, buffer, part)
        b.fence_proxy_async()
        b.barrier()
        _start(ctx, op, stage, by_rows, source, part)
        b.tma_store_commit()
    ctx.scratch.synchronized()


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


def _start(
    ctx: KernelLowering,
    op: tas.StoreRowsOp,
    stage: RowStage,
    by_rows: LinearLayout,
    source: SSAValue,
    part: int,
) -> None:
    """The copy of this thread's row, or of those chunks of it that the mask has."""
    b, chunk, owner = ctx.b, op.chunk.data, ctx.owner(by_rows)
    size, per_part = stage.element_bytes, max(1, stage.columns // chunk)
    first = part * stage.columns // chunk
    pointers = ctx.value(op.pointers)
    target = b.inttoptr(b.extract(pointers, first), ctx.pointer)
    if chunk > stage.columns:
        target = b.gep(target, part * stage.columns % chunk * size)
    if op.mask is None:
        b.bulk_store(target, source, stage.row_bytes, owner)
        return
    mask = ctx.value(op.mask)
    chunks = [b.extract(mask, first + number) for number in range(per_part)]
    whole = reduce(b.and_, chunks)
    b.bulk_store(target, source, stage.row_bytes, ctx.both(owner, whole))
    if len(chunks) == 1:
        return
    others = ctx.both(owner, b.xor(whole, b.i1(True)))
    with ctx.where(others):
        for number, there in enumerate(chunks):
            offset = number * chunk * size
            b.bulk_store(b.gep(target, offset), b.gep(source, offset), chunk * size, there)


RULES: dict[type[Operation], Callable[[KernelLowering, Operation], None]] = {
    tas.StoreRowsOp: lower_store_rows,
}

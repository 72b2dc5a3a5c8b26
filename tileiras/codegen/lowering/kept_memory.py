"""Tiles that a CTA keeps in shared memory, and of which each thread reads what it has written.

Cell c of thread t of tile i lies at `((i * cells + c) * threads + t) * 16`: threads beside each
other access bytes beside each other, and none needs what another one has written. Of a single
element each warp has a copy, which its first lane writes: at `(i * warps + w) * bytes`.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import TensorType, i64
from xdsl.ir import Operation, SSAValue

from tileiras.codegen.lowering.context import KernelLowering, LoweringRules
from tileiras.codegen.lowering.staging import memory_element, memory_form, register_form
from tileiras.codegen.lowering.types import register_type
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.llvm.types import bit_width, lanes_of, scalar_of, vector_type
from tileiras.dialects.nv_tileaa.exchange import CELL_BYTES
from tileiras.errors import InternalError

ALL_LANES = 31
"""Fixed: the bits of a lane's number (PTX ISA)."""
ALIGNMENT = 128
"""Fixed: bytes; where a wavefront of shared memory starts."""


def lower_keep(ctx: KernelLowering, op: aa.KeepTilesOp) -> None:
    """Memory for as many tiles, and where this thread's cells begin."""
    size = op.count.data * _tile_bytes(ctx, op)
    ctx.scratch.reserve(size)
    base = ctx.prologue.address_of(ctx.shared_variable("kept", size, ALIGNMENT))
    if _is_single(op):
        own, step = ctx.threads.warp, _tile_bytes(ctx, op) // ctx.num_warps
    else:
        own, step = ctx.prologue.thread_id(), CELL_BYTES
    cell = ctx.prologue.mul(own, ctx.prologue.i32(step))
    ctx.values[op.result] = ctx.prologue.gep(base, ctx.prologue.zext(cell, i64))


def lower_write(ctx: KernelLowering, op: aa.WriteKeptOp) -> None:
    """A thread's elements into its cells."""
    b, value, place = ctx.b, memory_form(ctx, ctx.value(op.value)), _place(ctx, op)
    lanes, size = lanes_of(value.type) or 1, bit_width(scalar_of(value.type)) // 8
    if _is_single(op.tiles.owner):
        b.warp_barrier()
        with ctx.where(ctx.threads.all_zero(ALL_LANES, 0)):
            b.store(b.slice(value, 0, 1), place, size)
        b.warp_barrier()
        return
    width = CELL_BYTES // size
    for number, start in enumerate(range(0, lanes, width)):
        count = min(width, lanes - start)
        cell = b.gep(place, number * _stride(ctx))
        b.store(b.slice(value, start, count), cell, count * size)


def lower_read(ctx: KernelLowering, op: aa.ReadKeptOp) -> None:
    """A thread's elements out of its cells."""
    if not isinstance(op.result.type, TensorType):
        raise InternalError("what is kept is no tile", where="kept_memory")
    b, place = ctx.b, _place(ctx, op)
    element = register_type(op.result.type.element_type)
    stored = memory_element(element)
    size = bit_width(stored) // 8
    lanes, width = lanes_of(ctx.lowered_type(op.result.type)) or 1, CELL_BYTES // size
    if _is_single(op.tiles.owner):
        loaded = b.load(place, vector_type(stored, 1), size)
        spread = b.shuffle(loaded, None, [0] * lanes) if lanes > 1 else loaded
        ctx.values[op.result] = register_form(ctx, spread, element)
        return
    parts: list[SSAValue] = []
    for number, start in enumerate(range(0, lanes, width)):
        count = min(width, lanes - start)
        cell = b.gep(place, number * _stride(ctx))
        parts.append(b.load(cell, vector_type(stored, count), count * size))
    ctx.values[op.result] = register_form(ctx, b.concat(parts), element)


def _is_single(op: object) -> bool:
    """Whether tiles have one element."""
    return isinstance(op, aa.KeepTilesOp) and prod(op.result.type.tile.get_shape()) == 1


def _stride(ctx: KernelLowering) -> int:
    """Bytes between two cells of a thread."""
    return CELL_BYTES * 32 * ctx.num_warps


def _tile_bytes(ctx: KernelLowering, kept: aa.KeepTilesOp) -> int:
    """Bytes of a tile: the cells of all threads."""
    if _is_single(kept):
        return ctx.num_warps * -(-bit_width(register_type(kept.result.type.tile.element_type)) // 8)
    access = next(iter(kept.accesses()), None)
    if access is None:
        return 0
    tile = access.value.type if isinstance(access, aa.WriteKeptOp) else access.result.type
    type = ctx.lowered_type(tile)
    bits = (lanes_of(type) or 1) * max(8, bit_width(scalar_of(type)))
    return -(-bits // (8 * CELL_BYTES)) * _stride(ctx)


def _place(ctx: KernelLowering, op: aa.WriteKeptOp | aa.ReadKeptOp) -> SSAValue:
    """The thread's first cell of a tile."""
    kept: Operation | object = op.tiles.owner
    if not isinstance(kept, aa.KeepTilesOp):
        raise InternalError("tiles are kept nowhere", where="kept_memory")
    offset = ctx.b.mul(ctx.value(op.index), ctx.b.i32(_tile_bytes(ctx, kept)))
    return ctx.b.gep(ctx.value(op.tiles), ctx.b.zext(offset, i64))


RULES: LoweringRules = {
    aa.KeepTilesOp: lower_keep,
    aa.WriteKeptOp: lower_write,
    aa.ReadKeptOp: lower_read,
}

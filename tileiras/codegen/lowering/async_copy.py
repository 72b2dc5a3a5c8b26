"""Pipelined loads: cp.async into memory that each thread reads again by itself.

A stage has cells of 16 bytes (`#nv_tileas.thread_cells`), and a thread has the same bytes in the
stages of all loads. A thread writes nothing that another one reads: waiting for its own copies is
enough.

Stages of operands that products read there (`#nv_tileas.shared_linear`) hold the tile as a layout
says. Such a tile is in no registers: `ctx.smem_tiles` says where it lies.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import i64
from xdsl.ir import Operation, SSAValue

from tileiras.codegen.atoms.shared_operands import PATTERN_BYTES
from tileiras.codegen.lowering.addressing import combinations
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.padding import padding_bits
from tileiras.codegen.lowering.smem_tiles import SmemTile
from tileiras.codegen.lowering.staging import addresses, memory_element, register_form
from tileiras.codegen.lowering.types import register_type
from tileiras.codegen.lowering.views import TileAccess, ViewAddressing, gather_order
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.blocked import contiguous_vector
from tileiras.dialects.layout.offsets import offset_bases, register_representatives
from tileiras.dialects.llvm.types import integer_type, lanes_of, vector_type
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileaa.exchange import CELL_BYTES
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.dialects.nv_tileas.memory import BUFFER_ALIGN, buffer_type
from tileiras.errors import CompileError, InternalError

WORD_BYTES = 4
COPY_BYTES = (4, 8, 16)
"""What cp.async copies at once. 16 bytes might pass by L1 (`.cg`): decoding of 256 times 4096 keys
took 281 us on one H100 then, and 183 without.
"""


@dataclass(frozen=True)
class _Pieces:
    """A thread's part of a tile: `count` pieces of `bytes`, several of them in a cell."""

    count: int
    bytes: int

    @property
    def cells(self) -> int:
        """Cells of a thread."""
        return -(-self.count * self.bytes // CELL_BYTES)


def _pieces(op: tas.AsyncCopyOp | tas.ReadStageOp, layout: LinearLayout) -> _Pieces:
    """What a thread copies."""
    size = storage_bytes(view_type_of(op.view).memref.element_type)
    width = contiguous_vector(layout, op.axis.data, op.vector.data)
    if width * size not in COPY_BYTES:
        raise InternalError(f"a load in pieces of {width * size} bytes was started early")
    unique = register_representatives(layout)
    count = sum(1 for r in range(0, len(unique), width) if unique[r] == r)
    return _Pieces(count, width * size)


def allocate_buffers(ctx: KernelLowering, func: aa.FuncOp) -> None:
    """One variable for all buffers of pipelined loads; where in it each lies has been decided."""
    buffers = [op for op in func.walk() if isinstance(op, tas.AllocTensorOp) and op.has_place]
    if not buffers:
        return
    starts = [_start(op) for op in buffers]
    total = max(start + op.bytes for op, start in zip(buffers, starts, strict=True))
    ctx.scratch.reserve(total)
    variable = ctx.shared_variable("load_rings", total, BUFFER_ALIGN)
    base = ctx.prologue.address_of(variable)
    ctx.buffer_memory = (base, total)
    cell = ctx.prologue.mul(ctx.prologue.thread_id(), ctx.prologue.i32(CELL_BYTES))
    own = ctx.prologue.gep(base, ctx.prologue.zext(cell, i64))
    for op, start in zip(buffers, starts, strict=True):
        first = own if buffer_type(op.result).shared_linear is None else base
        ctx.values[op.result] = ctx.prologue.gep(first, start)


def _start(op: tas.AllocTensorOp) -> int:
    """The first byte of a buffer."""
    if op.offset is None:
        raise CompileError(
            "a buffer has no place: tileas-optimize-alloc-tensor comes before", place_of(op)
        )
    return op.offset.data


def _stage(ctx: KernelLowering, op: tas.AsyncCopyOp | tas.ReadStageOp) -> SSAValue:
    """The first byte of a stage, or of the thread's first cell there."""
    b, buffer = ctx.b, op.buffer.owner
    if not isinstance(buffer, tas.AllocTensorOp):
        raise InternalError("a buffer that is not allocated", where="async_copy")
    offset = b.mul(ctx.value(op.stage), b.i32(buffer.stage_bytes))
    return b.gep(ctx.value(op.buffer), b.zext(offset, i64))


def _access(
    ctx: KernelLowering, op: tas.AsyncCopyOp | tas.ReadStageOp, layout: LinearLayout
) -> TileAccess:
    """What this thread reads of the tile at the indices of an operation."""
    promised = [int(flag) for flag in op.inbounds.get_values()] or [0] * len(op.indices)
    view = ViewAddressing(ctx, op.view, op.indices, promised, layout)
    return view.access(op.vector.data, op.axis.data)


def lower_async_copy(ctx: KernelLowering, op: tas.AsyncCopyOp) -> None:
    """One copy for each piece; zeros where there is nothing to read."""
    layout = op.layout.data
    pieces = _pieces(op, layout)
    b, access = ctx.b, _access(ctx, op, layout)
    targets = _targets(ctx, op, pieces, access)
    guard = ctx.both(access.guard, ctx.value(op.predicate))
    ignored = None if guard is None else b.not_(guard)
    cache = "cg" if op.streamed is not None and pieces.bytes == CELL_BYTES else "ca"
    for piece, target in enumerate(targets):
        source = b.extract(access.pointers, piece)
        ignore = ignored
        if ignored is not None and lanes_of(ignored.type) is not None:
            ignore = b.extract(ignored, piece)
        b.cp_async(target, source, pieces.bytes, cache, ignore=ignore)


def _targets(
    ctx: KernelLowering, op: tas.AsyncCopyOp, pieces: _Pieces, access: TileAccess
) -> list[SSAValue]:
    """Where the thread copies its pieces to."""
    b, layout = ctx.b, op.layout.data
    if op.shared is None:
        cell, stride = _stage(ctx, op), CELL_BYTES * 32 * ctx.num_warps
        places = [divmod(piece * pieces.bytes, CELL_BYTES) for piece in range(pieces.count)]
        return [b.gep(cell, number * stride + rest) for number, rest in places]
    shared = op.shared
    size = storage_bytes(view_type_of(op.view).memref.element_type)
    bases = offset_bases(layout, shared)
    held = combinations(bases.vectors("register"))
    firsts = access.registers[:: access.vector]
    region = _stage(ctx, op)
    offsets = [held[register] for register in firsts]
    pointers = addresses(ctx, region, bases, offsets, size, shared.size)
    return [b.extract(pointers, piece) for piece in range(pieces.count)]


def lower_async_commit_group(ctx: KernelLowering, op: Operation) -> None:
    """What has been started since the last time is one group."""
    ctx.b.cp_async_commit()


def lower_async_wait_group(ctx: KernelLowering, op: aa.AsyncWaitGroupOp) -> None:
    """Copies that only write zeros must be over as well before others write there."""
    ctx.b.cp_async_wait(op.pending.data if op.pending is not None else 0)
    if op.meet is not None:
        ctx.barrier()
    if op.frees is not None and ctx.buffer_memory is not None:
        base, size = ctx.buffer_memory
        ctx.scratch.move(base, size, always=True)
        ctx.scratch.synchronized()


def lower_read_stage(ctx: KernelLowering, op: tas.ReadStageOp) -> None:
    """The thread reads its cells; what the copies have filled with zeros gets the padding."""
    if op.pending is not None:
        ctx.b.cp_async_wait(op.pending.data)
    if op.shared is not None:
        ctx.smem_tiles[op.result] = SmemTile(_stage(ctx, op), op.shared)
        return
    layout = ctx.layout(op.result.type)
    b, pieces = ctx.b, _pieces(op, layout)
    type_ = view_type_of(op.view)
    element = register_type(type_.memref.element_type)
    access = _access(ctx, op, layout)
    size = storage_bytes(type_.memref.element_type)
    cell, total = _stage(ctx, op), pieces.count * pieces.bytes
    parts: list[SSAValue] = []
    for number in range(pieces.cells):
        taken = min(CELL_BYTES, total - number * CELL_BYTES)
        part = vector_type(memory_element(element), taken // size)
        place = b.gep(cell, number * CELL_BYTES * 32 * ctx.num_warps)
        parts.append(b.load(place, part, taken))
    loaded = b.concat(parts)
    bits = padding_bits(type_.memref.element_type, type_.padding_value)
    if bits and access.guard is not None:
        loaded = _padded(ctx, access, loaded, size, bits)
    ordered = b.shuffle(loaded, None, gather_order(layout, access.registers))
    ctx.values[op.result] = register_form(ctx, ordered, element)


def _padded(
    ctx: KernelLowering, access: TileAccess, loaded: SSAValue, size: int, bits: int
) -> SSAValue:
    """What was read, with the padding's `bits` where an element of `size` bytes is out of bounds.

    Elements of a word are in bounds together, for copies are of whole words: a choice for each.
    """
    b, elements = ctx.b, max(1, WORD_BYTES // size)
    guard, count, type = access.guard, len(access.registers), loaded.type
    if guard is None:
        raise InternalError("an access without bounds")
    if lanes_of(guard.type) is not None:
        each = b.shuffle(guard, None, [i // access.vector for i in range(0, count, elements)])
    else:
        each = b.splat(guard, count // elements)
    padding = b.const_bits(type, bits)
    if elements > 1:
        words = vector_type(integer_type(8 * WORD_BYTES), count // elements)
        loaded, padding = b.bitcast(loaded, words), b.bitcast(padding, words)
    return b.bitcast(b.select(each, loaded, padding), type)


def lower_alloc_tensor(ctx: KernelLowering, op: tas.AllocTensorOp) -> None:
    """A variable for a buffer that shares its memory with nobody; others have their place."""
    if op.has_place:
        return
    ctx.scratch.reserve(op.bytes)
    variable = ctx.shared_variable("pieces", op.bytes, PATTERN_BYTES)
    ctx.values[op.result] = ctx.prologue.address_of(variable)


ASYNC_COPY_RULES = {
    tas.AllocTensorOp: lower_alloc_tensor,
    aa.AsyncCommitGroupOp: lower_async_commit_group,
    aa.AsyncWaitGroupOp: lower_async_wait_group,
    tas.AsyncCopyOp: lower_async_copy,
    tas.ReadStageOp: lower_read_stage,
}

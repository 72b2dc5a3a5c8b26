"""Pipelined loads: cp.async into memory that each thread reads again by itself.

A stage has cells of 16 bytes: cell c of thread t lies at `(c * threads + t) * 16`, so that a warp's
accesses are free of bank conflicts, and a thread has the same bytes in the stages of all loads. A
thread writes nothing that another one reads: waiting for its own copies is enough.

Stages of operands that products read there hold the tile as the `shared` layout says. Such a tile
is in no registers: `ctx.smem_tiles` says where it lies.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import i64
from xdsl.ir import Operation, SSAValue

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
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.errors import InternalError

CELL_BYTES, WORD_BYTES = 16, 4
COPY_BYTES = (4, 8, 16)
"""What cp.async copies at once. 16 bytes might pass by L1 (`.cg`): decoding of 256 times 4096 keys
took 281 us on one H100 then, and 183 without.
"""
MEMORY_ALIGN = 128


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


def allocate_circular_buffers(ctx: KernelLowering, func: aa.FuncOp) -> None:
    """One variable for all circular buffers; those of loops that are not nested share memory.

    But not with a circular buffer that several loops read: it comes before all others.
    """
    ends: dict[Operation, int] = {}
    starts: dict[SSAValue, int] = {}
    buffers = [op for op in func.walk() if isinstance(op, aa.CircularBufferOp)]
    kept = 0
    for op in buffers:
        if len(_finishes(op.result)) > 1:
            starts[op.result] = kept
            kept += _buffer_bytes(ctx, op)
    for op in buffers:
        if op.result in starts:
            continue
        loop = _finishing(op.result).parent_op()
        if loop is None:
            raise InternalError("a load is finished in no loop")
        if loop not in ends:
            ends[loop] = _end_around(loop, ends, kept)
        starts[op.result] = ends[loop]
        ends[loop] += _buffer_bytes(ctx, op)
    total = max(ends.values(), default=kept)
    if not total:
        return
    ctx.scratch.reserve(total)
    variable = ctx.shared_variable("load_rings", total, MEMORY_ALIGN)
    base = ctx.prologue.address_of(variable)
    ctx.circular_buffer_memory = (base, total)
    cell = ctx.prologue.mul(ctx.prologue.thread_id(), ctx.prologue.i32(CELL_BYTES))
    own = ctx.prologue.gep(base, ctx.prologue.zext(cell, i64))
    for op in buffers:
        first = base if _finishing(op.result).shared is not None else own
        ctx.circular_buffers[op.result] = ctx.prologue.gep(first, starts[op.result])


def _finishes(buffer: SSAValue) -> list[tas.ReadStageOp]:
    """The operations that read a circular buffer."""
    return [use.operation for use in buffer.uses if isinstance(use.operation, tas.ReadStageOp)]


def _finishing(buffer: SSAValue) -> tas.ReadStageOp:
    """One operation that reads a circular buffer: all do it in the same layout."""
    for op in _finishes(buffer):
        return op
    raise InternalError("a circular buffer that nobody reads")


def _end_around(loop: Operation, ends: dict[Operation, int], kept: int) -> int:
    """Where the circular buffers of the loops around end, or those that loops share."""
    parent = loop.parent_op()
    while parent is not None:
        if parent in ends:
            return ends[parent]
        parent = parent.parent_op()
    return kept


def _stage_bytes(ctx: KernelLowering, pieces: _Pieces) -> int:
    return pieces.cells * CELL_BYTES * 32 * ctx.num_warps


def _shared_bytes(op: tas.AsyncCopyOp | tas.ReadStageOp, layout: LinearLayout) -> int:
    """Bytes of a stage that all threads read."""
    size = layout.size * storage_bytes(view_type_of(op.view).memref.element_type)
    return -(-size // MEMORY_ALIGN) * MEMORY_ALIGN


def _buffer_bytes(ctx: KernelLowering, buffer: aa.CircularBufferOp) -> int:
    """Bytes of all stages of a circular buffer."""
    finish = _finishing(buffer.result)
    if finish.shared is not None:
        stage = _shared_bytes(finish, finish.shared.data)
    else:
        stage = _stage_bytes(ctx, _pieces(finish, ctx.layout(finish.result.type)))
    return buffer.stages.data * stage


def _shared_stage(
    ctx: KernelLowering, op: tas.AsyncCopyOp | tas.ReadStageOp, layout: LinearLayout
) -> SSAValue:
    """The first byte of a stage that all threads read."""
    b = ctx.b
    offset = b.mul(ctx.value(op.stage), b.i32(_shared_bytes(op, layout)))
    return b.gep(ctx.circular_buffers[op.buffer], b.zext(offset, i64))


def _stage(ctx: KernelLowering, buffer: SSAValue, stage: SSAValue, pieces: _Pieces) -> SSAValue:
    """The thread's first cell of a stage."""
    b = ctx.b
    offset = b.mul(ctx.value(stage), b.i32(_stage_bytes(ctx, pieces)))
    return b.gep(ctx.circular_buffers[buffer], b.zext(offset, i64))


def _access(
    ctx: KernelLowering, op: tas.AsyncCopyOp | tas.ReadStageOp, layout: LinearLayout
) -> TileAccess:
    """What this thread reads of the tile at the indices of an operation."""
    promised = [int(flag) for flag in op.inbounds.get_values()] or [0] * len(op.indices)
    view = ViewAddressing(ctx, op.view, op.indices, promised, layout)
    return view.access(op.vector.data, op.axis.data)


def lower_async_copy(ctx: KernelLowering, op: Operation) -> None:
    """One copy for each piece; zeros where there is nothing to read."""
    if not isinstance(op, tas.AsyncCopyOp):
        raise InternalError("the rule of async_copy got another operation")
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
        cell, stride = _stage(ctx, op.buffer, op.stage, pieces), CELL_BYTES * 32 * ctx.num_warps
        places = [divmod(piece * pieces.bytes, CELL_BYTES) for piece in range(pieces.count)]
        return [b.gep(cell, number * stride + rest) for number, rest in places]
    shared = op.shared.data
    size = storage_bytes(view_type_of(op.view).memref.element_type)
    bases = offset_bases(layout, shared)
    held = combinations(bases.vectors("register"))
    firsts = access.registers[:: access.vector]
    region = _shared_stage(ctx, op, shared)
    offsets = [held[register] for register in firsts]
    pointers = addresses(ctx, region, bases, offsets, size, shared.size)
    return [b.extract(pointers, piece) for piece in range(pieces.count)]


def lower_async_commit_group(ctx: KernelLowering, op: Operation) -> None:
    """What has been started since the last time is one group."""
    ctx.b.cp_async_commit()


def lower_async_wait_group(ctx: KernelLowering, op: Operation) -> None:
    """Copies that only write zeros must be over as well before others write there."""
    if not isinstance(op, aa.AsyncWaitGroupOp):
        raise InternalError("the rule of async_wait_group got another operation")
    ctx.b.cp_async_wait(op.pending.data if op.pending is not None else 0)
    if op.meet is not None:
        ctx.barrier()
    if op.frees is not None and ctx.circular_buffer_memory is not None:
        base, size = ctx.circular_buffer_memory
        ctx.scratch.move(base, size, always=True)
        ctx.scratch.synchronized()


def lower_read_stage(ctx: KernelLowering, op: Operation) -> None:
    """The thread reads its cells; what the copies have filled with zeros gets the padding."""
    if not isinstance(op, tas.ReadStageOp):
        raise InternalError("the rule of read_stage got another operation")
    if op.pending is not None:
        ctx.b.cp_async_wait(op.pending.data)
    if op.shared is not None:
        shared = op.shared.data
        ctx.smem_tiles[op.result] = SmemTile(_shared_stage(ctx, op, shared), shared)
        return
    layout = ctx.layout(op.result.type)
    b, pieces = ctx.b, _pieces(op, layout)
    type_ = view_type_of(op.view)
    element = register_type(type_.memref.element_type)
    access = _access(ctx, op, layout)
    size = storage_bytes(type_.memref.element_type)
    cell, total = _stage(ctx, op.buffer, op.stage, pieces), pieces.count * pieces.bytes
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


def lower_nothing(ctx: KernelLowering, op: Operation) -> None:
    """Circular buffers are allocated before anything else."""


ASYNC_COPY_RULES = {
    aa.CircularBufferOp: lower_nothing,
    aa.AsyncCommitGroupOp: lower_async_commit_group,
    aa.AsyncWaitGroupOp: lower_async_wait_group,
    tas.AsyncCopyOp: lower_async_copy,
    tas.ReadStageOp: lower_read_stage,
}

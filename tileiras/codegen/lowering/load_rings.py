"""Loads that are started early: cp.async into memory that each thread reads again by itself.

A slot has cells of 16 bytes: cell c of thread t lies at `(c * threads + t) * 16`, so that a warp's
accesses are free of bank conflicts, and a thread has the same bytes in the slots of all loads. A
thread writes nothing that another one reads: waiting for its own copies is enough.

Slots of operands that products read there hold the tile as the `shared` layout says. Such a tile is
in no registers: `ctx.slot_tiles` says where it lies.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import i64
from xdsl.ir import Operation, SSAValue

from tileiras.codegen.lowering.addressing import combinations
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.padding import padding_bits
from tileiras.codegen.lowering.slot_tiles import SlotTile
from tileiras.codegen.lowering.staging import addresses, memory_element, register_form
from tileiras.codegen.lowering.types import register_type
from tileiras.codegen.lowering.views import TileAccess, ViewAddressing, gather_order
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.blocked import contiguous_vector
from tileiras.dialects.layout.offsets import offset_bases, register_representatives
from tileiras.dialects.llvm.types import lanes_of, vector_type
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.errors import InternalError

CELL_BYTES = 16
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


def _pieces(op: tas.StartLoadOp | tas.FinishLoadOp, layout: LinearLayout) -> _Pieces:
    """What a thread copies."""
    size = storage_bytes(view_type_of(op.view).memref.element_type)
    width = contiguous_vector(layout, op.axis.data, op.vector.data)
    if width * size not in COPY_BYTES:
        raise InternalError(f"a load in pieces of {width * size} bytes was started early")
    unique = register_representatives(layout)
    count = sum(1 for r in range(0, len(unique), width) if unique[r] == r)
    return _Pieces(count, width * size)


def allocate_load_rings(ctx: KernelLowering, func: aa.FuncOp) -> None:
    """One variable for all rings; those of loops that are not nested share memory.

    But not with a ring that several loops read: it comes before all others.
    """
    ends: dict[Operation, int] = {}
    starts: dict[SSAValue, int] = {}
    rings = [op for op in func.walk() if isinstance(op, aa.LoadRingOp)]
    kept = 0
    for op in rings:
        if len(_finishes(op.result)) > 1:
            starts[op.result] = kept
            kept += _ring_bytes(ctx, op)
    for op in rings:
        if op.result in starts:
            continue
        loop = _finishing(op.result).parent_op()
        if loop is None:
            raise InternalError("a load is finished in no loop")
        if loop not in ends:
            ends[loop] = _end_around(loop, ends, kept)
        starts[op.result] = ends[loop]
        ends[loop] += _ring_bytes(ctx, op)
    total = max(ends.values(), default=kept)
    if not total:
        return
    ctx.scratch.reserve(total)
    variable = ctx.shared_variable("load_rings", total, MEMORY_ALIGN)
    base = ctx.prologue.address_of(variable)
    ctx.load_ring_memory = (base, total)
    cell = ctx.prologue.mul(ctx.prologue.thread_id(), ctx.prologue.i32(CELL_BYTES))
    own = ctx.prologue.gep(base, ctx.prologue.zext(cell, i64))
    for op in rings:
        first = base if _finishing(op.result).shared is not None else own
        ctx.load_rings[op.result] = ctx.prologue.gep(first, starts[op.result])


def _finishes(ring: SSAValue) -> list[tas.FinishLoadOp]:
    """The operations that read a ring."""
    return [use.operation for use in ring.uses if isinstance(use.operation, tas.FinishLoadOp)]


def _finishing(ring: SSAValue) -> tas.FinishLoadOp:
    """One operation that reads a ring: all do it in the same layout."""
    for op in _finishes(ring):
        return op
    raise InternalError("a ring that nobody reads")


def _end_around(loop: Operation, ends: dict[Operation, int], kept: int) -> int:
    """Where the rings of the loops around end, or those that loops share."""
    parent = loop.parent_op()
    while parent is not None:
        if parent in ends:
            return ends[parent]
        parent = parent.parent_op()
    return kept


def _slot_bytes(ctx: KernelLowering, pieces: _Pieces) -> int:
    return pieces.cells * CELL_BYTES * 32 * ctx.num_warps


def _shared_bytes(op: tas.StartLoadOp | tas.FinishLoadOp, layout: LinearLayout) -> int:
    """Bytes of a slot that all threads read."""
    size = layout.size * storage_bytes(view_type_of(op.view).memref.element_type)
    return -(-size // MEMORY_ALIGN) * MEMORY_ALIGN


def _ring_bytes(ctx: KernelLowering, ring: aa.LoadRingOp) -> int:
    """Bytes of all slots of a ring."""
    finish = _finishing(ring.result)
    if finish.shared is not None:
        slot = _shared_bytes(finish, finish.shared.data)
    else:
        slot = _slot_bytes(ctx, _pieces(finish, ctx.layout(finish.result.type)))
    return ring.slots.data * slot


def _shared_slot(
    ctx: KernelLowering, op: tas.StartLoadOp | tas.FinishLoadOp, layout: LinearLayout
) -> SSAValue:
    """The first byte of a slot that all threads read."""
    b = ctx.b
    offset = b.mul(ctx.value(op.slot), b.i32(_shared_bytes(op, layout)))
    return b.gep(ctx.load_rings[op.ring], b.zext(offset, i64))


def _slot(ctx: KernelLowering, ring: SSAValue, slot: SSAValue, pieces: _Pieces) -> SSAValue:
    """The thread's first cell of a slot."""
    b = ctx.b
    offset = b.mul(ctx.value(slot), b.i32(_slot_bytes(ctx, pieces)))
    return b.gep(ctx.load_rings[ring], b.zext(offset, i64))


def _access(
    ctx: KernelLowering, op: tas.StartLoadOp | tas.FinishLoadOp, layout: LinearLayout
) -> TileAccess:
    """What this thread reads of the tile at the indices of an operation."""
    promised = [int(flag) for flag in op.inbounds.get_values()] or [0] * len(op.indices)
    view = ViewAddressing(ctx, op.view, op.indices, promised, layout)
    return view.access(op.vector.data, op.axis.data)


def lower_start_load(ctx: KernelLowering, op: Operation) -> None:
    """One copy for each piece; zeros where there is nothing to read."""
    if not isinstance(op, tas.StartLoadOp):
        raise InternalError("the rule of start_load got another operation")
    layout = op.layout.data
    pieces = _pieces(op, layout)
    b, access = ctx.b, _access(ctx, op, layout)
    targets = _targets(ctx, op, pieces, access)
    guard = ctx.both(access.guard, ctx.value(op.predicate))
    ignored = None if guard is None else b.not_(guard)
    for piece, target in enumerate(targets):
        source = b.extract(access.pointers, piece)
        ignore = ignored
        if ignored is not None and lanes_of(ignored.type) is not None:
            ignore = b.extract(ignored, piece)
        b.cp_async(target, source, pieces.bytes, "ca", ignore=ignore)


def _targets(
    ctx: KernelLowering, op: tas.StartLoadOp, pieces: _Pieces, access: TileAccess
) -> list[SSAValue]:
    """Where the thread copies its pieces to."""
    b, layout = ctx.b, op.layout.data
    if op.shared is None:
        cell, stride = _slot(ctx, op.ring, op.slot, pieces), CELL_BYTES * 32 * ctx.num_warps
        places = [divmod(piece * pieces.bytes, CELL_BYTES) for piece in range(pieces.count)]
        return [b.gep(cell, number * stride + rest) for number, rest in places]
    shared = op.shared.data
    size = storage_bytes(view_type_of(op.view).memref.element_type)
    bases = offset_bases(layout, shared)
    held = combinations(bases.vectors("register"))
    firsts = access.registers[:: access.vector]
    region = _shared_slot(ctx, op, shared)
    offsets = [held[register] for register in firsts]
    pointers = addresses(ctx, region, bases, offsets, size, shared.size)
    return [b.extract(pointers, piece) for piece in range(pieces.count)]


def lower_commit_loads(ctx: KernelLowering, op: Operation) -> None:
    """What has been started since the last time is one group."""
    ctx.b.cp_async_commit()


def lower_wait_loads(ctx: KernelLowering, op: Operation) -> None:
    """Copies that only write zeros must be over as well before others write there."""
    if not isinstance(op, aa.WaitLoadsOp):
        raise InternalError("the rule of wait_loads got another operation")
    ctx.b.cp_async_wait(op.pending.data if op.pending is not None else 0)
    if op.meet is not None:
        ctx.barrier()
    if op.frees is not None and ctx.load_ring_memory is not None:
        base, size = ctx.load_ring_memory
        ctx.scratch.move(base, size, always=True)
        ctx.scratch.synchronized()


def lower_finish_load(ctx: KernelLowering, op: Operation) -> None:
    """The thread reads its cells; what the copies have filled with zeros gets the padding."""
    if not isinstance(op, tas.FinishLoadOp):
        raise InternalError("the rule of finish_load got another operation")
    if op.pending is not None:
        ctx.b.cp_async_wait(op.pending.data)
    if op.shared is not None:
        shared = op.shared.data
        ctx.slot_tiles[op.result] = SlotTile(_shared_slot(ctx, op, shared), shared)
        return
    layout = ctx.layout(op.result.type)
    b, pieces = ctx.b, _pieces(op, layout)
    type_ = view_type_of(op.view)
    element = register_type(type_.memref.element_type)
    access = _access(ctx, op, layout)
    size = storage_bytes(type_.memref.element_type)
    cell, total = _slot(ctx, op.ring, op.slot, pieces), pieces.count * pieces.bytes
    parts: list[SSAValue] = []
    for number in range(pieces.cells):
        taken = min(CELL_BYTES, total - number * CELL_BYTES)
        part = vector_type(memory_element(element), taken // size)
        place = b.gep(cell, number * CELL_BYTES * 32 * ctx.num_warps)
        parts.append(b.load(place, part, taken))
    loaded = b.concat(parts)
    bits = padding_bits(type_.memref.element_type, type_.padding_value)
    if bits and access.guard is not None:
        loaded = b.select(_each(ctx, access), loaded, b.const_bits(loaded.type, bits))
    ordered = b.shuffle(loaded, None, gather_order(layout, access.registers))
    ctx.values[op.result] = register_form(ctx, ordered, element)


def _each(ctx: KernelLowering, access: TileAccess) -> SSAValue:
    """For each element that is read whether it is in bounds."""
    guard = access.guard
    if guard is None:
        raise InternalError("an access without bounds")
    elements = range(len(access.registers))
    if lanes_of(guard.type) is not None:
        return ctx.b.shuffle(guard, None, [i // access.vector for i in elements])
    return ctx.b.splat(guard, len(access.registers))


def lower_nothing(ctx: KernelLowering, op: Operation) -> None:
    """Rings are allocated before anything else."""


LOAD_RING_RULES = {
    aa.LoadRingOp: lower_nothing,
    aa.CommitLoadsOp: lower_commit_loads,
    aa.WaitLoadsOp: lower_wait_loads,
    tas.StartLoadOp: lower_start_load,
    tas.FinishLoadOp: lower_finish_load,
}

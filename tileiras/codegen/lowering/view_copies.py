"""Tiles of views that threads copy into the pipeline by cp.async, in the layout that wgmma reads.

A thread copies chunks of many rows, whose addresses lie a fixed number of bytes apart: it adds that
to the address before, and so holds one. Whether the whole tile is in bounds is asked once; only
where it is not, bounds are asked of every chunk, and of one that they cut how much of it to read.

Less than 4 bytes cp.async does not copy: a thread loads the elements of 4 bytes and stores these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Block, Operation, SSAValue

from tileiras.codegen.lowering.addressing import register_coordinates, thread_coordinate
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.gathers import CACHES, chunk_offsets, thread_bits
from tileiras.codegen.lowering.types import storage_bytes
from tileiras.codegen.lowering.views import ViewAddressing
from tileiras.dialects.cuda_tile.types import DYNAMIC
from tileiras.dialects.llvm.types import integer_type
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas.chunks import chunk_layout

GROUP = 8
"""Words that a thread loads before it stores them."""


@dataclass(frozen=True)
class Chunk:
    """A chunk of a thread: by how much it is apart from the first one, by tile dim and in a stage.

    The latter in two parts: what is exchanged (`^`) with the thread's own bits, and what is added.
    """

    steps: tuple[int, ...]
    mixed: int
    added: int


@dataclass(frozen=True)
class Bounds:
    """Limits of a thread's chunks: coordinates left from its first chunk on, None if never asked.

    `is_inside`: whether all dims along which its chunks do not differ are in bounds. `asked`: what
    is known of a step along a dim.
    """

    left: tuple[SSAValue | None, ...]
    is_inside: SSAValue | None
    asked: dict[tuple[int, int], SSAValue] = field(default_factory=dict[tuple[int, int], SSAValue])


def lower_copy_load(ctx: KernelLowering, op: pl.CopyLoadOp) -> None:
    """Every thread copies its chunks of the tile, as large as their addresses turn out to allow."""
    b, after = ctx.b, ctx.b.new_block()
    *hoped, proven = op.vectors.data
    low = ViewCopies(ctx, op, proven).low_bits() if hoped else None
    for vector in hoped:
        copies = ViewCopies(ctx, op, vector)
        fitting, otherwise = b.new_block(), b.new_block()
        rest = b.and_(low or b.i32(0), b.i32(copies.bytes - 1))
        b.cond_br(b.icmp("eq", rest, b.i32(0)), fitting, otherwise)
        b.at(fitting)
        copies.copy_tile()
        b.br(after)
        b.at(otherwise)
    ViewCopies(ctx, op, proven).copy_tile()
    b.br(after)
    b.at(after)


class ViewCopies(ViewAddressing):
    """A thread's copies of one tile."""

    def __init__(self, ctx: KernelLowering, op: pl.CopyLoadOp, vector: int):
        type = view_type_of(op.view)
        size = storage_bytes(type.memref.element_type)
        self.piece = vector * size
        vector = max(vector, min(CACHES) // size)
        layout = chunk_layout(type.tile_shape, op.axis.data, vector, ctx.roles.working_warps)
        promised = [int(flag) for flag in op.inbounds.get_values()]
        super().__init__(ctx, op.view, op.indices, promised or [0] * layout.rank, layout)
        self.op = op
        self.axis = op.axis.data
        self.bytes = vector * self.size
        self.terms = chunk_offsets(layout, self.axis, 8 * self.size, op.swizzle.data)
        self.chunks = thread_chunks(self)

    def low_bits(self) -> SSAValue:
        """i32: bits that are zero in every chunk's address if they are in this one."""
        b = self.ctx.b
        low = self.ctx.value(self.memref.base)
        low = low if low.type == i64 else b.ptrtoint(low, i64)
        for axis in range(self.layout.rank):
            if axis != self.axis:
                low = b.or_(low, self._stride_bytes(axis))
        return b.trunc(low, i32)

    def copy_tile(self) -> None:
        """The thread's chunks, with bounds only where some are out of them."""
        b, inside = self.ctx.b, self.is_inside()
        source, places = self._first_source(), self._places()
        if inside is None:
            self._copy(source, places, None)
        else:
            whole, cut, after = b.new_block(), b.new_block(), b.new_block()
            b.cond_br(inside, whole, cut)
            b.at(whole)
            self._copy(source, places, None)
            b.br(after)
            b.at(cut)
            self._copy(source, places, self.bounds())
            b.br(after)
            b.at(after)
        if self.piece < self.bytes:
            # Stores, for which nobody waits as for copies.
            b.fence("acq_rel", "block")

    def is_inside(self) -> SSAValue | None:
        """i1, for all threads: whether all of the tile is in bounds; None if that is known."""
        b = self.ctx.b
        found: SSAValue | None = None
        for axis, promised in enumerate(self.inbounds):
            if promised:
                continue
            extent = 1 if self._tiles_divide(axis) else self.type.tile_shape[axis]
            room = b.sub(self._limit(axis), b.const_int(self.index_type, extent))
            has_room = b.icmp("sge", room, b.const_int(self.index_type, 0))
            fits = b.and_(has_room, b.icmp("ule", self.origin(axis), room))
            found = self.ctx.both(found, fits)
        return found

    def bounds(self) -> Bounds:
        """What a thread's chunks are compared with."""
        b = self.ctx.b
        left: list[SSAValue | None] = []
        is_inside: SSAValue | None = None
        for axis, start in enumerate(self.starts()):
            if self.inbounds[axis]:
                left.append(None)
                continue
            inside = b.icmp("ult", start, self._limit(axis))
            # Coordinates out of bounds below are so in all chunks: tiles start at multiples.
            rest = b.sub(self._limit(axis), start)
            left.append(b.select(inside, rest, b.const_int(self.index_type, 0)))
            if axis != self.axis and not any(chunk.steps[axis] for chunk in self.chunks):
                is_inside = self.ctx.both(is_inside, inside)
                left[axis] = None
        return Bounds(tuple(left), is_inside)

    def _copy(self, source: SSAValue, places: dict[int, SSAValue], bounds: Bounds | None) -> None:
        """All chunks, row after row; elements in groups, for all loads of one to be under way."""
        b, before = self.ctx.b, (0,) * self.layout.rank
        row_bytes: dict[tuple[int, ...], SSAValue] = {}
        loaded: list[tuple[SSAValue, SSAValue]] = []
        for chunk in self.chunks:
            row = row_of(chunk.steps, self.axis)
            if row != before:
                apart = tuple(other - one for one, other in zip(before, row, strict=True))
                if apart not in row_bytes:
                    row_bytes[apart] = self._row_bytes(apart)
                source, before = b.gep(source, row_bytes[apart]), row
            piece = b.gep(source, chunk.steps[self.axis] * self.size)
            place = b.gep(places[chunk.mixed], chunk.added)
            if self.piece == self.bytes:
                self._copy_chunk(piece, place, chunk, bounds)
                continue
            loaded.append((self._loaded(piece, chunk, bounds), place))
            if len(loaded) == GROUP or chunk is self.chunks[-1]:
                for value, target in loaded:
                    b.store(value, target, self.bytes)
                loaded = []

    def _exists(self, chunk: Chunk, bounds: Bounds, element: int = 0) -> SSAValue | None:
        """Whether an element of a chunk is in bounds: by the first, any of it."""
        exists = bounds.is_inside
        for axis, left in enumerate(bounds.left):
            if left is not None:
                step = chunk.steps[axis] + (element if axis == self.axis else 0)
                if (axis, step) not in bounds.asked:
                    inside = self.ctx.b.icmp("sgt", left, self._number(step))
                    bounds.asked[axis, step] = inside
                exists = self.ctx.both(exists, bounds.asked[axis, step])
        return exists

    def _loaded(self, source: SSAValue, chunk: Chunk, bounds: Bounds | None) -> SSAValue:
        """The elements of a chunk, loaded one by one, in an integer."""
        b, whole = self.ctx.b, integer_type(8 * self.bytes)
        part = integer_type(8 * self.piece)
        total: SSAValue | None = None
        for number in range(self.bytes // self.piece):
            exists = None if bounds is None else self._exists(chunk, bounds, number)
            place = b.gep(source, number * self.piece)
            value = b.masked_load(place, exists, part, self.piece, b.zero(part))
            moved = b.shl(b.zext(value, whole), b.const_int(whole, 8 * self.piece * number))
            total = moved if total is None else b.or_(total, moved)
        return b.zero(whole) if total is None else total

    def _copy_chunk(
        self, source: SSAValue, target: SSAValue, chunk: Chunk, bounds: Bounds | None
    ) -> None:
        """One chunk, with what is in bounds of it."""
        b, cache = self.ctx.b, CACHES[self.bytes]
        if bounds is None:
            b.cp_async(target, source, self.bytes, cache)
            return
        exists = self._exists(chunk, bounds)
        left = bounds.left[self.axis]
        if left is None or self._is_uncut():
            ignored = None if exists is None else b.not_(exists)
            b.cp_async(target, source, self.bytes, cache, ignore=ignored)
            return
        count = self._bytes_left(left, chunk.steps[self.axis])
        if exists is not None:
            count = b.select(exists, count, b.i32(0))
        b.cp_async(target, source, self.bytes, cache, count)

    def _bytes_left(self, left: SSAValue, step: int) -> SSAValue:
        """Bytes of a chunk that are in bounds, if any are."""
        b, most = self.ctx.b, self._number(self.bytes // self.size)
        rest = b.sub(left, self._number(step))
        rest = b.select(b.icmp("slt", rest, most), rest, most)
        return b.mul(b.int_cast(rest, i32), b.i32(self.size))

    def _number(self, value: int) -> SSAValue:
        return self.ctx.b.const_int(self.index_type, value)

    def _is_uncut(self) -> bool:
        """Whether a chunk is in bounds or out of them, never in part."""
        most, dim = self.bytes // self.size, self.type.dim_map[self.axis]
        size, divisors = self.type.memref.shape[dim], self.memref.shape_divisor
        known = size if size != DYNAMIC else (divisors.data[dim] if divisors is not None else 1)
        return known % most == 0

    def _limit(self, axis: int) -> SSAValue:
        """The extent of the tensor along a tile dim."""
        dim = self.type.dim_map[axis]
        size = self._operand(self.type.memref.shape, self.memref.dynamic_shape, dim)
        return self._as(size, self.index_type)

    def _stride_bytes(self, axis: int) -> SSAValue:
        """Bytes between neighbours along a tile dim."""
        b, dim = self.ctx.b, self.type.dim_map[axis]
        stride = self._operand(self.type.memref.strides, self.memref.dynamic_strides, dim)
        return b.mul(self._as(stride, i64), b.i64(self.size))

    def _first_source(self) -> SSAValue:
        """Where the thread's first chunk comes from: first what is the same in all iterations."""
        b = self.ctx.b
        source = b.inttoptr(self.ctx.value(self.memref.base), self.ctx.pointer)
        for axis in range(self.layout.rank):
            own = self._as(thread_coordinate(self.ctx, self.layout, axis), i64)
            source = b.gep(source, b.mul(own, self._stride_bytes(axis)))
        here = self.op.parent_block()
        for axis in sorted(range(self.layout.rank), key=lambda a: _is_made_in(self.op, a, here)):
            start = self._as(self.origin(axis), i64)
            source = b.gep(source, b.mul(start, self._stride_bytes(axis)))
        return source

    def _row_bytes(self, apart: Sequence[int]) -> SSAValue:
        """Bytes from a row to one so many elements apart along each dim."""
        b = self.ctx.b
        total: SSAValue | None = None
        for axis, steps in enumerate(apart):
            if steps:
                part = b.mul(self._stride_bytes(axis), b.i64(steps))
                total = part if total is None else b.add(total, part)
        return b.i64(0) if total is None else total

    def _places(self) -> dict[int, SSAValue]:
        """Where the thread's chunks go: an address for each way of exchanging its bits."""
        b, pipeline = self.ctx.b, self.ctx.roles.pipeline(self.op.pipeline)
        stage, _ = pipeline.position(self.ctx)
        address = b.gep(pipeline.stage_address(b, stage.get(b)), self.op.offset.data)
        base = b.mul(self.ctx.threads.linear(self.terms.lane, self.terms.warp), b.i32(self.size))
        places: dict[int, SSAValue] = {}
        for chunk in self.chunks:
            if chunk.mixed not in places:
                own = b.xor(base, b.i32(chunk.mixed))
                places[chunk.mixed] = b.gep(address, b.zext(own, integer_type(64)))
        return places


def _is_made_in(op: pl.CopyLoadOp, axis: int, block: Block | None) -> bool:
    """Whether an index of a load is made in the block of the load."""
    owner = op.indices[axis].owner
    return (owner.parent_block() if isinstance(owner, Operation) else owner) is block


def thread_chunks(copies: ViewCopies) -> list[Chunk]:
    """The chunks of a thread, those of a row together, rows in the order of their numbers."""
    layout, terms, size = copies.layout, copies.terms, copies.size
    steps = [register_coordinates(layout, axis) for axis in range(layout.rank)]
    shared = thread_bits(terms)
    found = [
        Chunk(
            tuple(by_axis[register] for by_axis in steps),
            (offset & shared) * size,
            (offset & ~shared) * size,
        )
        for register, offset in enumerate(terms.register)
    ]

    def order(chunk: Chunk) -> tuple[Sequence[int], int]:
        return row_of(chunk.steps, copies.axis), chunk.steps[copies.axis]

    return sorted(found, key=order)


def row_of(steps: Sequence[int], axis: int) -> tuple[int, ...]:
    """The steps of a row: those of a chunk, along the row aside."""
    return tuple(0 if dim == axis else step for dim, step in enumerate(steps))

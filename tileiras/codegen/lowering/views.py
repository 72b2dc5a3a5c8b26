"""Loads and stores of tiles through views: addresses, bounds, padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerType, i32, i64
from xdsl.ir import Attribute, SSAValue

from tileiras.codegen.lowering.access_order import memory_order
from tileiras.codegen.lowering.addressing import (
    is_disjoint,
    register_coordinates,
    thread_coordinate,
)
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.packing import join_bits, split_bits
from tileiras.codegen.lowering.padding import padding_bits
from tileiras.codegen.lowering.staging import memory_element, memory_form, register_form
from tileiras.codegen.lowering.types import register_type, storage_bits, storage_bytes
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.cuda_tile.types import DYNAMIC
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.blocked import blocked, contiguous_vector
from tileiras.dialects.layout.offsets import register_representatives
from tileiras.dialects.llvm.types import integer_type, lanes_of, scalar_of, vector_type
from tileiras.dialects.nv_tileaa.control_flow import GetProgramIdOp
from tileiras.dialects.nv_tileaa.memory import MakeMemRefOp
from tileiras.dialects.nv_tileaa.types import TiledViewType
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of
from tileiras.errors import InternalError

_I32_LIMIT = 1 << 31
_LINE_BYTES = 128
"""Of a line of L2, which a prefetch brings (PTX ISA, "prefetch")."""


@dataclass(frozen=True)
class TileAccess:
    """One access of a tile: `pointers` (and `guards`) one per group of `vector` registers.

    `registers` lists the registers in the order of the groups.
    """

    pointers: SSAValue
    guard: SSAValue | None
    registers: tuple[int, ...]
    vector: int
    groups: int
    halves: SSAValue | None = None
    """For each register whether it is in bounds, where the bounds may split a byte of two."""


class ViewAddressing:
    """Addresses of one tile of a view for this thread."""

    def __init__(
        self,
        ctx: KernelLowering,
        view: SSAValue,
        indices: Sequence[SSAValue],
        inbounds: Sequence[int],
        layout: LinearLayout,
        is_apart: bool = False,
    ):
        self.ctx = ctx
        self.is_apart = is_apart
        self.type: TiledViewType = view_type_of(view)
        self.memref: MakeMemRefOp = memref_of(view)
        self.layout = layout
        self.inbounds = inbounds
        self.indices = [self._own(ctx.value(index)) for index in indices]
        self.index_type = self._index_type()
        self.element: Attribute = self.type.memref.element_type
        self.packed = storage_bits(self.element) < 8
        self.size = storage_bytes(self.element)
        if self.packed:
            self._check_pairs()

    def _check_pairs(self) -> None:
        """Two 4-bit elements share a byte: everything known must move by whole bytes."""
        known = [stride for stride in self.type.memref.strides if stride not in (1, DYNAMIC)]
        steps = [
            step
            for axis, step in enumerate(self.type.steps)
            if self.type.memref.strides[self.type.dim_map[axis]] == 1
            and self.type.sparse_dim is None
        ]
        if any(amount % 2 for amount in (*known, *steps)):
            what = f"a view of {self.element} elements with an odd stride"
            raise self.ctx.unsupported(what)

    def access_bytes(self, elements: int) -> int:
        """Bytes of neighbouring elements."""
        return elements // 2 if self.packed else elements * self.size

    def _bytes(self, elements: SSAValue) -> SSAValue:
        """Byte offsets; 4-bit elements have been counted as bytes."""
        if not self.packed:
            return elements
        b = self.ctx.b
        return b.ashr(elements, b.const_int(elements.type, 1))

    def _index_type(self) -> IntegerType:
        """i32 where all sizes and indices fit: a coordinate in bounds then does, too."""
        sizes = [size for size in self.type.memref.shape if size != DYNAMIC]
        operands = [*self.memref.dynamic_shape, *self.indices]
        types = [scalar_of(value.type) for value in operands]
        wide = any(isinstance(type, IntegerType) and type.width.data > 32 for type in types)
        return i64 if wide or any(size >= _I32_LIMIT for size in sizes) else i32

    def _operand(
        self, statics: Sequence[int], dynamic: Sequence[SSAValue], dim: int
    ) -> SSAValue | int:
        """A size or stride: a number if static, else the scalar."""
        if statics[dim] != DYNAMIC:
            return statics[dim]
        position = sum(value == DYNAMIC for value in statics[:dim])
        return self._own(self.ctx.value(dynamic[position]))

    def _own(self, value: SSAValue) -> SSAValue:
        """A scalar; where addresses are to be computed anew, one that nothing else is made of."""
        if not self.is_apart or not isinstance(value.type, IntegerType):
            return value
        kind, letter = ("b64", "l") if value.type.width.data > 32 else ("b32", "r")
        made = self.ctx.b.inline_asm(
            f"mov.{kind} $0, $1;", f"={letter},{letter}", value.type, [value], side_effects=True
        )
        if made is None:
            raise InternalError("a move gives no value", where="views")
        return made

    def _as(self, value: SSAValue | int, type: IntegerType) -> SSAValue:
        if isinstance(value, int):
            return self.ctx.b.const_int(type, value)
        return self.ctx.b.int_cast(value, type)

    def origin(self, axis: int) -> SSAValue:
        """First coordinate of the tile along one of its dims."""
        b = self.ctx.b
        index = self._as(self.indices[axis], self.index_type)
        return b.mul(index, b.const_int(self.index_type, self.type.steps[axis]))

    def starts(self) -> list[SSAValue]:
        """Coordinate of this thread's register 0 along each tile dim.

        Along the sparse dim: the coordinates of all registers, a vector.
        """
        b = self.ctx.b
        result: list[SSAValue] = []
        for axis in range(len(self.type.tile_shape)):
            if axis == self.type.sparse_dim:
                result.append(self.indices[axis])
                continue
            thread = thread_coordinate(self.ctx, self.layout, axis)
            result.append(b.add(self.origin(axis), self._as(thread, self.index_type)))
        return result

    def access(self, vector: int, axis: int) -> TileAccess:
        """Pointers and guards of all groups of registers that move together."""
        width = contiguous_vector(self.layout, axis, vector)
        if self.packed and width % 2:
            raise self.ctx.unsupported(f"a view of {self.element} elements without unit stride")
        unique = register_representatives(self.layout)
        leaders = [r for r in range(0, len(unique), width) if unique[r] == r]
        registers = tuple(r + i for r in leaders for i in range(width))
        starts = self.starts()
        pointers = self._pointers(starts, leaders)
        guard = self._guard(starts, leaders)
        halves = self._guard(starts, registers) if self._may_split_bytes(axis) else None
        return TileAccess(pointers, guard, registers, width, len(leaders), halves)

    def _may_split_bytes(self, axis: int) -> bool:
        """Whether a bound may lie between two elements of one byte."""
        if not self.packed or self.inbounds[axis]:
            return False
        divisors = self.memref.shape_divisor
        return divisors is None or divisors.data[self.type.dim_map[axis]] % 2 != 0

    def _deltas(self, axis: int, leaders: Sequence[int]) -> list[int]:
        if not is_disjoint(self.layout, axis):
            raise InternalError("threads and registers share coordinate bits", where="views")
        all_deltas = register_coordinates(self.layout, axis)
        return [all_deltas[register] for register in leaders]

    def _pointers(self, starts: Sequence[SSAValue], leaders: Sequence[int]) -> SSAValue:
        """base + sum of coordinate * stride, the thread's part once, the registers' as a vector."""
        b = self.ctx.b
        base = b.inttoptr(self.ctx.value(self.memref.base), self.ctx.pointer)
        scalar: SSAValue = b.i64(0)
        static = [0] * len(leaders)
        dynamic: list[SSAValue] = []
        for axis, start in enumerate(starts):
            dim = self.type.dim_map[axis]
            stride = self._operand(self.type.memref.strides, self.memref.dynamic_strides, dim)
            stride_bytes = (
                b.i64(stride * self.size)
                if isinstance(stride, int)
                else b.mul(self._as(stride, i64), b.i64(self.size))
            )
            if axis == self.type.sparse_dim:
                rows = b.int_cast(b.shuffle(start, None, leaders), vector_type(i64, len(leaders)))
                dynamic.append(b.mul(rows, b.splat(stride_bytes, len(leaders))))
                continue
            scalar = b.add(scalar, b.mul(self._as(start, i64), stride_bytes))
            deltas = self._deltas(axis, leaders)
            if isinstance(stride, int):
                static = [s + d * stride * self.size for s, d in zip(static, deltas, strict=True)]
            elif any(deltas):
                spread = b.splat(stride_bytes, len(leaders))
                dynamic.append(b.mul(spread, b.dense(vector_type(i64, len(leaders)), deltas)))
        pointers = b.gep(base, self._bytes(scalar))
        for part in dynamic:
            pointers = b.gep(pointers, self._bytes(part))
        offsets = [self.access_bytes(offset // self.size) for offset in static]
        return b.gep(pointers, b.dense(vector_type(i64, len(leaders)), offsets))

    def _guard(self, starts: Sequence[SSAValue], leaders: Sequence[int]) -> SSAValue | None:
        """Which groups are in bounds; None if all are, a scalar if all or none are."""
        guard: SSAValue | None = None
        for axis, start in enumerate(starts):
            if self.inbounds[axis]:
                continue
            guard = self.ctx.both(guard, self._guard_along(axis, start, leaders))
        return guard

    def _guard_along(self, axis: int, start: SSAValue, leaders: Sequence[int]) -> SSAValue:
        b, limit = self.ctx.b, self._limit(axis)
        if axis == self.type.sparse_dim:
            count = len(leaders)
            wide = vector_type(self.index_type, count)
            rows = b.int_cast(b.shuffle(start, None, leaders), wide)
            return b.icmp("ult", rows, b.splat(limit, count))
        if self._tiles_divide(axis):
            return b.icmp("ult", self.origin(axis), limit)
        deltas = self._deltas(axis, leaders)
        if not any(deltas):
            return b.icmp("ult", start, limit)
        count = len(leaders)
        vector = b.dense(vector_type(self.index_type, count), deltas)
        coordinate = b.add(b.splat(start, count), vector)
        return b.icmp("ult", coordinate, b.splat(limit, count))

    def _limit(self, axis: int) -> SSAValue:
        """The size of the tensor along a dim of the tile."""
        dim = self.type.dim_map[axis]
        size = self._operand(self.type.memref.shape, self.memref.dynamic_shape, dim)
        return self._as(size, self.index_type)

    def in_words(self, axis: int) -> TileAccess:
        """Pointers and guards of elements that move one by one and come in words of neighbours.

        An element is in bounds where its coordinate along `axis` is below a limit, which is that of
        its word: 0 where the word is out of bounds along another dim.
        """
        unique = register_representatives(self.layout)
        registers = tuple(r for r, first in enumerate(unique) if r == first)
        starts = self.starts()
        guard: SSAValue | None = None
        if not self.inbounds[axis]:
            deltas = self._deltas(axis, registers)
            limits = self._limits(axis, starts, registers)
            b, start = self.ctx.b, starts[axis]
            own = {d: b.add(start, b.const_int(start.type, d)) for d in dict.fromkeys(deltas)}
            pairs = zip(deltas, limits, strict=True)
            guard = b.build([b.icmp("ult", own[delta], limit) for delta, limit in pairs])
        else:
            guard = self._guard(starts, registers)
        pointers = self._pointers(starts, registers)
        return TileAccess(pointers, guard, registers, 1, len(registers))

    def _limits(
        self, axis: int, starts: Sequence[SSAValue], registers: Sequence[int]
    ) -> list[SSAValue]:
        """The size along `axis`, for each register; 0 where another coordinate is out of bounds."""
        b, whole = self.ctx.b, self._limit(axis)
        none = b.const_int(self.index_type, 0)
        others = [a for a in range(len(starts)) if a != axis and not self.inbounds[a]]
        places = list(zip(*(self._deltas(a, registers) for a in others), strict=True))
        made: dict[tuple[int, ...], SSAValue] = {}
        for place in dict.fromkeys(places):
            guard: SSAValue | None = None
            for other, delta in zip(others, place, strict=True):
                guard = self.ctx.both(guard, self._is_below(other, starts[other], delta))
            made[place] = whole if guard is None else b.select(guard, whole, none)
        return [made[place] for place in places] if others else [whole] * len(registers)

    def _is_below(self, axis: int, start: SSAValue, delta: int) -> SSAValue:
        """i1: whether one register's coordinate along a dim is in bounds."""
        b, limit = self.ctx.b, self._limit(axis)
        if self._tiles_divide(axis):
            return b.icmp("ult", self.origin(axis), limit)
        return b.icmp("ult", b.add(start, b.const_int(start.type, delta)), limit)

    def _tiles_divide(self, axis: int) -> bool:
        """Whether the tile divides the size: then a tile is in bounds or out as a whole."""
        divisors = self.memref.shape_divisor
        extent = self.type.tile_shape[axis]
        if divisors is None or self.type.steps[axis] % extent:
            return False
        return divisors.data[self.type.dim_map[axis]] % extent == 0


def _inbounds(op: tas.TiledLoadOp | tas.TiledStoreOp) -> list[int]:
    """The promise per index dim; an empty list promises nothing."""
    promised = [int(flag) for flag in op.inbounds.get_values()]
    return promised or [0] * len(op.indices)


def lower_tiled_load(ctx: KernelLowering, op: tas.TiledLoadOp) -> None:
    """Loads a tile; elements out of bounds get the padding value (zero where unspecified)."""
    layout = ctx.layout(op.result.type)
    view = ViewAddressing(ctx, op.view, op.indices, _inbounds(op), layout, op.is_apart is not None)
    is_in_words = op.in_words is not None and view.type.sparse_dim is None
    access = (
        view.in_words(op.axis.data) if is_in_words else view.access(op.vector.data, op.axis.data)
    )
    if op.ahead is not None:
        _bring_to_l2(ctx, op, op.ahead.data)
    element = register_type(view.element)
    count = len(access.registers) // (2 if view.packed else 1)
    type = vector_type(memory_element(element), count)
    passthru = None
    if access.guard is not None:
        bits = padding_bits(view.element, view.type.padding_value)
        passthru = ctx.b.const_bits(type, bits | bits << 4 if view.packed else bits)
    loaded = ctx.b.masked_load(
        access.pointers,
        access.guard,
        type,
        view.access_bytes(access.vector),
        passthru,
        memory_order(ctx, op),
        in_words=is_in_words,
    )
    if view.packed:
        loaded = split_bits(ctx, loaded, 4)
    if access.halves is not None:
        bits = padding_bits(view.element, view.type.padding_value)
        loaded = ctx.b.select(access.halves, loaded, ctx.b.const_bits(loaded.type, bits))
    ordered = ctx.b.shuffle(loaded, None, gather_order(layout, access.registers))
    ctx.values[op.result] = register_form(ctx, ordered, element)


def _bring_to_l2(ctx: KernelLowering, op: tas.TiledLoadOp, ahead: int) -> None:
    """Asks L2 for the tile of a later tile block, if there is one: each thread for some lines."""
    b, type, axis = ctx.b, view_type_of(op.view), op.axis.data
    line = max(1, _LINE_BYTES // storage_bytes(type.memref.element_type))
    others = [dim for dim in reversed(range(len(type.tile_shape))) if dim != axis]
    layout = blocked(type.tile_shape, (axis, *others), line, ctx.num_warps)
    view = ViewAddressing(ctx, op.view, op.indices, (0,) * len(op.indices), layout)
    for dim, index in enumerate(op.indices):
        if isinstance(index.owner, GetProgramIdOp):
            view.indices[dim] = b.add(view.indices[dim], b.i32(ahead))
    access = view.access(line, axis)
    if access.guard is None:
        raise InternalError("a tile has no bounds", where="views")
    is_one = lanes_of(access.guard.type) is None
    for group in range(access.groups):
        is_there = access.guard if is_one else b.extract(access.guard, group)
        place = b.extract(access.pointers, group)
        text = "@$1 prefetch.global.L2 [$0];"
        b.inline_asm(text, "l,b", None, [place, is_there], side_effects=True)


def gather_order(layout: LinearLayout, registers: Sequence[int]) -> list[int]:
    """For every register, its position among the accessed ones (copies share one)."""
    position = {register: index for index, register in enumerate(registers)}
    return [position[first] for first in register_representatives(layout)]


def lower_tiled_store(ctx: KernelLowering, op: tas.TiledStoreOp) -> None:
    """Stores a tile; elements out of bounds and copies are not written."""
    layout = ctx.layout(op.value.type)
    view = ViewAddressing(ctx, op.view, op.indices, _inbounds(op), layout, op.is_apart is not None)
    access = view.access(op.vector.data, op.axis.data)
    guard = ctx.both(access.guard, ctx.owner(layout))
    value = ctx.b.shuffle(ctx.value(op.value), None, access.registers)
    if access.halves is not None:
        value = ctx.b.select(access.halves, value, _old_halves(ctx, view, access, guard))
    ctx.b.masked_store(
        join_bits(ctx, value, 4) if view.packed else memory_form(ctx, value),
        access.pointers,
        guard,
        view.access_bytes(access.vector),
        memory_order(ctx, op),
    )


def _old_halves(
    ctx: KernelLowering, view: ViewAddressing, access: TileAccess, guard: SSAValue | None
) -> SSAValue:
    """What memory holds where 4-bit elements are to be stored."""
    type = vector_type(integer_type(8), len(access.registers) // 2)
    size = view.access_bytes(access.vector)
    old = ctx.b.masked_load(access.pointers, guard, type, size, ctx.b.zero(type))
    return split_bits(ctx, old, 4)

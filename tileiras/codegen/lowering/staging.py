"""Tiles in shared memory: threads write their elements, meet, and read the ones they need."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, i32
from xdsl.ir import Attribute, SSAValue

from tileiras.codegen.lowering.addressing import combinations
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.offsets import offset_bases, register_groups, storage_bytes
from tileiras.dialects.llvm.types import (
    bit_width,
    integer_type,
    lanes_of,
    scalar_of,
    vector_type,
)
from tileiras.errors import InternalError


def memory_form(ctx: KernelLowering, value: SSAValue) -> SSAValue:
    """A vector as it lies in memory: i1 becomes bytes."""
    if bit_width(scalar_of(value.type)) == 1:
        return ctx.b.zext(value, integer_type(8))
    return value


def register_form(ctx: KernelLowering, value: SSAValue, element: Attribute) -> SSAValue:
    """What was loaded, as registers hold it: nonzero bytes become i1."""
    if isinstance(element, IntegerType) and element.width.data == 1:
        return ctx.b.icmp("ne", value, ctx.b.zero(value.type))
    return value


def memory_element(element: Attribute) -> Attribute:
    """The memory type of a register element type."""
    if isinstance(element, IntegerType) and element.width.data == 1:
        return integer_type(8)
    return element


def _addresses(
    ctx: KernelLowering,
    region: SSAValue,
    distributed: LinearLayout,
    shared: LinearLayout,
    offsets: Sequence[int],
    size: int,
) -> SSAValue:
    """One pointer per offset (in elements, relative to the thread's base) of `size`-byte elements."""
    bases = offset_bases(distributed, shared)
    lane = [v * size for v in bases.vectors("lane")]
    warp = [v * size for v in bases.vectors("warp")]
    base = ctx.threads.linear(lane, warp)
    used = 0
    for vector in (*lane, *warp):
        used |= vector
    deltas = [offset * size for offset in offsets]
    if all(delta & used == 0 for delta in deltas):
        pointer = ctx.b.gep(region, base)
        return ctx.b.gep(pointer, ctx.b.dense(vector_type(i32, len(deltas)), deltas))
    spread = ctx.b.splat(base, len(deltas))
    vector = ctx.b.xor(spread, ctx.b.dense(vector_type(i32, len(deltas)), deltas))
    return ctx.b.gep(region, vector)


def store_tile(
    ctx: KernelLowering,
    value: SSAValue,
    region: SSAValue,
    layout: LinearLayout,
    shared: LinearLayout,
    vector: int,
    guard: SSAValue | None = None,
) -> None:
    """Writes this thread's elements, if it owns them, in accesses of `vector` elements."""
    value = memory_form(ctx, value)
    size = storage_bytes(bit_width(scalar_of(value.type)))
    groups = register_groups(layout, shared, vector)
    order = [register for group in groups for register in group.registers]
    pointers = _addresses(ctx, region, layout, shared, [g.offset for g in groups], size)
    guard = ctx.both(ctx.owner(layout), guard)
    ctx.b.masked_store(ctx.b.shuffle(value, None, order), pointers, guard, vector * size)


def load_tile(
    ctx: KernelLowering,
    element: Attribute,
    region: SSAValue,
    layout: LinearLayout,
    shared: LinearLayout,
    vector: int,
) -> SSAValue:
    """Reads the elements of every register of this thread in accesses of `vector` elements."""
    stored = memory_element(element)
    size = storage_bytes(bit_width(stored))
    groups = register_groups(layout, shared, vector)
    pointers = _addresses(ctx, region, layout, shared, [g.offset for g in groups], size)
    type = vector_type(stored, len(groups) * vector)
    loaded = ctx.b.masked_load(pointers, None, type, vector * size)
    position: dict[int, int] = {}
    for register in (r for group in groups for r in group.registers):
        position[register] = len(position)
    vectors = layout.vectors("register")
    held = combinations(vectors)
    first: dict[int, int] = {}
    for register, index in enumerate(held):
        if register in position:
            first[index] = position[register]
    ordered = ctx.b.shuffle(loaded, None, [first[index] for index in held])
    if lanes_of(ordered.type) != len(held):
        raise InternalError("a staged tile has the wrong number of registers", where="lowering")
    return register_form(ctx, ordered, element)

"""Tiles in shared memory: threads write their elements, meet, and read the ones they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerType, i32
from xdsl.ir import Attribute, SSAValue

from tileiras.codegen.lowering.addressing import combinations
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.offsets import (
    RegisterGroup,
    offset_bases,
    register_groups,
    storage_bytes,
)
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


@dataclass(frozen=True)
class Window:
    """The part of a shared tile that the buffer holds now: `count` elements from `index * count`.

    `count` is a power of two, so the offset's high bits say whether an element is in it.
    """

    count: int
    index: int

    def split(self, offset: int) -> tuple[int, int]:
        """Number of the window that an offset falls into, and the place within it."""
        return offset // self.count, offset % self.count


def addresses(
    ctx: KernelLowering,
    region: SSAValue,
    bases: LinearLayout,
    offsets: Sequence[int],
    size: int,
    limit: int,
) -> SSAValue:
    """One pointer per offset (in elements, relative to the thread's base) of `size`-byte elements.

    `bases` are the thread's offsets; only what is below `limit` elements counts.
    """
    lane = [v % limit * size for v in bases.vectors("lane")]
    warp = [v % limit * size for v in bases.vectors("warp")]
    base = ctx.threads.linear(lane, warp)
    used = 0
    for vector in (*lane, *warp):
        used |= vector
    deltas = [offset % limit * size for offset in offsets]
    if all(delta & used == 0 for delta in deltas):
        pointer = ctx.b.gep(region, base)
        return ctx.b.gep(pointer, ctx.b.dense(vector_type(i32, len(deltas)), deltas))
    spread = ctx.b.splat(base, len(deltas))
    vector = ctx.b.xor(spread, ctx.b.dense(vector_type(i32, len(deltas)), deltas))
    return ctx.b.gep(region, vector)


@dataclass(frozen=True)
class _Accesses:
    """The accesses of one thread to a window of a shared tile, `guard` if not all take place."""

    groups: tuple[RegisterGroup, ...]
    pointers: SSAValue
    guard: SSAValue | None


def _accesses(
    ctx: KernelLowering,
    region: SSAValue,
    layout: LinearLayout,
    shared: LinearLayout,
    vector: int,
    size: int,
    window: Window | None,
    origin: int = 0,
) -> _Accesses | None:
    """Groups of registers with their addresses; None if no group of any thread is in the window."""
    groups = register_groups(layout, shared, vector)
    bases = offset_bases(layout, shared)
    limit = window.count if window is not None else shared.size
    guard: SSAValue | None = None
    if window is not None:
        lane = [v // limit for v in bases.vectors("lane")]
        warp = [v // limit for v in bases.vectors("warp")]
        wanted = [group.offset // limit ^ window.index for group in groups]
        if any(lane) or any(warp):
            mine = ctx.threads.linear(lane, warp)
            reachable = _span([*lane, *warp])
            groups = tuple(g for g, w in zip(groups, wanted, strict=True) if w in reachable)
            wanted = [w for w in wanted if w in reachable]
            type = vector_type(i32, len(groups))
            spread = ctx.b.splat(mine, len(groups)) if groups else mine
            guard = ctx.b.icmp("eq", spread, ctx.b.dense(type, wanted)) if groups else None
        else:
            groups = tuple(g for g, w in zip(groups, wanted, strict=True) if w == 0)
    if not groups:
        return None
    offsets = [group.offset ^ origin for group in groups]
    pointers = addresses(ctx, region, bases, offsets, size, limit)
    return _Accesses(groups, pointers, guard)


def _span(vectors: Sequence[int]) -> frozenset[int]:
    """All sums of the vectors."""
    return frozenset(combinations([v for v in vectors if v]))


def store_tile(
    ctx: KernelLowering,
    value: SSAValue,
    region: SSAValue,
    layout: LinearLayout,
    shared: LinearLayout,
    vector: int,
    owner: SSAValue | None = None,
    window: Window | None = None,
) -> None:
    """Writes this thread's elements, if it owns them, in accesses of `vector` elements.

    `owner` says which threads do, where that is not the first of those with copies. With a window
    only the elements in it, and `region` is the buffer of the window.
    """
    value = memory_form(ctx, value)
    size = storage_bytes(bit_width(scalar_of(value.type)))
    accesses = _accesses(ctx, region, layout, shared, vector, size, window)
    if accesses is None:
        return
    order = [register for group in accesses.groups for register in group.registers]
    guard = ctx.both(owner if owner is not None else ctx.owner(layout), accesses.guard)
    ctx.b.masked_store(ctx.b.shuffle(value, None, order), accesses.pointers, guard, vector * size)


def load_tile(
    ctx: KernelLowering,
    element: Attribute,
    region: SSAValue,
    layout: LinearLayout,
    shared: LinearLayout,
    vector: int,
    origin: int = 0,
) -> SSAValue:
    """Reads the elements of every register of this thread in accesses of `vector` elements.

    `origin` is added (`^`) to every offset: the layout then lies that far from the tile's start.
    """
    stored = memory_element(element)
    size = storage_bytes(bit_width(stored))
    accesses = _accesses(ctx, region, layout, shared, vector, size, None, origin)
    if accesses is None:
        raise InternalError("a staged tile has no registers", where="lowering")
    type = vector_type(stored, len(accesses.groups) * vector)
    loaded = ctx.b.masked_load(accesses.pointers, None, type, vector * size)
    return register_form(ctx, _spread(ctx, layout, accesses.groups, loaded), element)


def _spread(
    ctx: KernelLowering, layout: LinearLayout, groups: Sequence[RegisterGroup], loaded: SSAValue
) -> SSAValue:
    """Elements in the order of the groups as registers, copies included."""
    position: dict[int, int] = {}
    for register in (r for group in groups for r in group.registers):
        position[register] = len(position)
    held = combinations(layout.vectors("register"))
    first: dict[int, int] = {}
    for register, index in enumerate(held):
        if register in position:
            first[index] = position[register]
    ordered = ctx.b.shuffle(loaded, None, [first[index] for index in held])
    if lanes_of(ordered.type) != len(held):
        raise InternalError("a staged tile has the wrong number of registers", where="lowering")
    return ordered


def load_windows(
    ctx: KernelLowering,
    element: Attribute,
    region: SSAValue,
    layout: LinearLayout,
    shared: LinearLayout,
    vector: int,
    window: Window,
    before: SSAValue | None,
) -> SSAValue | None:
    """`load_tile` of what is in a window; `before` is what earlier windows have brought.

    The result has one lane per distinct register, in their order, as it lies in memory; None if
    nothing has been read yet. `window_result` makes the tile of what the last window leaves.
    """
    stored = memory_element(element)
    size = storage_bytes(bit_width(stored))
    accesses = _accesses(ctx, region, layout, shared, vector, size, window)
    if accesses is None:
        return before
    distinct = [r for g in register_groups(layout, shared, vector) for r in g.registers]
    place = {register: index for index, register in enumerate(distinct)}
    lanes = [place[register] for group in accesses.groups for register in group.registers]
    if before is None:
        before = ctx.b.zero(vector_type(stored, len(distinct)))
    old = ctx.b.shuffle(before, None, lanes)
    loaded = ctx.b.masked_load(accesses.pointers, accesses.guard, old.type, vector * size, old)
    order = list(range(len(distinct)))
    for position, lane in enumerate(lanes):
        order[lane] = len(distinct) + position
    return ctx.b.shuffle(ctx.b.concat([before, loaded]), None, order)


def window_result(
    ctx: KernelLowering,
    collected: SSAValue | None,
    element: Attribute,
    layout: LinearLayout,
    shared: LinearLayout,
    vector: int,
) -> SSAValue:
    """The tile, once every window has been read."""
    if collected is None:
        raise InternalError("no window of a staged tile was read", where="lowering")
    groups = register_groups(layout, shared, vector)
    return register_form(ctx, _spread(ctx, layout, groups, collected), element)

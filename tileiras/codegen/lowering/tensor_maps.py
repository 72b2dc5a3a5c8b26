"""Tensor maps of a specialised kernel: a slot for all, claimed, filled in and published at once.

The time before the first copy is a chain of trips to memory, so as much as possible goes on at
once: the first warp claims a slot of the table while the producer fills in the maps in shared
memory, a lane each; they meet at the CTA's first barrier; one fence publishes all maps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Block, Operation, SSAValue

from tileiras.codegen.atoms.tma_boxes import contiguous_dim, plain_dim
from tileiras.codegen.llvmir.tma_builder import TensorMapTable
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.pipelines import RoleState, Variable
from tileiras.codegen.lowering.tma import (
    element_name,
    tma_dims,
    view_operand,
    wait_for_copies,
)
from tileiras.codegen.lowering.types import storage_bytes
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.llvm import memory as llvm_memory
from tileiras.dialects.llvm.types import GLOBAL, SHARED, pointer_type
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nvvm.tma import TENSOR_MAP_BYTES, WARP_LANES
from tileiras.errors import InternalError

TENSOR_MAP_SLOTS = 4
"""CTAs of one SM that can own tensor maps at once: a specialised kernel leaves room for few."""
POINTER_BYTES = 8
_LINE_BITS = 8
"""Addresses of tensors differ by multiples of 256 bytes, as allocators give them."""


def plan_tensor_maps(ctx: KernelLowering, op: pl.AgentSwitchOp) -> None:
    """Table and shared memory for the maps of the producer's program, if it has any."""
    groups = map_groups(op.producer.block)
    own = map_groups(op.store.block) if op.store is not None else []
    meets_at = meets_first(op.producer.block, groups)
    stores = ctx.roles.store_makers
    if stores and op.store is not None and ctx.roles.has_prologue_fill:
        ctx.roles.own_store_maps = _own_store_maps(ctx, stores)
        stores = []
    if stores:
        position = next((i for i, group in enumerate(groups) if meets_at in group), None)
        if position is None:
            groups.insert(0, stores)
        else:
            groups[position] = [*stores, *groups[position]]
    makers = [maker for group in groups for maker in group]
    total = len(makers) + sum(map(len, own))
    if not total:
        return
    # The producer makes all of them at once, and alone, in a kernel in which cycles count.
    keeps = (
        (ctx.roles.hurries or op.kept_maps is not None)
        and not stores
        and not own
        and len(groups) == 1
        and op.working_warps.data == 1
        and makers[-1] is meets_at
        and len(_alike(makers)) == 1
    )
    name = ctx.symbols.unique("tensor_maps")
    table = TensorMapTable.make(name, total, TENSOR_MAP_SLOTS, keeps=keeps)
    for_producer = TENSOR_MAP_BYTES * max(map(len, groups), default=0)
    size = for_producer + TENSOR_MAP_BYTES * max(map(len, own), default=0)
    scratch = llvm_memory.GlobalOp.make(
        ctx.symbols.unique("tensor_map_scratch"), size, SHARED, TENSOR_MAP_BYTES
    )
    place = llvm_memory.GlobalOp.make(
        ctx.symbols.unique("tensor_map_slot"), POINTER_BYTES, SHARED, POINTER_BYTES
    )
    ctx.add_globals(*table.globals, scratch, place)
    ctx.scratch.reserve(size + POINTER_BYTES)
    ctx.roles.maps = RoleState.Maps(
        table,
        ctx.prologue.address_of(scratch),
        ctx.prologue.address_of(place),
        [*groups, *own],
        meets_at,
    )
    if own:
        ctx.roles.maps.store_scratch = ctx.prologue.gep(ctx.roles.maps.scratch, for_producer)
    if stores or own:
        size = 8 if op.store is None else 16
        ready = llvm_memory.GlobalOp.make(ctx.symbols.unique("maps_ready"), size, SHARED, 8)
        ctx.add_globals(ready)
        ctx.scratch.reserve(size)
        ctx.roles.maps.ready = ctx.prologue.address_of(ready)
        if op.store is not None:
            ctx.roles.maps.done = ctx.prologue.gep(ctx.roles.maps.ready, 8)


def _own_store_maps(ctx: KernelLowering, makers: list[pl.MakeTensorMapOp]) -> RoleState.Maps:
    """Table and shared memory for the maps of a store warp that makes them for itself.

    It does where consumers fetch the first tiles: then the kernel is soon over if its grid is
    small, and the producer, in whose way the maps would be, may find its own ones kept. So may the
    store warp: then it need not wait at the end until its copies are complete, for which the slot
    would have to be held.
    """
    name, keeps = ctx.symbols.unique("store_maps"), len(_alike(makers)) == 1
    table = TensorMapTable.make(name, len(makers), TENSOR_MAP_SLOTS, keeps=keeps)
    size = TENSOR_MAP_BYTES * len(makers)
    scratch = llvm_memory.GlobalOp.make(
        ctx.symbols.unique("store_map_scratch"), size, SHARED, TENSOR_MAP_BYTES
    )
    ctx.add_globals(*table.globals, scratch)
    ctx.scratch.reserve(size)
    address = ctx.prologue.address_of(scratch)
    return RoleState.Maps(table, address, address, [makers], None, store_scratch=address)


def make_own_store_maps(ctx: KernelLowering, maps: RoleState.Maps) -> None:
    """The store warp takes a slot, and makes its maps there, or finds kept ones."""
    [makers] = maps.groups
    fills = _alike(makers)
    if maps.table.keeps:
        maps.store_pointer = _kept_or_made(ctx, maps, fills[0])
    else:
        maps.store_pointer = ctx.b.claim_tensor_maps(maps.table)
    for number, maker in enumerate(maker for alike in fills for maker in alike):
        ctx.values[maker.result] = ctx.b.tensor_map(maps.store_pointer, number)
    if not maps.table.keeps:
        _fill_group(ctx, maps, fills)
    _publish_group(ctx, maps, makers, [ctx.values[maker.result] for maker in makers])


def map_groups(block: Block) -> list[list[pl.MakeTensorMapOp]]:
    """Makers that can be made together: in one block, none used before the last is made."""
    groups: list[list[pl.MakeTensorMapOp]] = []
    current: list[pl.MakeTensorMapOp] = []
    for op in block.ops:
        if isinstance(op, pl.MakeTensorMapOp):
            current.append(op)
            continue
        if current and any(_uses(inner, current) for inner in op.walk()):
            groups.append(current)
            current = []
        for region in op.regions:
            for inner in region.blocks:
                groups += map_groups(inner)
    return [*groups, current] if current else groups


def _uses(op: Operation, makers: Sequence[pl.MakeTensorMapOp]) -> bool:
    return any(value.owner in makers for value in op.operands)


def meets_first(
    block: Block, groups: Sequence[Sequence[pl.MakeTensorMapOp]]
) -> pl.MakeTensorMapOp | None:
    """The maker at which the producer meets the others: in the outermost block, before all waits.

    None if there is no such maker: then it meets them at once.
    """
    last = {group[-1] for group in groups}
    for op in block.ops:
        if isinstance(op, pl.MakeTensorMapOp) and op in last:
            return op
        if any(isinstance(i, tas.WARP_ROLE_OPS) for i in op.walk()) and not isinstance(
            op, pl.MakeTensorMapOp
        ):
            return None
    return None


def claim_slot(ctx: KernelLowering) -> None:
    """The first warp takes a slot and leaves its address in shared memory."""
    maps = ctx.roles.maps
    if maps is not None and not maps.table.keeps:
        if maps.ready is not None:
            _init_ready(ctx, maps.ready, maps.done)
        claimed = ctx.b.claim_tensor_maps(maps.table)
        ctx.b.store(claimed, maps.place, POINTER_BYTES)


def _init_ready(ctx: KernelLowering, ready: SSAValue, done: SSAValue | None) -> None:
    """Where the producer says that it has made the maps of stores, and given up its own."""
    b = ctx.b
    first, after = b.new_block(), b.new_block()
    b.cond_br(ctx.roles.elected(ctx), first, after)
    b.at(first)
    b.mbarrier_init(ready, 1)
    if done is not None:
        b.mbarrier_init(done, 1)
    b.fence_mbarrier_init()
    b.br(after)
    b.at(after)


def meet(ctx: KernelLowering) -> None:
    """The producer meets the others and learns which slot it has, or claims one before."""
    maps = ctx.roles.maps
    if maps is not None and maps.pointer is None and ctx.roles.has_prologue_fill:
        maps.pointer = _claimed_by_producer(ctx, maps)
    ctx.roles.meet(ctx)
    if maps is not None and maps.pointer is None:
        maps.pointer = ctx.b.load(maps.place, pointer_type(GLOBAL), POINTER_BYTES)


def try_claim(ctx: KernelLowering) -> None:
    """Asks for a slot where the producer is one warp: the answer comes while it fills in maps."""
    maps = ctx.roles.maps
    if maps is not None and ctx.roles.working_warps == 1 and not maps.table.keeps:
        maps.tried = ctx.b.try_claim_tensor_maps(maps.table)


def _claimed_by_producer(ctx: KernelLowering, maps: RoleState.Maps) -> SSAValue:
    """A slot that the producer's first warp takes for all: one is given back.

    The other warps have no use for its address, which they may read before it is there.
    """
    b = ctx.b
    after = ctx.roles.enter_first_producer_warp(ctx)
    claimed = b.claim_tensor_maps(maps.table, maps.tried)
    if after is None:
        return claimed
    b.store(claimed, maps.place, POINTER_BYTES)
    ctx.roles.leave_first_producer_warp(ctx, after)
    return b.load(maps.place, pointer_type(GLOBAL), POINTER_BYTES)


def start_producer(ctx: KernelLowering) -> None:
    """Meets the others at once if no maker is the place for it, and makes the maps of stores."""
    maps = ctx.roles.maps
    if maps is not None and maps.meets_at is not None:
        return
    meet(ctx)
    if maps is not None and ctx.roles.store_makers:
        _make_group(ctx, maps, ctx.roles.store_makers)


def lower_make_tiled_tma_desc(ctx: KernelLowering, op: Operation) -> None:
    """At the last maker of a group all of its maps; those before the warp roles are for stores."""
    maps = ctx.roles.maps
    if not isinstance(op, pl.MakeTensorMapOp):
        raise InternalError("the rule of make_tensor_map got another operation")
    if maps is None:
        ctx.roles.store_makers.append(op)
        return
    group = next(group for group in maps.groups if op in group)
    if op is not group[-1]:
        return
    if op.renewed is None:
        _make_group(ctx, maps, group)
    else:
        _note_stale(ctx, maps, group)


def _note_stale(
    ctx: KernelLowering, maps: RoleState.Maps, group: Sequence[pl.MakeTensorMapOp]
) -> None:
    """The views are new: their maps have places, and are made before their next use."""
    start, slot = _first_map(maps, group), _slot(ctx, maps)
    for number, maker in enumerate(maker for makers in _alike(group) for maker in makers):
        ctx.values[maker.result] = ctx.b.tensor_map(slot, start + number)
    stale = maps.stale.setdefault(group[-1], Variable(ctx, 0))
    stale.set(ctx.b, ctx.b.i32(1))


def lower_renew_tiled_tma_descs(ctx: KernelLowering, op: Operation) -> None:
    """Makes maps whose views are new, once no copy by the maps before is under way."""
    maps = ctx.roles.maps
    if not isinstance(op, pl.RenewTensorMapsOp) or maps is None:
        raise InternalError("the rule of renew_tiled_tma_descs got another operation")
    b = ctx.b
    for group in maps.groups:
        if not any(maker.result in op.tensor_maps for maker in group):
            continue
        stale = maps.stale[group[-1]]
        make, after = b.new_block(), b.new_block()
        b.cond_br(b.icmp("ne", stale.get(b), b.i32(0)), make, after)
        ctx.start_block(make)
        for pipeline in op.pipelines:
            wait_for_copies(ctx, pipeline)
        if ctx.roles.is_store_warp:
            b.tma_store_wait(0)
        _fill_group(ctx, maps, _alike(group))
        _publish_group(ctx, maps, group, [ctx.values[maker.result] for maker in group])
        stale.set(b, b.i32(0))
        b.br(after)
        ctx.start_block(after)


def _make_group(
    ctx: KernelLowering, maps: RoleState.Maps, group: Sequence[pl.MakeTensorMapOp]
) -> None:
    """Fills in the maps, meets the others if this is the time to, and publishes them."""
    fills = _alike(group)
    if maps.table.keeps:
        maps.pointer = _kept_or_made(ctx, maps, fills[0])
        meet(ctx)
    else:
        _fill_group(ctx, maps, fills)
        if group[-1] is maps.meets_at:
            meet(ctx)
    if maps.pointer is None:
        raise InternalError("tensor maps are made before there is a place for them")
    start = _first_map(maps, group)
    for number, maker in enumerate(maker for makers in fills for maker in makers):
        if maker in ctx.roles.store_makers:
            maps.store_maps[maker.result] = start + number
        else:
            ctx.values[maker.result] = ctx.b.tensor_map(maps.pointer, start + number)
    fresh = [ctx.values[maker.result] for maker in group if maker not in ctx.roles.store_makers]
    _publish_group(ctx, maps, group, fresh)
    if maps.ready is not None and group[0] in ctx.roles.store_makers:
        ctx.b.mbarrier_arrive(maps.ready, predicate=ctx.roles.elected(ctx))


def _slot(ctx: KernelLowering, maps: RoleState.Maps) -> SSAValue:
    """The CTA's place in the table, as the producer or the store warp knows it."""
    slot = maps.store_pointer if ctx.roles.is_store_warp else maps.pointer
    if slot is None:
        raise InternalError("tensor maps are made before there is a place for them")
    return slot


def _scratch(ctx: KernelLowering, maps: RoleState.Maps) -> SSAValue:
    """Where the warp role fills in maps."""
    scratch = maps.store_scratch if ctx.roles.is_store_warp else maps.scratch
    if scratch is None:
        raise InternalError("the store warp has no place to fill in tensor maps")
    return scratch


def _first_map(maps: RoleState.Maps, group: Sequence[pl.MakeTensorMapOp]) -> int:
    """The number of a group's first map in the slot."""
    return sum(len(before) for before in maps.groups[: maps.groups.index(group)])


def _fill_group(
    ctx: KernelLowering, maps: RoleState.Maps, fills: Sequence[Sequence[pl.MakeTensorMapOp]]
) -> None:
    """Fills in maps in shared memory."""
    after = ctx.roles.enter_first_producer_warp(ctx)
    done, scratch = 0, _scratch(ctx, maps)
    for makers in fills:
        fill = _fill(ctx, makers)
        fill.emit(ctx, ctx.b.gep(scratch, done * TENSOR_MAP_BYTES))
        done += len(makers)
    ctx.roles.leave_first_producer_warp(ctx, after)


def _publish_group(
    ctx: KernelLowering,
    maps: RoleState.Maps,
    group: Sequence[pl.MakeTensorMapOp],
    fresh: Sequence[SSAValue],
) -> None:
    """Copies filled in maps to their places; the producer may use the `fresh` ones from now on."""
    target = ctx.b.tensor_map(_slot(ctx, maps), _first_map(maps, group))
    after = ctx.roles.enter_first_producer_warp(ctx)
    if not maps.table.keeps:
        ctx.b.publish_tensor_maps(_scratch(ctx, maps), target, len(group))
    for tensor_map in fresh:
        ctx.b.acquire_tensor_map(tensor_map)
    # Not before the last acquire: that empties the cache of maps, and waits for those under way.
    for tensor_map in fresh:
        ctx.b.prefetch_tensormap(tensor_map)
    ctx.roles.leave_first_producer_warp(ctx, after)


def _alike(group: Sequence[pl.MakeTensorMapOp]) -> list[list[pl.MakeTensorMapOp]]:
    """Makers of one rank, element type and swizzle together, as many as a warp has lanes."""
    alike: dict[tuple[str, int, int | None, int], list[pl.MakeTensorMapOp]] = {}
    for maker in group:
        type = view_type_of(maker.view)
        name, rank = element_name(type.memref.element_type), len(type.dim_map)
        atom = None if maker.atom is None else maker.atom.data
        alike.setdefault((name, maker.swizzle.data, atom, rank), []).append(maker)
    return [
        makers[first : first + WARP_LANES]
        for makers in alike.values()
        for first in range(0, len(makers), WARP_LANES)
    ]


@dataclass(frozen=True)
class _Fill:
    """Maps that are filled in at once, with what lane i passes for map i.

    Units are those of `TmaBuilder.fill_tensor_maps`; `fields` are base and sizes of each map.
    """

    makers: Sequence[pl.MakeTensorMapOp]
    fields: Sequence[tuple[SSAValue, Sequence[SSAValue]]]
    base: SSAValue
    sizes: Sequence[SSAValue]
    strides: Sequence[SSAValue]
    box: Sequence[SSAValue]

    def emit(self, ctx: KernelLowering, scratch: SSAValue) -> None:
        """Fills them in, in shared memory; one whole warp."""
        first = self.makers[0]
        element = element_name(view_type_of(first.view).memref.element_type)
        numbers = (self.base, self.sizes, self.strides, self.box)
        atom = None if first.atom is None else first.atom.data
        ctx.b.fill_tensor_maps(
            scratch, len(self.makers), *numbers, element, first.swizzle.data, atom=atom
        )

    def words(self, ctx: KernelLowering) -> list[SSAValue]:
        """All that this lane's map is made from and that the program does not know, in i32."""
        b = ctx.b
        wide = [self.base, *self.strides]
        low = [b.trunc(value, i32) for value in wide]
        high = [b.trunc(b.lshr(value, b.i64(32)), i32) for value in wide]
        return [*low, *high, *self.sizes]

    def hash(self, ctx: KernelLowering) -> SSAValue:
        """A number (i32) that mostly differs where addresses or sizes do: one for all lanes."""
        b = ctx.b
        total = b.i32(0)
        for number, (base, sizes) in enumerate(self.fields):
            own = b.trunc(b.lshr(base, b.i64(_LINE_BITS)), i32)
            for size in sizes:
                own = b.add(b.mul(own, b.i32(5)), size)
            total = b.add(total, b.mul(own, b.i32(2 * number + 1)))
        return total


def _fill(ctx: KernelLowering, makers: Sequence[pl.MakeTensorMapOp]) -> _Fill:
    """Maps of one rank, element type and swizzle, a lane each."""
    fields = [_fields(ctx, maker) for maker in makers]
    base = _by_lane(ctx, [base for base, _, _, _ in fields])
    sizes = [_by_lane(ctx, column) for column in zip(*(f[1] for f in fields), strict=True)]
    strides = [_by_lane(ctx, column) for column in zip(*(f[2] for f in fields), strict=True)]
    boxes = list(zip(*(f[3] for f in fields), strict=True))
    box = [
        ctx.b.i32(column[0])
        if len(set(column)) == 1
        else _by_lane(ctx, [ctx.b.i32(extent) for extent in column])
        for column in boxes
    ]
    return _Fill(makers, [(f[0], f[1]) for f in fields], base, sizes, strides, box)


def _kept_or_made(
    ctx: KernelLowering, maps: RoleState.Maps, makers: Sequence[pl.MakeTensorMapOp]
) -> SSAValue:
    """Maps that an earlier CTA made from the same numbers, or fresh ones in a slot of our own.

    A launch of some microseconds would spend a third of them on its maps, and mostly has the
    arguments of the one before.
    """
    b, table, lane = ctx.b, maps.table, ctx.threads.lane
    fill = _fill(ctx, makers)
    words = fill.words(ctx)
    # Lanes without a map pass what the first one does.
    own = b.select(b.icmp("ult", lane, b.i32(len(makers))), lane, b.i32(0))
    kept = b.kept_maps(table, fill.hash(ctx), own)
    make, ready = b.new_block(), b.new_block([pointer_type(GLOBAL)])
    b.cond_br(b.find_tensor_maps(kept, words), ready, make, [kept.maps])
    ctx.start_block(make)
    fill.emit(ctx, maps.scratch)
    b.keep_tensor_maps(kept, maps.scratch, words, table.count)
    claimed = b.claim_tensor_maps(table)
    b.publish_tensor_maps(maps.scratch, claimed, table.count)
    b.br(ready, [claimed])
    ctx.start_block(ready)
    return ready.args[0]


Fields = tuple[SSAValue, list[SSAValue], list[SSAValue], list[int]]
"""Base, sizes, strides in bytes without the fastest dim's, box; the fastest dim first."""


def _fields(ctx: KernelLowering, op: pl.MakeTensorMapOp) -> Fields:
    """What goes into a map."""
    b, type, memref = ctx.b, view_type_of(op.view), memref_of(op.view)
    # Rows of scales are too short for a swizzle; tiles for threads do without.
    axis = plain_dim(type) if not op.swizzle.data else None
    axis = contiguous_dim(type) if axis is None else axis
    if axis is None:
        raise InternalError("a view for TMA has no contiguous dim", where="tma")
    order = [type.dim_map[dim] for dim in tma_dims(type, axis)]
    size = storage_bytes(type.memref.element_type)
    statics, dynamic = type.memref.shape, memref.dynamic_shape
    sizes = [b.int_cast(view_operand(ctx, statics, dynamic, dim), i32) for dim in order]
    statics, dynamic = type.memref.strides, memref.dynamic_strides
    strides = [
        b.mul(b.int_cast(view_operand(ctx, statics, dynamic, dim), i64), b.i64(size))
        for dim in order[1:]
    ]
    return ctx.value(memref.base), sizes, strides, [op.box.data[dim] for dim in order]


def _by_lane(ctx: KernelLowering, values: Sequence[SSAValue]) -> SSAValue:
    """Value i in lane i."""
    b = ctx.b
    chosen = values[0]
    for lane, value in enumerate(values[1:], start=1):
        chosen = b.select(b.icmp("eq", ctx.threads.lane, b.i32(lane)), value, chosen)
    return chosen

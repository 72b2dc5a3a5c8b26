"""Layout conversions, as is written beside them: renames, shuffles, or shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue

from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.scratch import aligned
from tileiras.codegen.lowering.staging import (
    Window,
    load_tile,
    load_windows,
    store_tile,
    window_result,
)
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.plans import RegisterPermutation, SharedMemory, WarpShuffle
from tileiras.dialects.layout.rounds import plan_rounds
from tileiras.dialects.layout.shuffles import plan_in_warp
from tileiras.dialects.llvm.types import bit_width, lanes_of, scalar_of
from tileiras.dialects.nv_tileas.ways import (
    InRegistersAttr,
    ShufflesAttr,
    ThroughSmemAttr,
    smem_bytes,
)
from tileiras.errors import InternalError


def lower_convert_layout(ctx: KernelLowering, op: tas.ConvertLayoutOp) -> None:
    """Moves a tile between two layouts."""
    source, target = ctx.layout(op.source.type), ctx.layout(op.result.type)
    ctx.values[op.result] = convert(ctx, ctx.value(op.source), source, target, op.by)


def convert(
    ctx: KernelLowering,
    value: SSAValue,
    source: LinearLayout,
    target: LinearLayout,
    way: Attribute | None,
) -> SSAValue:
    """The tile `value` of layout `source` in layout `target`, by a way that was chosen.

    CompileError where none was, or one that does not lead there.
    """
    if isinstance(way, ThroughSmemAttr):
        return _staged(ctx, value, source, target, _plan(ctx, value, way))
    if not isinstance(way, InRegistersAttr | ShufflesAttr):
        raise ctx.contradiction("is not told how: tileas-materialize-convert-layout comes before")
    if source == target:
        return value
    plan = plan_in_warp(source, target, bit_width(scalar_of(value.type)))
    match plan:
        case RegisterPermutation(sources):
            is_same = sources == tuple(range(source.in_size("register")))
            return value if is_same else ctx.b.shuffle(value, None, sources)
        case WarpShuffle() if isinstance(way, ShufflesAttr):
            return _shuffle(ctx, value, plan)
        case _:
            raise ctx.contradiction(f"goes by {way.name}, but warps do not hold what they need")


def convert_from(
    ctx: KernelLowering,
    value: SSAValue,
    source: LinearLayout,
    target: LinearLayout,
    owner: SSAValue,
    way: Attribute | None,
) -> SSAValue:
    """As `convert`, but only the threads with `owner` hold what `source` says of them.

    Each element is held by one of them.
    """
    if not isinstance(way, ThroughSmemAttr):
        raise ctx.contradiction("is not told how: tileas-materialize-convert-layout comes before")
    return _staged(ctx, value, source, target, _plan(ctx, value, way), owner)


def _plan(ctx: KernelLowering, value: SSAValue, way: ThroughSmemAttr) -> SharedMemory:
    """The way through shared memory, with its bytes."""
    bytes = smem_bytes(way, bit_width(scalar_of(value.type)))
    return SharedMemory(way.layout.data, way.store.data, way.load.data, bytes)


def _staged(
    ctx: KernelLowering,
    value: SSAValue,
    source: LinearLayout,
    target: LinearLayout,
    plan: SharedMemory,
    owner: SSAValue | None = None,
) -> SSAValue:
    """Through shared memory; `owner` as for `store_tile`."""
    if plan.bytes > ctx.scratch.limit:
        return _in_rounds(ctx, value, source, target, plan, owner)
    region = ctx.scratch.region(plan.bytes)
    store_tile(ctx, value, region, source, plan.shared, plan.store_vector, owner)
    ctx.b.barrier()
    element = scalar_of(value.type)
    return load_tile(ctx, element, region, target, plan.shared, plan.load_vector)


def convert_together(
    ctx: KernelLowering,
    values: Sequence[SSAValue],
    source: LinearLayout,
    target: LinearLayout,
    ways: Sequence[Attribute],
) -> tuple[SSAValue, ...] | None:
    """Several tiles as `convert` does, all of them stored before threads meet once.

    None where they do not all go through shared memory, or find no room there at once.
    """
    staged = [way for way in ways if isinstance(way, ThroughSmemAttr)]
    if len(values) < 2 or len(staged) < len(values):
        return None
    plans = [_plan(ctx, value, way) for value, way in zip(values, staged, strict=True)]
    sizes = [aligned(plan.bytes) for plan in plans]
    if sum(sizes) > ctx.scratch.limit:
        return None
    start = ctx.scratch.region(sum(sizes))
    regions = [ctx.b.gep(start, sum(sizes[:number])) for number in range(len(sizes))]
    for value, plan, region in zip(values, plans, regions, strict=True):
        store_tile(ctx, value, region, source, plan.shared, plan.store_vector, None)
    ctx.b.barrier()
    return tuple(
        load_tile(ctx, scalar_of(value.type), region, target, plan.shared, plan.load_vector)
        for value, plan, region in zip(values, plans, regions, strict=True)
    )


def _in_rounds(
    ctx: KernelLowering,
    value: SSAValue,
    source: LinearLayout,
    target: LinearLayout,
    plan: SharedMemory,
    owner: SSAValue | None = None,
) -> SSAValue:
    """Through a buffer that holds a part of the tile at a time."""
    element = scalar_of(value.type)
    limit = ctx.scratch.limit
    if limit <= 0:
        raise ctx.too_large(plan.bytes, limit)
    rounds = plan_rounds(source, target, plan, bit_width(element), limit)
    shared, load_vector = rounds.shared, plan.load_vector
    collected: SSAValue | None = None
    for index in range(rounds.count):
        window = Window(rounds.window, index)
        region = ctx.scratch.region(plan.bytes // rounds.count)
        store_tile(ctx, value, region, source, shared, plan.store_vector, owner, window)
        ctx.b.barrier()
        collected = load_windows(
            ctx, element, region, target, shared, load_vector, window, collected
        )
    return window_result(ctx, collected, element, target, shared, load_vector)


def _shuffle(ctx: KernelLowering, value: SSAValue, plan: WarpShuffle) -> SSAValue:
    """Selects, one exchange per round, selects (see `WarpShuffle`)."""
    count = (lanes_of(value.type) or 1) // plan.pack
    groups = [ctx.b.slice(value, i * plan.pack, plan.pack) for i in range(count)]
    groups = _swap(ctx, groups, plan.before_by_lane, plan.before_by_warp)
    received: list[SSAValue] = []
    for exchange in plan.rounds:
        offered = groups[exchange.send]
        if plan.is_local(exchange):
            received.append(offered)
        elif plan.is_butterfly:
            received.append(ctx.b.shfl("bfly", offered, exchange.lane_xor))
        else:
            lane = ctx.threads.linear(plan.source_lane_by_lane, plan.source_lane_by_warp)
            lane = ctx.b.xor(lane, ctx.b.i32(exchange.lane_xor))
            received.append(ctx.b.shfl("idx", offered, lane))
    placed = [received[index] for index in plan.arrival]
    placed = _swap(ctx, placed, plan.after_by_lane, ())
    return ctx.b.concat(placed)


def _swap(
    ctx: KernelLowering,
    groups: list[SSAValue],
    by_lane: tuple[int, ...],
    by_warp: tuple[int, ...],
) -> list[SSAValue]:
    """`result[j] = groups[j ^ f(lane, warp)]` for linear f: a conditional swap per basis."""
    for bit, (basis, warp) in enumerate(
        [*((basis, False) for basis in by_lane), *((basis, True) for basis in by_warp)]
    ):
        if basis == 0:
            continue
        index = bit - len(by_lane) if warp else bit
        keep = ctx.threads.all_zero(0 if warp else 1 << index, 1 << index if warp else 0)
        if keep is None:
            raise InternalError("a swap depends on no bit", where="lowering")
        groups = [
            ctx.b.select(
                ctx.b.splat(keep, lanes_of(group.type) or 1), group, groups[position ^ basis]
            )
            for position, group in enumerate(groups)
        ]
    return groups

"""The consumer's operations: waiting for full stages, wgmma on them, handing them back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from tileiras.codegen.atoms.element_names import wgmma_accumulator, wgmma_operand
from tileiras.codegen.atoms.shared_operands import SharedOperand
from tileiras.codegen.atoms.wgmma import FRAGMENTS_AT_ONCE, WgmmaFamily, find_wgmma_family
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.control_flow import block_for
from tileiras.codegen.lowering.staging import load_tile, memory_element
from tileiras.codegen.lowering.tensors import cluster_rank
from tileiras.codegen.lowering.types import element_type, register_type, storage_bits
from tileiras.codegen.lowering.wgmma_fragments import FragmentReader
from tileiras.codegen.lowering.wgmma_product import (
    LeftByThreads,
    LeftInRegisters,
    LeftInShared,
    Product,
)
from tileiras.dialects.cuda_tile.attributes import Signedness, SignednessAttr
from tileiras.dialects.layout.offsets import vector_elements
from tileiras.dialects.llvm.types import bit_width, integer_type, lanes_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.dialects.nv_tileas.memdesc import WARP_THREADS, MemDescType, is_in_smem
from tileiras.errors import InternalError

ROWS = 64
WARPS = 4
"""Warps of a warpgroup."""
FIRST_BARRIER = 9
"""Where warpgroups wait for the first one."""
_UNSIGNED = SignednessAttr(Signedness.UNSIGNED)


def lower_consumer_wait(ctx: KernelLowering, op: pl.ConsumerWaitOp) -> None:
    """Waits until the next stage is full; its tiles are pointers into it."""
    b, pipeline = ctx.b, ctx.roles.pipeline(op.pipeline)
    stage, parity = pipeline.position(ctx)
    newest, older = pipeline.held(ctx)
    current = stage.get(b)
    b.mbarrier_wait(pipeline.full_barrier(b, current), parity.get(b))
    if pipeline.has_prologue_fill:
        b.fence_proxy_async(predicate=b.trunc(pipeline.first_round(ctx).get(b), i1))
    address = pipeline.stage_address(b, current)
    for tile, offset in zip(op.tiles, op.offsets.data, strict=True):
        ctx.values[tile] = b.gep(address, offset)
    if not pl.is_handed_back_at_once(op.pipeline):
        older.set(b, newest.get(b))
    newest.set(b, current)
    pipeline.advance(ctx)


def lower_consumer_release(ctx: KernelLowering, op: pl.ConsumerReleaseOp) -> None:
    """One thread of each group of warps arrives for every stage that is handed back.

    Where lanes have read the stage, those loads are complete first: nothing else keeps TMA, another
    proxy, from writing the stage while one of them is under way (PTX ISA, "Async proxy"; decision
    0074).
    """
    b, pipeline = ctx.b, ctx.roles.pipeline(op.pipeline)
    newest, older = pipeline.held(ctx)
    warps = 1 if ctx.roles.is_transposer else ctx.num_warps // pipeline.consumers
    threads = WARP_THREADS * warps
    if threads == WARP_THREADS:
        b.fence_proxy_async()
    if op.by_warps is not None:
        b.warp_barrier()
    first = b.icmp("eq", b.and_(b.thread_id(), b.i32(threads - 1)), b.i32(0))
    at_once = pl.is_handed_back_at_once(op.pipeline)
    both = () if at_once else (older,)
    for variable in (older,) if op.keep.data else (*both, newest):
        stage, arrives = variable.get(b), first
        if not at_once:
            arrives = b.and_(first, b.icmp("sge", stage, b.i32(0)))
        b.mbarrier_arrive(pipeline.empty_barrier(b, stage), predicate=arrives)
        for other in range(1, ctx.cluster_size if pipeline.is_shared else 1):
            rank = ctx.prologue.xor(cluster_rank(ctx), ctx.prologue.i32(other))
            b.mbarrier_arrive(pipeline.empty_barrier(b, stage), cluster_cta=rank, predicate=arrives)
        if not at_once:
            variable.set(b, b.i32(-1))


def lower_select_tile(ctx: KernelLowering, op: pl.SelectTileOp) -> None:
    """One of two places in a stage."""
    condition, first, second = (ctx.value(operand) for operand in op.operands)
    ctx.values[op.result] = ctx.b.select(condition, first, second)


def lower_held_tile(ctx: KernelLowering, op: pl.HeldTileOp) -> None:
    """A place in the stage that was waited for last, or in the one before."""
    b, pipeline = ctx.b, ctx.roles.pipeline(op.pipeline)
    newest, older = pipeline.held(ctx)
    stage = newest.get(b)
    if op.age.data:
        before = older.get(b)
        stage = b.select(b.icmp("sge", before, b.i32(0)), before, stage)
    ctx.values[op.result] = b.gep(pipeline.stage_address(b, stage), op.offset.data)


def lower_read_tile(ctx: KernelLowering, op: pl.ReadTileOp) -> None:
    """Each thread reads its elements, as many at once as lie together."""
    layout, tile = ctx.layout(op.result.type), _tile_type(op.tile)
    if tile.shared_linear is None:
        raise InternalError("a tile is read that lies as products want it", where="wgmma")
    element = register_type(tile.element_type)
    vector = vector_elements(layout, tile.shared_linear, bit_width(memory_element(element)))
    place = ctx.value(op.tile)
    ctx.values[op.result] = load_tile(ctx, element, place, layout, tile.shared_linear, vector)


def lower_uniform(ctx: KernelLowering, op: pl.UniformOp) -> None:
    """What lane 0 of the warp has."""
    ctx.values[op.result] = ctx.b.shfl("idx", ctx.value(op.source), 0)


def _tile_type(tile: SSAValue) -> MemDescType:
    if not is_in_smem(tile.type):
        raise InternalError("an operand of wgmma is not in shared memory", where="wgmma")
    return tile.type


def _operand(tile: SSAValue, k_axis: int, count: int = 1) -> SharedOperand:
    """How `count` tiles lie, seen from the product: K runs along dim `k_axis`."""
    type = _tile_type(tile)
    major = "k" if type.major == k_axis else "mn"
    extent, k = count * type.shape[1 - k_axis], type.shape[k_axis]
    return SharedOperand(major, extent, k, storage_bits(type.element_type), type.swizzle)


def _family(
    op: wg.WgmmaDotOp | wg.WgmmaDotsOp,
    operands: tuple[SSAValue, SSAValue],
    result: SSAValue,
    is_transposed: bool,
) -> WgmmaFamily:
    """The instructions for the types of the operands, in their order, and the result."""
    signs = (op.signedness_lhs, op.signedness_rhs)
    names = [
        wgmma_operand(element_type(value.type), sign == _UNSIGNED)
        for value, sign in zip(operands, signs, strict=True)
    ]
    if is_transposed:
        names.reverse()
    family = find_wgmma_family(wgmma_accumulator(element_type(result.type)), *names)
    if family is None:
        raise InternalError(f"no wgmma of {names[0]} and {names[1]}", where="wgmma")
    return family


def lower_wgmma_dot(ctx: KernelLowering, op: wg.WgmmaDotOp) -> None:
    """All K steps and blocks of rows of one product."""
    fragments = op.fragments.data if op.fragments is not None else ""
    is_transposed = op.is_transposed
    family = _family(op, (op.lhs, op.rhs), op.result, is_transposed)
    right_tile, k_axis = (op.lhs, 1) if is_transposed else (op.rhs, 0)
    rhs = _operand(right_tile, k_axis)
    rows = ctx.layout(op.result.type).shape[1 if is_transposed else 0]
    repeats = max(1, rows // (ROWS * (ctx.num_warps // 4)))
    has_columns = rows == ROWS and ctx.num_warps > WARPS
    columns = rhs.extent // (ctx.num_warps // WARPS) if has_columns else rhs.extent
    right_place = ctx.value(right_tile)
    if has_columns:
        own = ctx.b.mul(_warpgroup(ctx), ctx.b.i32(rhs.extent_offset(columns)))
        right_place = ctx.b.gep(right_place, ctx.b.zext(own, integer_type(64)))
    if fragments:
        tile = op.rhs if is_transposed else op.lhs
        left = _left_by_threads(ctx, tile, 1 - k_axis, is_smem_transposed=fragments == "both")
        is_beside = fragments == "both" and family.operand_bits == 32
        if is_beside and repeats * len(rhs.k_offsets) <= FRAGMENTS_AT_ONCE:
            left = replace(left, is_whole=True)
    elif is_in_smem(op.lhs.type):
        left_tile = op.rhs if is_transposed else op.lhs
        left = _left_in_shared(ctx, left_tile, 1 - k_axis, repeats, is_common=has_columns)
    else:
        left = LeftInRegisters(ctx, ctx.value(op.lhs), len(rhs.k_offsets))
    right = ctx.b.operand_descriptor(right_place, rhs)
    product = Product(ctx, family, left, right, rhs, repeats, columns)
    acc = ctx.value(op.acc)
    pending = op.pending.data if op.pending is not None else None

    def multiply() -> list[SSAValue]:
        if op.two_level is not None:
            return [product.two_level(acc)]
        if op.from_zero is not None:
            return [product.from_zero(pending)]
        adds = ctx.value(op.adds_if) if op.adds_if is not None else None
        return [product.accumulated(acc, pending, adds)]

    if op.condition is None:
        [ctx.values[op.result]] = multiply()
    else:
        _multiply_if(ctx, op.condition, op.results, multiply, partial(_no_group, ctx, acc, pending))


def _multiply_if(
    ctx: KernelLowering,
    condition: SSAValue,
    results: Sequence[SSAValue],
    multiply: Callable[[], list[SSAValue]],
    other: Callable[[], list[SSAValue]],
) -> None:
    """The results of `multiply` where the condition holds, else those of `other`.

    Each has its instructions and their waits in one block: ptxas finds registers for both.
    """
    blocks = ctx.b.new_block(), ctx.b.new_block()
    after = block_for(ctx, results)
    ctx.b.cond_br(ctx.value(condition), *blocks)
    for block, compute in zip(blocks, (multiply, other), strict=True):
        ctx.start_block(block)
        ctx.b.br(after, compute())
    ctx.start_block(after)


def _no_group(ctx: KernelLowering, acc: SSAValue, pending: int | None) -> list[SSAValue]:
    """The accumulator as it is, behind a group of no instructions: those before it are counted."""
    ctx.b.wgmma_commit()
    return [acc] if pending is None else [ctx.b.wgmma_wait(pending, acc)[0]]


def lower_wgmma_dots(ctx: KernelLowering, op: wg.WgmmaDotsOp) -> None:
    """The products of several tiles as one: their columns are those of one right operand.

    In a thread's registers the columns of a block of rows lie together, tile after tile.
    """
    accs = [ctx.value(acc) for acc in op.accs]
    if op.condition is None:
        ctx.values.update(zip(op.sums, _sums_of(ctx, op, accs), strict=True))
        return
    _multiply_if(
        ctx,
        op.condition,
        op.sums,
        lambda: _sums_of(ctx, op, accs),
        lambda: [*_sums_of(ctx, op, accs[:-1]), accs[-1]],
    )


def _sums_of(ctx: KernelLowering, op: wg.WgmmaDotsOp, accs: Sequence[SSAValue]) -> list[SSAValue]:
    """The sums of the first tiles, as many as there are accumulators, by instructions for all."""
    b, is_transposed = ctx.b, op.transposed is not None
    k_axis = 1 if is_transposed else 0
    family = _family(op, op.operands_of(0), op.sums[0], is_transposed)
    rhs = _operand(op.tiles[0], k_axis, len(accs))
    rows = ctx.layout(op.sums[0].type).shape[1 if is_transposed else 0]
    repeats = rows // (ROWS * (ctx.num_warps // 4))
    if op.fragments is None:
        left = _left_in_shared(ctx, op.common, 1 - k_axis, repeats)
    else:
        left = _left_by_threads(ctx, op.common, 1 - k_axis, is_smem_transposed=False)
    right = b.operand_descriptor(ctx.value(op.tiles[0]), rhs)
    product = Product(ctx, family, left, right, rhs, repeats, rhs.extent)
    size = (lanes_of(accs[0].type) or 0) // repeats
    parts = [b.slice(acc, i * size, size) for i in range(repeats) for acc in accs]
    total = product.accumulated(b.concat(parts), op.pending.data)
    sums: list[SSAValue] = []
    for number in range(len(accs)):
        starts = [(i * len(accs) + number) * size for i in range(repeats)]
        sums.append(b.concat([b.slice(total, start, size) for start in starts]))
    return sums


def _left_by_threads(
    ctx: KernelLowering, tile: SSAValue, k_axis: int, *, is_smem_transposed: bool
) -> LeftByThreads:
    """A tile whose rows are contiguous, which each warp reads into registers."""
    place = (ctx.value(tile), _tile_type(tile))
    return LeftByThreads(
        ctx, FragmentReader(ctx, *place, k_axis, is_smem_transposed=is_smem_transposed)
    )


def _warpgroup(ctx: KernelLowering) -> SSAValue:
    """The number of this warpgroup, of which ptxas knows that it is the same for a warp."""
    return ctx.b.shfl("idx", ctx.b.lshr(ctx.b.thread_id(), ctx.b.i32(7)), 0)


def _left_in_shared(
    ctx: KernelLowering, tile: SSAValue, k_axis: int, repeats: int, *, is_common: bool = False
) -> LeftInShared:
    """This warpgroup's rows of a tile in shared memory; K runs along dim `k_axis`.

    `is_common`: all warpgroups have all rows.
    """
    b, lhs = ctx.b, _operand(tile, k_axis)
    warpgroups = 1 if is_common else ctx.num_warps // 4
    pointer = ctx.value(tile)
    if warpgroups > 1:
        rows = b.mul(_warpgroup(ctx), b.i32(lhs.extent_offset(ROWS)))
        pointer = b.gep(pointer, b.zext(rows, integer_type(64)))
    stride = lhs.extent_offset(ROWS * warpgroups) if repeats > 1 else 0
    return LeftInShared(b.operand_descriptor(pointer, lhs), lhs.k_offsets, stride, lhs.major)


def lower_dot_wait(ctx: KernelLowering, op: wg.DotWaitOp) -> None:
    """The accumulator once it is finished; what the product reads stays where it is until then."""
    values = [ctx.value(operand) for operand in op.operands]
    moved = op.moved is not None
    ctx.values[op.result] = ctx.b.wgmma_wait(op.pending.data, *values, moved=moved)[0]


def lower_await_first(ctx: KernelLowering, op: wg.AwaitFirstOp) -> None:
    """Warpgroups but the first wait at a barrier for all."""
    is_first = ctx.b.icmp("eq", _warpgroup(ctx), ctx.b.i32(0))
    with ctx.where(ctx.b.not_(is_first)):
        ctx.b.barrier(FIRST_BARRIER, WARP_THREADS * ctx.num_warps)


def lower_start_others(ctx: KernelLowering, op: wg.StartOthersOp) -> None:
    """The first warpgroup arrives there."""
    with ctx.where(ctx.b.icmp("eq", _warpgroup(ctx), ctx.b.i32(0))):
        ctx.b.barrier_arrive(FIRST_BARRIER, WARP_THREADS * ctx.num_warps)


def lower_has_rows(ctx: KernelLowering, op: wg.HasRowsOp) -> None:
    """The same in all threads of a warpgroup."""
    b, half = ctx.b, ctx.num_warps // WARPS // 2
    is_of_first = b.icmp("ult", _warpgroup(ctx), b.i32(half))
    ctx.values[op.result] = b.or_(ctx.value(op.both), is_of_first)


def lower_leave_pipelines(ctx: KernelLowering, op: wg.LeavePipelinesOp) -> None:
    """One thread drops out of the barriers where stages are handed back."""
    b = ctx.b
    threads = b.i32(WARP_THREADS * WARPS - 1)
    first = b.icmp("eq", b.and_(b.thread_id(), threads), b.i32(0))
    for value in op.pipelines:
        pipeline = ctx.roles.pipeline(value)
        for stage in range(pipeline.stages):
            empty = pipeline.empty_barrier(b, b.i32(stage))
            b.mbarrier_arrive(empty, predicate=first, drops=True)

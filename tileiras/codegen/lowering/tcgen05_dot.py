"""Products by tcgen05: the warp role that issues, consumers that load.

An accumulator has a full and an empty mbarrier per stage, as a circular buffer of stages has. The
warp role's warp keeps together; one lane, always the same, issues the products and the arrivals
that follow them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

from xdsl.dialects.builtin import IntAttr, i1
from xdsl.ir import Operation, SSAValue

from tileiras.codegen.atoms.element_names import wgmma_operand
from tileiras.codegen.atoms.tcgen05 import (
    MOST_N,
    Tcgen05Kind,
    get_tcgen05_kind,
)
from tileiras.codegen.lowering.context import KernelLowering, LoweringRules
from tileiras.codegen.lowering.elementwise.packed import is_packed, packed_arithmetic
from tileiras.codegen.lowering.pipelines import BARRIER_BYTES, SumPipeline, TensorMemory, Variable
from tileiras.codegen.lowering.tcgen05_operands import operand_in_stage, scale_columns_end
from tileiras.codegen.lowering.tensor_memory import (
    find_address,
    memory_address,
    own_part,
    tensor_memory,
)
from tileiras.codegen.lowering.tensors import cluster_rank, first_of_pair, is_first_of_pair
from tileiras.codegen.lowering.types import element_type, register_type, storage_bits
from tileiras.dialects.cuda_tile.attributes import Signedness, SignednessAttr
from tileiras.dialects.layout.tmem import BLOCK_ROWS, TMEM_COLUMN_BITS
from tileiras.dialects.llvm import memory as llvm_memory
from tileiras.dialects.llvm.types import SHARED, integer_type, lanes_of, scalar_of, vector_type
from tileiras.dialects.nv_tileas import tcgen05 as tc
from tileiras.dialects.nv_tileas.memdesc import is_in_tmem
from tileiras.dialects.nv_tileas.tcgen05 import Tcgen05DotScaledOp
from tileiras.errors import InternalError

WARP_THREADS = 32
SCALED_AT_ONCE = 32
"""Policy: columns of a sum that a thread loads, scales and stores at a time."""
_WARPGROUP_SHIFT = 7
"""Threads of a warpgroup, as a power of two."""
_OfBlock = (
    tc.AccumulatorAcquireOp
    | tc.AccumulatorCommitOp
    | tc.Tcgen05DotOp
    | tc.LeftOperandWaitOp
    | tc.LeftOperandReleaseOp
)
_UNSIGNED = SignednessAttr(Signedness.UNSIGNED)


def lower_create_accumulator(ctx: KernelLowering, op: tc.CreateAccumulatorOp) -> None:
    """Reserves mbarriers; the first one also the cell for the address."""
    if ctx.roles.tensor_memory is None:
        cell = llvm_memory.GlobalOp.make(ctx.symbols.unique("tmem"), BARRIER_BYTES, SHARED, 8)
        ctx.add_globals(cell)
        ctx.scratch.reserve(BARRIER_BYTES)
        ctx.roles.tensor_memory = TensorMemory(ctx.prologue.address_of(cell), cell, {})
    blocks = _number(op.blocks, 1)
    readers = op.readers.data // blocks
    pipeline = _pipeline(ctx, op.stages.data, op.column.data, op.columns.data, readers, 1, blocks)
    pipeline.is_scaled, pipeline.is_paired = op.scaled is not None, op.pair is not None
    pipeline.is_filled = op.filled is not None
    ctx.roles.tensor_memory.pipelines[op.result] = pipeline


def _pipeline(
    ctx: KernelLowering,
    stages: int,
    column: int,
    columns: int,
    readers: int,
    writers: int,
    blocks: int,
) -> SumPipeline:
    """Stages in tensor memory, with mbarriers of their own for each block of rows."""
    size = 2 * BARRIER_BYTES * stages * blocks
    name = ctx.symbols.unique("sum_barriers")
    barriers = llvm_memory.GlobalOp.make(name, size, SHARED, BARRIER_BYTES)
    ctx.add_globals(barriers)
    ctx.scratch.reserve(size)
    return SumPipeline(
        ctx.prologue.address_of(barriers),
        stages,
        column,
        columns,
        readers,
        Variable(ctx, 0),
        Variable(ctx, 0),
        Variable(ctx, 0),
        writers=writers,
        blocks=blocks,
    )


def _number(value: IntAttr | None, otherwise: int) -> int:
    return otherwise if value is None else value.data


def _block(op: _OfBlock, pipeline: SumPipeline) -> int:
    """The block of rows that an operation of the warp role is for."""
    return _number(op.block, pipeline.blocks - 1)


def _is_last(op: _OfBlock, pipeline: SumPipeline) -> bool:
    """Whether it is for the last block, behind which the next stage follows."""
    return _block(op, pipeline) == pipeline.blocks - 1


def own_block(ctx: KernelLowering, pipeline: SumPipeline) -> int | SSAValue:
    """The block of rows of this consumer: of its warpgroup."""
    if pipeline.blocks == 1:
        return 0
    b = ctx.b
    return b.lshr(b.thread_id(), b.i32(_WARPGROUP_SHIFT))


def lower_create_left_operand(ctx: KernelLowering, op: Operation) -> None:
    """Reserves mbarriers; there is tensor memory already, for the sum comes first."""
    if not isinstance(op, tc.CreateLeftOperandOp) or not is_in_tmem(op.result.type):
        raise InternalError("the rule of create_left_operand got another operation")
    columns, blocks = op.result.type.tmem_columns, _number(op.blocks, 1)
    writers = op.writers.data // blocks
    pipeline = _pipeline(ctx, 1, op.column.data, columns, 1, writers, blocks)
    pipeline.row_stride = None if op.stride is None else op.stride.data
    tensor_memory(ctx).pipelines[op.result] = pipeline


def lower_product_warp(ctx: KernelLowering, op: tc.ProductWarpOp) -> None:
    """Its program is written where the warps part."""
    memory = tensor_memory(ctx)
    memory.product_warp = op
    scaled = [inner for inner in op.walk() if isinstance(inner, Tcgen05DotScaledOp)]
    if scaled:
        memory.scales_end = max(map(scale_columns_end, scaled))


def init_barriers(ctx: KernelLowering) -> None:
    """One thread makes the mbarriers of all accumulators."""
    b = ctx.b
    for pipeline in tensor_memory(ctx).pipelines.values():
        for block, number in product(range(pipeline.blocks), range(pipeline.stages)):
            b.mbarrier_init(pipeline.full_barrier(b, b.i32(number), block), pipeline.writers)
            readers = pipeline.readers * (2 if pipeline.is_paired else 1)
            b.mbarrier_init(pipeline.empty_barrier(b, b.i32(number), block), readers)


def start_product_warp(ctx: KernelLowering) -> None:
    """The warp role's warp meets the others, and chooses the lane that issues.

    Of a pair of CTAs the first one issues for both. The second one runs the same program, in which
    it waits for its stages and tells the first one.
    """
    ctx.roles.meet(ctx)
    find_address(ctx)
    b, memory = ctx.b, tensor_memory(ctx)
    memory.leader = b.elect()
    if memory.is_paired:
        is_first = is_first_of_pair(ctx)
        memory.second = b.and_(memory.leader, b.xor(is_first, b.i1(True)))
        memory.leader = b.and_(memory.leader, is_first)


def lower_accumulator_acquire(ctx: KernelLowering, op: tc.AccumulatorAcquireOp) -> None:
    """Waits until the consumers have loaded what was in the stage, or stored what is to be."""
    b, pipeline = ctx.b, tensor_memory(ctx).pipeline(op.accumulator)
    empty = pipeline.empty_barrier(b, pipeline.stage.get(b), _block(op, pipeline))
    parity = pipeline.parity.get(b)
    b.mbarrier_wait(empty, parity if pipeline.is_filled else b.xor(parity, b.i32(1)))
    b.tcgen05_fence("after_thread_sync")
    if pipeline.is_scaled:
        if _is_last(op, pipeline):
            pipeline.advance(b)
    else:
        pipeline.adds.set(b, b.i32(int(pipeline.is_filled)))


def lower_tcgen05_dot(ctx: KernelLowering, op: tc.Tcgen05DotOp) -> None:
    """Instructions for all blocks of 128 rows and of 256 columns, along K.

    Those of a pair of CTAs have the rows of both, and half of the columns of each.
    """
    b, memory = ctx.b, tensor_memory(ctx)
    pipeline, kind = memory.pipeline(op.accumulator), get_tcgen05_kind(op.kind.data)
    left, rhs = _left_operand(ctx, op.lhs, kind), operand_in_stage(op.rhs, 0)
    ctas = 1 if op.pair is None else 2
    m, n = min(left.rows, BLOCK_ROWS), min(rhs.extent, MOST_N // ctas)
    names = _names(op)
    transposed = (left.is_transposed, rhs.major == "mn")
    word = kind.descriptor(*names, m * ctas, n * ctas, transposed=transposed, ctas=ctas)
    right = b.tcgen05_descriptor(ctx.value(op.rhs), rhs)
    first = b.add(memory.address(), pipeline.offset(b))
    adds = b.i1(True) if pipeline.is_scaled else b.trunc(pipeline.adds.get(b), i1)
    whole, count = range(0, left.rows, m), left.rows // pipeline.blocks
    first_row = 0 if op.block is None else op.block.data * count
    rows = whole if op.block is None else range(first_row, first_row + count, m)
    for row in rows:
        for column in range(0, rhs.extent, n):
            to = (row // m * rhs.extent + column) * ctas
            b.tcgen05_mma(
                kind.name,
                word,
                b.add(first, b.i32(to)) if to else first,
                left.address,
                right,
                adds,
                a_offsets=left.offsets(row),
                b_offsets=[rhs.extent_offset(column) + k for k in rhs.k_offsets],
                predicate=memory.leader,
                pair=ctas > 1,
            )
    if not pipeline.is_scaled:
        pipeline.adds.set(b, b.i32(1))


@dataclass(frozen=True)
class _LeftOperand:
    """A left operand: a descriptor of shared memory, or an address in tensor memory; from there on
    steps of K begin at `offsets` for a block of rows: bytes, or columns.
    """

    address: SSAValue
    rows: int
    is_transposed: bool
    offsets: Callable[[int], list[int]]


def _left_operand(ctx: KernelLowering, tile: SSAValue, kind: Tcgen05Kind) -> _LeftOperand:
    """Where a left operand is, and how it lies there."""
    b = ctx.b
    if not is_in_tmem(tile.type):
        staged = operand_in_stage(tile, 1)
        descriptor = b.tcgen05_descriptor(ctx.value(tile), staged)

        def bytes_of(row: int) -> list[int]:
            return [staged.extent_offset(row) + k for k in staged.k_offsets]

        return _LeftOperand(descriptor, staged.extent, staged.major == "mn", bytes_of)
    rows, depth = tile.type.shape
    columns = tile.type.tmem_columns // (rows // BLOCK_ROWS)
    step, pipeline = kind.k * columns // depth, tensor_memory(ctx).pipeline(tile)
    stride = columns if pipeline.row_stride is None else pipeline.row_stride

    def columns_of(row: int) -> list[int]:
        first = row // BLOCK_ROWS * stride
        return list(range(first, first + columns, step))

    address = b.add(memory_address(ctx), pipeline.offset(b))
    return _LeftOperand(address, rows, False, columns_of)


def _names(op: tc.Tcgen05DotOp) -> tuple[str, str]:
    """PTX's names of the operands' types."""
    lhs = wgmma_operand(element_type(op.lhs.type), op.signedness_lhs == _UNSIGNED)
    rhs = wgmma_operand(element_type(op.rhs.type), op.signedness_rhs == _UNSIGNED)
    if lhs is None or rhs is None:
        raise InternalError(f"no tcgen05 of {op.lhs.type} and {op.rhs.type}", where="tcgen05")
    return lhs, rhs


def lower_stage_release(ctx: KernelLowering, op: tc.StageReleaseOp) -> None:
    """The tensor core hands the newest stage back when it has read it.

    To all CTAs of the cluster that fill it. Of a pair, whose second CTA tells the first one here
    that its stage is full, to both.
    """
    b, pipeline = ctx.b, ctx.roles.pipeline(op.pipeline)
    newest, _ = pipeline.held(ctx)
    everyone = None
    if pipeline.is_shared and ctx.cluster_size > 1:
        everyone = b.const_int(integer_type(16), (1 << ctx.cluster_size) - 1)
    memory, stage = tensor_memory(ctx), newest.get(b)
    if pipeline.is_paired:
        everyone = everyone or _both(ctx)
        full = pipeline.full_barrier(b, stage)
        b.mbarrier_arrive(full, cluster_cta=first_of_pair(ctx), predicate=memory.second)
    empty = pipeline.empty_barrier(b, stage)
    b.tcgen05_commit(empty, memory.leader, everyone, pipeline.is_paired)


def lower_accumulator_commit(ctx: KernelLowering, op: tc.AccumulatorCommitOp) -> None:
    """The stage is full when all products issued so far are done."""
    b, memory = ctx.b, tensor_memory(ctx)
    pipeline = memory.pipeline(op.accumulator)
    full, both = pipeline.full_barrier(b, pipeline.stage.get(b), _block(op, pipeline)), None
    if pipeline.is_paired:
        both = _both(ctx)
    b.tcgen05_commit(full, memory.leader, both, pipeline.is_paired)
    if not pipeline.is_scaled and _is_last(op, pipeline):
        pipeline.advance(b)


def lower_accumulator_clear(ctx: KernelLowering, op: Operation) -> None:
    """Waits until the sum is there to be scaled, and stores zeros."""
    if not isinstance(op, tc.AccumulatorClearOp) or not is_in_tmem(op.accumulator.type):
        raise InternalError("the rule of accumulator_clear got another operation")
    b, pipeline = ctx.b, tensor_memory(ctx).pipeline(op.accumulator)
    _wait_for_sum(ctx, pipeline)
    rows, columns = op.accumulator.type.shape
    part = own_part(ctx, (rows, columns), "32x32b", pipeline, SCALED_AT_ONCE)
    address, (repeats, offsets) = part
    zero = b.zero(vector_type(integer_type(32), repeats))
    for offset in offsets:
        b.tcgen05_st(address, "32x32b", repeats, [offset], zero)


def _wait_for_sum(ctx: KernelLowering, pipeline: SumPipeline) -> None:
    """Consumers wait for their block of a sum."""
    b = ctx.b
    full = pipeline.full_barrier(b, pipeline.stage.get(b), own_block(ctx, pipeline))
    b.mbarrier_wait(full, pipeline.parity.get(b))
    b.tcgen05_fence("after_thread_sync")


def lower_accumulator_scale(ctx: KernelLowering, op: tc.AccumulatorScaleOp) -> None:
    """Waits for the product before, and multiplies what it left.

    A warp all of whose factors are one leaves its part as it is.
    """
    b, pipeline = ctx.b, tensor_memory(ctx).pipeline(op.accumulator)
    factors, layout = ctx.value(op.factors), ctx.layout(op.factors.type)
    _wait_for_sum(ctx, pipeline)
    pipeline.advance(b)
    rows, columns = layout.shape
    part = own_part(ctx, (rows, columns), "32x32b", pipeline, SCALED_AT_ONCE)
    scale, after = (b.new_block() for _ in range(2))
    if op.flush_to_zero is None:
        b.cond_br(b.vote("all", _are_ones(ctx, factors)), after, scale)
    else:
        # One times a subnormal number is zero then.
        b.br(scale)
    ctx.start_block(scale)
    address, (repeats, offsets) = part
    element = register_type(element_type(op.factors.type))
    for number, offset in enumerate(offsets):
        loaded = b.tcgen05_ld(address, "32x32b", repeats, [offset], element)
        own = b.slice(factors, number * repeats, repeats)
        if op.flush_to_zero is not None and is_packed("mul", loaded, ctx.target):
            scaled = packed_arithmetic(b, "mul.rn.ftz", loaded, own)
        elif op.flush_to_zero is not None:
            scaled = b.unary_intrinsic("llvm.nvvm.mul.rn.ftz.f", loaded, own)
        else:
            scaled = b.fmul(loaded, own)
        words = b.bitcast(scaled, vector_type(integer_type(32), repeats))
        b.tcgen05_st(address, "32x32b", repeats, [offset], words)
    b.br(after)
    ctx.start_block(after)


def _are_ones(ctx: KernelLowering, factors: SSAValue) -> SSAValue:
    """i1: whether a thread's factors are all one; those of a row are the same value."""
    b = ctx.b
    count = lanes_of(factors.type) or 1
    found: SSAValue | None = None
    one = b.const_float(scalar_of(factors.type), 1.0)
    for number in range(count):
        same = b.fcmp("oeq", b.extract(factors, number), one)
        found = same if found is None else b.and_(found, same)
    if found is None:
        raise InternalError("a sum is scaled by no factors", where="tcgen05")
    return found


def lower_accumulator_fill(ctx: KernelLowering, op: tc.AccumulatorFillOp) -> None:
    """Stores this warp's part, and hands the stage to the products, each warp for itself."""
    b, pipeline = ctx.b, tensor_memory(ctx).pipeline(op.accumulator)
    rows, columns = ctx.layout(op.value.type).shape
    address, (repeats, offsets) = own_part(ctx, (rows, columns), op.shape.data, pipeline)
    value = ctx.value(op.value)
    words = b.bitcast(value, vector_type(integer_type(32), lanes_of(value.type) or 1))
    b.tcgen05_st(address, op.shape.data, repeats, offsets, words)
    empty = pipeline.empty_barrier(b, pipeline.stage.get(b), own_block(ctx, pipeline))
    _release(ctx, empty, pipeline.is_paired)


def lower_accumulator_load(ctx: KernelLowering, op: tc.AccumulatorLoadOp) -> None:
    """Waits, loads this warp's part, and hands the stage back, each warp for itself."""
    b, memory = ctx.b, tensor_memory(ctx)
    pipeline = memory.pipeline(op.accumulator)
    stage = pipeline.stage.get(b)
    _wait_for_sum(ctx, pipeline)
    loaded = _load(ctx, op, pipeline)
    if not pipeline.is_filled:
        empty = pipeline.empty_barrier(b, stage, own_block(ctx, pipeline))
        _release(ctx, empty, pipeline.is_paired)
    pipeline.advance(b)
    ctx.values[op.result] = _zeros_unless(ctx, ctx.value(op.any), loaded)


def _both(ctx: KernelLowering) -> SSAValue:
    """The mask of the CTAs of this one's pair."""
    b = ctx.b
    return b.trunc(b.shl(b.i32(3), first_of_pair(ctx)), integer_type(16))


def _release(ctx: KernelLowering, barrier: SSAValue, of_pair: bool = False) -> None:
    """Each warp arrives for itself, when all its threads are done with tensor memory.

    `of_pair`: at the barriers of both CTAs of a pair.
    """
    b = ctx.b
    b.tcgen05_fence("before_thread_sync")
    b.warp_barrier()
    first = b.icmp("eq", b.and_(b.thread_id(), b.i32(WARP_THREADS - 1)), b.i32(0))
    b.mbarrier_arrive(barrier, predicate=first)
    if of_pair:
        other = ctx.prologue.xor(cluster_rank(ctx), ctx.prologue.i32(1))
        b.mbarrier_arrive(barrier, cluster_cta=other, predicate=first)


def lower_left_operand_store(ctx: KernelLowering, op: tc.LeftOperandStoreOp) -> None:
    """Waits for the products that read what was there, stores, and gives it to the next ones."""
    b, layout = ctx.b, ctx.layout(op.tile.type)
    pipeline, value = tensor_memory(ctx).pipeline(op.left), ctx.value(op.tile)
    stage, block = pipeline.stage.get(b), own_block(ctx, pipeline)
    empty = pipeline.empty_barrier(b, stage, block)
    b.mbarrier_wait(empty, b.xor(pipeline.parity.get(b), b.i32(1)))
    b.tcgen05_fence("after_thread_sync")
    rows, columns = layout.shape
    each = TMEM_COLUMN_BITS // storage_bits(element_type(op.tile.type))
    address, (repeats, offsets) = own_part(ctx, (rows, columns // each), "32x32b", pipeline)
    # Each by itself: LLVM would take them for parts of wider integers.
    parts = [b.slice(value, each * number, each) for number in range(repeats * len(offsets))]
    words = b.build([b.bitcast(part, integer_type(32)) for part in parts])
    b.tcgen05_st(address, "32x32b", repeats, offsets, words)
    _release(ctx, pipeline.full_barrier(b, stage, block))
    pipeline.advance(b)


def lower_left_operand_wait(ctx: KernelLowering, op: tc.LeftOperandWaitOp) -> None:
    """Waits until all consumers have stored their parts."""
    b, pipeline = ctx.b, tensor_memory(ctx).pipeline(op.left)
    full = pipeline.full_barrier(b, pipeline.stage.get(b), _block(op, pipeline))
    b.mbarrier_wait(full, pipeline.parity.get(b))
    b.tcgen05_fence("after_thread_sync")


def lower_left_operand_release(ctx: KernelLowering, op: tc.LeftOperandReleaseOp) -> None:
    """The tensor core hands the place back when it has read it."""
    b, memory = ctx.b, tensor_memory(ctx)
    pipeline = memory.pipeline(op.left)
    empty = pipeline.empty_barrier(b, pipeline.stage.get(b), _block(op, pipeline))
    b.tcgen05_commit(empty, predicate=memory.leader)
    if _is_last(op, pipeline):
        pipeline.advance(b)


def _load(ctx: KernelLowering, op: tc.AccumulatorLoadOp, pipeline: SumPipeline) -> SSAValue:
    """This thread's elements, in the order of the layout's registers (`layout/tmem`)."""
    b, layout, shape = ctx.b, ctx.layout(op.result.type), op.shape.data
    rows, columns = layout.shape
    address, (repeats, offsets) = own_part(ctx, (rows, columns), shape, pipeline)
    element = register_type(element_type(op.result.type))
    loaded = b.tcgen05_ld(address, shape, repeats, offsets, element)
    if lanes_of(loaded.type) != layout.in_size("register"):
        raise InternalError(f"loads of {shape} do not give {layout}", where="tcgen05")
    return loaded


def _zeros_unless(ctx: KernelLowering, condition: SSAValue, value: SSAValue) -> SSAValue:
    """Zeros where there were no products."""
    b, count = ctx.b, lanes_of(value.type)
    zero = b.zero(value.type)
    return b.select(condition if count is None else b.splat(condition, count), value, zero)


RULES: LoweringRules = {
    tc.CreateAccumulatorOp: lower_create_accumulator,
    tc.ProductWarpOp: lower_product_warp,
    tc.AccumulatorAcquireOp: lower_accumulator_acquire,
    tc.Tcgen05DotOp: lower_tcgen05_dot,
    tc.StageReleaseOp: lower_stage_release,
    tc.AccumulatorCommitOp: lower_accumulator_commit,
    tc.AccumulatorLoadOp: lower_accumulator_load,
    tc.AccumulatorClearOp: lower_accumulator_clear,
    tc.AccumulatorFillOp: lower_accumulator_fill,
    tc.AccumulatorScaleOp: lower_accumulator_scale,
    tc.CreateLeftOperandOp: lower_create_left_operand,
    tc.LeftOperandStoreOp: lower_left_operand_store,
    tc.LeftOperandWaitOp: lower_left_operand_wait,
    tc.LeftOperandReleaseOp: lower_left_operand_release,
}
"""Products by tcgen05 by class."""

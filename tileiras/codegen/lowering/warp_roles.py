"""Warp roles: the producer's warps and the consumer warpgroups of a specialised kernel.

Threads 0 .. 32 * consumer_warps - 1 are the consumers, so that their code is that of an ordinary
kernel; the warps after them are the producer's: one issues TMA, alone or with three others to a
warpgroup, or four gather. One of these others, or one more, may store what consumers have staged.
All meet once, after the barriers of the pipelines are made and a slot for tensor maps is claimed;
from then on they meet at mbarriers only, and consumers at a named barrier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from xdsl.ir import Block, Operation, SSAValue

from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.lowering.barrier_makers import BarrierMakers
from tileiras.codegen.lowering.context import KernelLowering, LoweringRules
from tileiras.codegen.lowering.gathers import lower_gather_load, lower_proxy_fence
from tileiras.codegen.lowering.longest_tile_first import longest_tile_first_blocks
from tileiras.codegen.lowering.mma_dot import MmaProduct
from tileiras.codegen.lowering.pipelines import START_BARRIER, Pipeline
from tileiras.codegen.lowering.prologue_fill import lower_producer_skip, lower_prologue_fill
from tileiras.codegen.lowering.store_warp import init_barriers as init_store_barriers
from tileiras.codegen.lowering.store_warp import (
    lower_create_store_pipeline,
    lower_stage_for_tma_store,
    lower_store_stage,
    lower_store_tail,
    start_store_warp,
)
from tileiras.codegen.lowering.tcgen05_dot import init_barriers as init_product_barriers
from tileiras.codegen.lowering.tcgen05_dot import start_product_warp
from tileiras.codegen.lowering.tensor_maps import (
    claim_slot,
    lower_make_tiled_tma_desc,
    lower_renew_tiled_tma_descs,
    plan_tensor_maps,
    start_producer,
    try_claim,
)
from tileiras.codegen.lowering.tensor_memory import allocate as allocate_tensor_memory
from tileiras.codegen.lowering.tensor_memory import find_address as find_tensor_memory
from tileiras.codegen.lowering.tensors import is_first_of_pair
from tileiras.codegen.lowering.thread_map import ThreadMap
from tileiras.codegen.lowering.tma import (
    lower_producer_acquire,
    lower_producer_commit,
    lower_producer_tail,
    lower_tma_load,
)
from tileiras.codegen.lowering.tma_stores import lower_tma_store
from tileiras.codegen.lowering.transposing_warps import (
    lower_transpose_tile,
    lower_transpose_warps,
)
from tileiras.codegen.lowering.view_copies import lower_copy_load
from tileiras.codegen.lowering.wgmma_dot import (
    lower_await_first,
    lower_consumer_release,
    lower_consumer_wait,
    lower_dot_wait,
    lower_has_rows,
    lower_held_tile,
    lower_leave_pipelines,
    lower_read_tile,
    lower_select_tile,
    lower_start_others,
    lower_uniform,
    lower_wgmma_dot,
    lower_wgmma_dots,
)
from tileiras.codegen.lowering.wgmma_smem_transpose import lower_smem_transpose
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.llvm import memory as llvm_memory
from tileiras.dialects.llvm.types import SHARED
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import tma_stores as ts
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.errors import InternalError, required

LowerBlock = Callable[[KernelLowering, Block], None]

CONSUMER_BARRIER = 1
MADE_BARRIER = 10
"""Named barrier of the consumers; 0 is that of the whole CTA."""
PIPELINE_ALIGN = 1024
"""Bytes: where a 128-byte swizzle pattern starts (PTX ISA, "Matrix Descriptor Format")."""
ALIGNMENT_WASTE = 128
"""Bytes between variables."""
WARP_THREADS = 32
_SCALARS = (
    ElementwiseOp,
    aa.BlockTileOp,
    aa.ConstantOp,
    aa.CreateMemTokenOp,
    aa.GetClusterPlaceOp,
    aa.GetClusterRankOp,
    aa.GetGridSizeOp,
    aa.GetNumProgramsOp,
    aa.GetProgramIdOp,
    aa.MakeMemRefOp,
    aa.SplatOp,
    pl.UniformOp,
)
"""Operations that need no mbarrier, and no other thread."""


def lower_create_pipeline(ctx: KernelLowering, op: pl.CreatePipelineOp) -> None:
    """Reserves the pipeline and its barriers."""
    stages, size = op.stages.data, op.stage_bytes.data
    barriers = llvm_memory.GlobalOp.make(ctx.symbols.unique("barriers"), 16 * stages, SHARED, 8)
    ctx.add_globals(barriers)
    ctx.scratch.reserve(16 * stages)
    if op.storage is not None:
        storage = ctx.roles.pipeline(op.storage).storage
    else:
        name, total = ctx.symbols.unique("ring"), stages * size
        memory = llvm_memory.GlobalOp.make(name, total, SHARED, PIPELINE_ALIGN)
        ctx.add_globals(memory)
        ctx.scratch.reserve(total)
        storage = ctx.prologue.address_of(memory)
    ctx.roles.pipelines[op.result] = Pipeline(
        storage=storage,
        barriers=ctx.prologue.address_of(barriers),
        stages=stages,
        stage_bytes=size,
        consumers=op.consumers.data,
        gather_threads=op.gather_threads.data,
        is_shared=op.shared is not None,
        is_paired=op.pair is not None,
    )


def lower_agent_switch(ctx: KernelLowering, op: pl.AgentSwitchOp, lower_block: LowerBlock) -> None:
    """Sends every warp to its warp role's program; the first one makes the barriers before."""
    b, consumer_warps = ctx.b, op.consumer_warps.data
    _prepare(ctx, op)
    warp = b.lshr(b.thread_id(), b.i32(5))
    others, consumers, after = b.new_block(), b.new_block(), b.new_block()
    b.cond_br(b.icmp("uge", warp, b.i32(consumer_warps)), others, consumers)
    ctx.start_block(others)
    _lower_producer_warps(ctx, op, warp, lower_block)
    ctx.start_block(consumers)
    _lower_consumers(ctx, op, lower_block)
    ctx.start_block(after)


def _prepare(ctx: KernelLowering, op: pl.AgentSwitchOp) -> None:
    """What all warp roles have to know of the kernel, and the shared memory that is not for
    scratch.
    """
    target = ctx.target
    share = target.shared_memory_of_each(op.ctas.data)
    ctx.scratch.reserve(target.static_shared_limit - share + ALIGNMENT_WASTE)
    for start in op.consumer.walk():
        if isinstance(start, pl.PrologueFillOp):
            pipeline = ctx.roles.pipeline(start.pipeline)
            pipeline.has_prologue_fill = True
            pipeline.fills_two_tiles |= any(start.skipped.data)
            ctx.roles.hurries |= start.hurried is not None
    plan_tensor_maps(ctx, op)
    if ctx.takes_over:
        from tileiras.codegen.lowering.taken_blocks import reserve_slots

        reserve_slots(ctx, op)
    warps = op.consumer_warps.data + op.producer_warps.data
    ctx.roles.threads = WARP_THREADS * warps
    # A part of the SM may get a warp more than others.
    of_part = -(-warps * op.ctas.data // target.partitions) * WARP_THREADS
    registers = target.registers_per_sm // (target.partitions * of_part)
    ctx.roles.launched_registers = target.whole_units(registers)
    ctx.roles.trades_registers = op.producer_registers.data > 0
    ctx.roles.first_fills = _first_fills(op.consumer.block)
    if ctx.roles.first_fills and ctx.roles.hurries:
        ctx.roles.idle_makers = max(0, _other_warps(ctx, op) - _busy_warps(ctx, op))


def _lower_producer_warps(
    ctx: KernelLowering, op: pl.AgentSwitchOp, warp: SSAValue, lower_block: LowerBlock
) -> None:
    """The warps after the consumers: those of the producer, one that stores, and idle ones."""
    b = ctx.b
    if op.producer_registers.data:
        b.setmaxnreg(op.producer_registers.data, "dec")
    busy, others = _busy_warps(ctx, op), _other_warps(ctx, op)
    if ctx.roles.transposer is not None:
        _lower_transposing_warps(ctx, op, b.icmp("uge", warp, b.i32(others)), lower_block)
    if busy < others:
        _dismiss_idle_warps(ctx, op, warp, busy)
    if ctx.roles.tensor_memory is not None:
        busy -= 1
        _lower_product_warp(ctx, op, b.icmp("eq", warp, b.i32(busy)), lower_block)
    if op.store is None:
        _lower_producer(ctx, op, lower_block)
        return
    storing, working = b.new_block(), b.new_block()
    b.cond_br(b.icmp("eq", warp, b.i32(busy - 1)), storing, working)
    ctx.start_block(working)
    _lower_producer(ctx, op, lower_block)
    ctx.start_block(storing)
    ctx.roles.is_store_warp = True
    _find_block(ctx, op)
    start_store_warp(ctx, op.store.block)
    lower_block(ctx, op.store.block)
    ctx.roles.is_store_warp = False


def _busy_warps(ctx: KernelLowering, op: pl.AgentSwitchOp) -> int:
    """The number of the first warp that has nothing to do."""
    has_products = ctx.roles.tensor_memory is not None
    return op.consumer_warps.data + op.working_warps.data + (op.store is not None) + has_products


def _other_warps(ctx: KernelLowering, op: pl.AgentSwitchOp) -> int:
    """The number of the first warp behind those that may have nothing to do."""
    transposing = 0 if ctx.roles.transposer is None else ctx.roles.transposer.warps.data
    return op.consumer_warps.data + op.producer_warps.data - transposing


def _lower_transposing_warps(
    ctx: KernelLowering, op: pl.AgentSwitchOp, are_they: SSAValue, lower_block: LowerBlock
) -> None:
    """The program of the warps that transpose; the others go on."""
    program = required(ctx.roles.transposer, "nobody transposes", "roles")
    theirs, others = ctx.b.new_block(), ctx.b.new_block()
    ctx.b.cond_br(are_they, theirs, others)
    ctx.start_block(theirs)
    ctx.roles.is_transposer, ctx.roles.working_warps = True, program.warps.data
    _find_block(ctx, op)
    ctx.roles.meet(ctx)
    lower_block(ctx, program.body.block)
    ctx.roles.is_transposer = False
    ctx.start_block(others)


def _lower_product_warp(
    ctx: KernelLowering, op: pl.AgentSwitchOp, is_its_warp: SSAValue, lower_block: LowerBlock
) -> None:
    """The program of the warp that issues products into tensor memory; the others go on."""
    memory = ctx.roles.tensor_memory
    if memory is None or memory.product_warp is None:
        raise InternalError("nobody issues the products", where="roles")
    its, others = ctx.b.new_block(), ctx.b.new_block()
    ctx.b.cond_br(is_its_warp, its, others)
    ctx.start_block(its)
    ctx.roles.is_product_warp = True
    _find_block(ctx, op)
    start_product_warp(ctx)
    lower_block(ctx, memory.product_warp.body.block)
    ctx.roles.is_product_warp = False
    ctx.start_block(others)


def _lower_producer(ctx: KernelLowering, op: pl.AgentSwitchOp, lower_block: LowerBlock) -> None:
    """The program of the warps that copy."""
    ctx.roles.is_producer = True
    _find_block(ctx, op)
    ctx.roles.working_warps = op.working_warps.data
    if ctx.roles.hurries:
        ctx.b.divides_quickly = True
        try_claim(ctx)
    start_producer(ctx)
    lower_block(ctx, op.producer.block)
    ctx.roles.is_producer = False


def _lower_consumers(ctx: KernelLowering, op: pl.AgentSwitchOp, lower_block: LowerBlock) -> None:
    """The consumers' program, once there are barriers."""
    if not op.consumer_registers.data or not _multiplies_by_warps(op):
        _run_consumers(ctx, op, lower_block, op.consumer_registers.data)
        return
    ctx.b.setmaxnreg(op.consumer_registers.data, "inc")
    with _late_threads(ctx):
        _run_consumers(ctx, op, lower_block, 0)


def _multiplies_by_warps(op: pl.AgentSwitchOp) -> bool:
    """Whether consumers multiply by mma.sync. Then they get their registers first of all.

    What is computed before, offsets of the thread too, lies in registers of the launch for good:
    ptxas spills some of it, however many registers are free later.
    """
    return any(isinstance(inner, MmaProduct) for inner in op.consumer.walk())


def _run_consumers(
    ctx: KernelLowering, op: pl.AgentSwitchOp, lower_block: LowerBlock, registers: int
) -> None:
    """The same with the registers that they are to get on their way, 0 if they have them."""
    b = ctx.b
    if ctx.roles.has_prologue_fill:
        _start_at_once(ctx, op)
    else:
        _make_barriers(ctx)
        ctx.roles.meet(ctx)
    if ctx.roles.tensor_memory is not None:
        find_tensor_memory(ctx)
    if ctx.roles.hurries and _prologue_fills(op.consumer.block) == 1:
        ctx.roles.late_registers = registers
    elif registers:
        b.setmaxnreg(registers, "inc")
    b.cta_barrier = (CONSUMER_BARRIER, WARP_THREADS * op.consumer_warps.data)
    b.divides_quickly = ctx.roles.hurries
    _find_block(ctx, op)
    if ctx.roles.tensor_memory is not None and op.consumer_registers.data:
        with _late_threads(ctx):
            lower_block(ctx, op.consumer.block)
    else:
        lower_block(ctx, op.consumer.block)
    b.divides_quickly = False


@contextmanager
def _late_threads(ctx: KernelLowering) -> Iterator[None]:
    """What depends on the thread alone is computed here, not at the start of the kernel.

    What is there before registers are traded ptxas keeps in the few that threads are launched with,
    where the long runs of registers of tensor memory lie, too: it spills.
    """
    early, here = ctx.threads, ThreadBuilder(ctx.b.block)
    here.location = ctx.b.location
    ctx.threads = ThreadMap(here, ctx.num_warps)
    rest = ctx.b.new_block()
    ctx.start_block(rest)
    yield
    here.br(rest)
    ctx.threads = early


def _prologue_fills(block: Block) -> int | None:
    """How many prologue fills every run of a block has; None if that is not always the same."""
    total = 0
    for op in block.ops:
        if isinstance(op, pl.PrologueFillOp):
            total += 1
        found = {_prologue_fills(inner) for region in op.regions for inner in region.blocks}
        if isinstance(op, aa.IfOp) and len(op.else_region.blocks) and len(found) == 1:
            inside = found.pop()
            if inside is None:
                return None
            total += inside
        elif found - {0}:
            return None
    return total


def _find_block(ctx: KernelLowering, op: pl.AgentSwitchOp) -> None:
    """The tile block, by each warp role for itself: the consumers have time until the first
    tile.
    """
    if op.longest_tile_first is not None:
        ctx.roles.tile_order = op.longest_tile_first.data
        ctx.roles.blocks = longest_tile_first_blocks(ctx.b, op.longest_tile_first.data)


def lower_free_pipelines(ctx: KernelLowering, op: Operation) -> None:
    """A pipeline becomes scratch memory, once no copy of a prologue fill is on its way.

    Stages that a short loop has no use for are filled with zeros that nobody waits for.
    """
    if ctx.roles.has_prologue_fill:
        ctx.b.cp_async_commit()
        ctx.b.cp_async_wait(0)
    if not isinstance(op, pl.FreePipelinesOp) or op.pipeline is None:
        raise InternalError("nobody says which stages are free", where="roles")
    pipeline = ctx.roles.pipeline(op.pipeline)
    ctx.roles.freed = True
    ctx.scratch.move(pipeline.storage, pipeline.stages * pipeline.stage_bytes)


def _dismiss_idle_warps(
    ctx: KernelLowering, op: pl.AgentSwitchOp, warp: SSAValue, working_warps: int
) -> None:
    """Warps of the producer's warpgroup that have nothing to do meet the others once, and end.

    They make the mbarriers where consumers are in a hurry.
    """
    b = ctx.b
    working, idle = b.new_block(), b.new_block()
    b.cond_br(b.icmp("ult", warp, b.i32(working_warps)), working, idle)
    ctx.start_block(idle)
    if ctx.roles.idle_makers:
        makers = 1 << ctx.roles.idle_makers.bit_length() - 1
        is_maker = b.icmp("ult", warp, b.i32(working_warps + makers))
        is_first = b.icmp("eq", b.and_(b.thread_id(), b.i32(WARP_THREADS - 1)), b.i32(0))
        with ctx.where(b.and_(is_maker, is_first)):
            _init_barriers(ctx, BarrierMakers(b, makers, working_warps))
        b.barrier_arrive(MADE_BARRIER, _threads_of_made(ctx, op))
    ctx.roles.meet(ctx)
    b.ret()
    ctx.start_block(working)


def _threads_of_made(ctx: KernelLowering, op: pl.AgentSwitchOp) -> int:
    """The threads of consumers, and of the warps that make mbarriers for them."""
    return WARP_THREADS * (op.consumer_warps.data + ctx.roles.idle_makers)


def _start_at_once(ctx: KernelLowering, op: pl.AgentSwitchOp) -> None:
    """The consumers wait for the mbarriers alone; the producer claims the tensor maps itself.

    They need not wait before they have asked for the first tile. Idle warps make the mbarriers, or
    consumers do before: their copies would keep the producer waiting.
    """
    if ctx.roles.idle_makers:
        ctx.b.barrier_arrive(START_BARRIER, ctx.roles.threads)
        ctx.roles.begin = partial(ctx.b.barrier, MADE_BARRIER, _threads_of_made(ctx, op))
        return
    _make_consumers_barriers(ctx, op)
    if ctx.roles.first_fills:
        ctx.roles.begin = ctx.b.barrier
    else:
        ctx.b.barrier(CONSUMER_BARRIER, WARP_THREADS * op.consumer_warps.data)


def _make_consumers_barriers(ctx: KernelLowering, op: pl.AgentSwitchOp) -> None:
    """One thread makes the mbarriers, or one of each consumer warp; the others may meet."""
    b = ctx.b
    warps = op.consumer_warps.data if ctx.roles.hurries else 1
    number = b.thread_id()
    if warps > 1:
        number = b.and_(number, b.i32(WARP_THREADS - 1))
    with ctx.where(b.icmp("eq", number, b.i32(0))):
        _init_barriers(ctx, BarrierMakers(b, warps))
    b.barrier_arrive(START_BARRIER, ctx.roles.threads)


def _first_fills(block: Block) -> frozenset[Operation]:
    """The prologue fills with which a block begins, one in each side of a branch.

    There are none if anything but scalars comes before one, or if a way through the block has none.
    """
    for op in block.ops:
        if isinstance(op, pl.PrologueFillOp):
            return frozenset({op})
        if isinstance(op, aa.IfOp):
            sides = [region.first_block for region in op.regions]
            found = [frozenset() if side is None else _first_fills(side) for side in sides]
            return frozenset().union(*found) if all(found) else frozenset()
        if not isinstance(op, _SCALARS):
            break
    return frozenset()


def _make_barriers(ctx: KernelLowering) -> None:
    """The first warp claims a slot for the tensor maps, while the second makes all mbarriers."""
    b = ctx.b
    warp, others, thread, done = (b.new_block() for _ in range(4))
    b.cond_br(b.icmp("ult", b.thread_id(), b.i32(WARP_THREADS)), warp, others)
    ctx.start_block(warp)
    claim_slot(ctx)
    b.br(others)
    ctx.start_block(others)
    b.cond_br(b.icmp("eq", b.thread_id(), b.i32(WARP_THREADS)), thread, done)
    ctx.start_block(thread)
    _init_barriers(ctx, BarrierMakers(b, 1))
    b.br(done)
    ctx.start_block(done)
    if ctx.roles.tensor_memory is not None:
        allocate_tensor_memory(ctx)


def _init_barriers(ctx: KernelLowering, makers: BarrierMakers) -> None:
    """One thread makes the mbarriers of all pipelines, or one of each of several warps some."""
    b = ctx.b
    for pipeline in ctx.roles.pipelines.values():
        # One CTA of a pair hands back stages of both.
        ctas = ctx.cluster_size // (1 + pipeline.is_paired) if pipeline.is_shared else 1
        for stage in makers.share(pipeline.stages):
            with ctx.where(stage.exists):
                _init_full_barrier(ctx, pipeline, stage.number)
                b.mbarrier_init(pipeline.empty_barrier(b, stage.number), pipeline.consumers * ctas)
    init_store_barriers(ctx, makers)
    if ctx.roles.tensor_memory is not None:
        init_product_barriers(ctx)
    if ctx.roles.taken is not None:
        from tileiras.codegen.lowering.taken_blocks import init_barriers

        init_barriers(ctx, ctx.roles.taken, makers)
    b.fence_mbarrier_init()


def _init_full_barrier(ctx: KernelLowering, pipeline: Pipeline, stage: SSAValue) -> None:
    """The barrier of a stage's copies; for the first CTA of a pair the second one arrives, too."""
    arrivals = 1 + pipeline.gather_threads
    if not pipeline.is_paired:
        ctx.b.mbarrier_init(pipeline.full_barrier(ctx.b, stage), arrivals)
        return
    is_first = is_first_of_pair(ctx)
    for condition, count in (
        (is_first, arrivals + 1),
        (ctx.b.xor(is_first, ctx.b.i1(True)), arrivals),
    ):
        with ctx.where(condition):
            ctx.b.mbarrier_init(pipeline.full_barrier(ctx.b, stage), count)


RULES: LoweringRules = {
    pl.CreatePipelineOp: lower_create_pipeline,
    pl.MakeTensorMapOp: lower_make_tiled_tma_desc,
    pl.RenewTensorMapsOp: lower_renew_tiled_tma_descs,
    pl.ProducerAcquireOp: lower_producer_acquire,
    pl.ProducerCommitOp: lower_producer_commit,
    pl.ProducerTailOp: lower_producer_tail,
    pl.TmaLoadOp: lower_tma_load,
    pl.PrologueFillOp: lower_prologue_fill,
    pl.ProducerSkipOp: lower_producer_skip,
    ts.TmaStoreOp: lower_tma_store,
    ts.CreateStorePipelineOp: lower_create_store_pipeline,
    ts.StageForTmaStoreOp: lower_stage_for_tma_store,
    ts.StoreStageOp: lower_store_stage,
    ts.StoreTailOp: lower_store_tail,
    pl.GatherLoadOp: lower_gather_load,
    pl.CopyLoadOp: lower_copy_load,
    pl.ProxyFenceOp: lower_proxy_fence,
    pl.ConsumerWaitOp: lower_consumer_wait,
    pl.ConsumerReleaseOp: lower_consumer_release,
    pl.SelectTileOp: lower_select_tile,
    pl.HeldTileOp: lower_held_tile,
    pl.ReadTileOp: lower_read_tile,
    pl.UniformOp: lower_uniform,
    wg.SmemTransposeOp: lower_smem_transpose,
    wg.TransposeWarpsOp: lower_transpose_warps,
    wg.TransposeTileOp: lower_transpose_tile,
    wg.WgmmaDotOp: lower_wgmma_dot,
    wg.WgmmaDotsOp: lower_wgmma_dots,
    wg.DotWaitOp: lower_dot_wait,
    wg.AwaitFirstOp: lower_await_first,
    wg.StartOthersOp: lower_start_others,
    wg.HasRowsOp: lower_has_rows,
    wg.LeavePipelinesOp: lower_leave_pipelines,
    pl.FreePipelinesOp: lower_free_pipelines,
}
"""Operations of warp roles and pipelines."""

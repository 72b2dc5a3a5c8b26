"""Agents: the producer's warps and the consumer warpgroups of a specialised kernel.

Threads 0 .. 32 * consumer_warps - 1 are the consumers, so that their code is that of an ordinary
kernel; the warpgroup after them is the producer's: one warp issues TMA, all four gather. All meet
once, after the barriers of the pipelines are made; from then on they meet at mbarriers only, and
consumers at a named barrier.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Block, Operation, SSAValue

from tileiras.codegen.llvmir.tma_builder import TensorMapTable
from tileiras.codegen.lowering import gathers, tma, wgmma_dot
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.pipelines import AgentState, Ring
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.llvm import memory as llvm_memory
from tileiras.dialects.llvm.types import SHARED
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nvvm.tma import TENSOR_MAP_BYTES
from tileiras.errors import InternalError

LowerBlock = Callable[[KernelLowering, Block], None]

WARPGROUP_THREADS = 128
CONSUMER_BARRIER = 1
"""Named barrier of the consumers; 0 is that of the whole CTA."""
RING_ALIGN = 1024
"""Bytes: where a 128-byte swizzle pattern starts (PTX ISA, "Matrix Descriptor Format")."""
TENSOR_MAP_SLOTS = 4
"""CTAs of one SM that can own tensor maps at once: a specialised kernel leaves room for few."""


def agent_threads(func: aa.FuncOp) -> int:
    """Threads beside the consumers: a warpgroup if the kernel is specialised."""
    switches = (op for op in func.body.block.ops if isinstance(op, pl.AgentSwitchOp))
    return WARPGROUP_THREADS if next(switches, None) is not None else 0


def lower_create_pipeline(ctx: KernelLowering, op: Operation) -> None:
    """Reserves the ring and its barriers."""
    if not isinstance(op, pl.CreatePipelineOp):
        raise InternalError("the rule of create_pipeline got another operation")
    stages, size = op.stages.data, op.slot_bytes.data
    slots = llvm_memory.GlobalOp.make(ctx.symbols.unique("ring"), stages * size, SHARED, RING_ALIGN)
    barriers = llvm_memory.GlobalOp.make(ctx.symbols.unique("barriers"), 16 * stages, SHARED, 8)
    ctx.add_globals(slots, barriers)
    ctx.scratch.reserve(stages * size + RING_ALIGN)
    ctx.agents.rings[op.result] = Ring(
        slots=ctx.prologue.address_of(slots),
        barriers=ctx.prologue.address_of(barriers),
        stages=stages,
        slot_bytes=size,
        consumers=op.consumers.data,
        gather_threads=op.gather_threads.data,
    )


def lower_agent_switch(ctx: KernelLowering, op: Operation, lower_block: LowerBlock) -> None:
    """Makes the barriers, then sends every warp to its agent's program."""
    if not isinstance(op, pl.AgentSwitchOp):
        raise InternalError("the rule of agent_switch got another operation")
    b = ctx.b
    _make_barriers(ctx)
    consumer_warps = op.consumer_warps.data
    warp = b.lshr(b.thread_id(), b.i32(5))
    producer, consumer, after = b.new_block(), b.new_block(), b.new_block()
    b.cond_br(b.icmp("uge", warp, b.i32(consumer_warps)), producer, consumer)

    ctx.start_block(producer)
    b.setmaxnreg(op.producer_registers.data, "dec")
    _dismiss_idle_warps(ctx, warp, consumer_warps + op.working_warps.data)
    ctx.agents.is_producer = True
    ctx.agents.working_warps = op.working_warps.data
    _claim_tensor_maps(ctx, op)
    lower_block(ctx, op.producer.block)
    ctx.agents.is_producer = False

    ctx.start_block(consumer)
    b.setmaxnreg(op.consumer_registers.data, "inc")
    b.cta_barrier = (CONSUMER_BARRIER, 32 * consumer_warps)
    lower_block(ctx, op.consumer.block)
    ctx.start_block(after)


def _dismiss_idle_warps(ctx: KernelLowering, warp: SSAValue, working_warps: int) -> None:
    """Warps of the producer's warpgroup that have nothing to do end here."""
    b = ctx.b
    working, idle = b.new_block(), b.new_block()
    b.cond_br(b.icmp("ult", warp, b.i32(working_warps)), working, idle)
    ctx.start_block(idle)
    b.ret()
    ctx.start_block(working)


def _make_barriers(ctx: KernelLowering) -> None:
    """One thread initialises all mbarriers; then the whole CTA meets."""
    b = ctx.b
    first, done = b.new_block(), b.new_block()
    b.cond_br(b.icmp("eq", b.thread_id(), b.i32(0)), first, done)
    ctx.start_block(first)
    for ring in ctx.agents.rings.values():
        for stage in range(ring.stages):
            b.mbarrier_init(ring.full_barrier(b, b.i32(stage)), 1 + ring.gather_threads)
            b.mbarrier_init(ring.empty_barrier(b, b.i32(stage)), ring.consumers)
    b.fence_mbarrier_init()
    b.br(done)
    ctx.start_block(done)
    b.barrier()


def _claim_tensor_maps(ctx: KernelLowering, op: pl.AgentSwitchOp) -> None:
    """The producer's first warp takes a slot for all tensor maps of its program."""
    makers: list[Operation] = [
        inner for inner in op.producer.walk() if isinstance(inner, pl.MakeTensorMapOp)
    ]
    if not makers:
        return
    table = TensorMapTable.make(ctx.symbols.unique("tensor_maps"), len(makers), TENSOR_MAP_SLOTS)
    scratch = llvm_memory.GlobalOp.make(
        ctx.symbols.unique("tensor_map_scratch"), TENSOR_MAP_BYTES, SHARED, TENSOR_MAP_BYTES
    )
    ctx.add_globals(*table.globals, scratch)
    ctx.scratch.reserve(RING_ALIGN)
    after = ctx.agents.enter_first_producer_warp(ctx)
    maps = ctx.b.claim_tensor_maps(table)
    if after is not None:
        # Other warps hold no slot and never use what they read here.
        place = ctx.prologue.alloca(8, 8)
        ctx.b.store(maps, place, 8)
        ctx.agents.leave_first_producer_warp(ctx, after)
        maps = ctx.b.load(place, maps.type, 8)
    ctx.agents.maps = AgentState.Maps(table, maps, ctx.prologue.address_of(scratch), makers)


AGENT_RULES: dict[type[Operation], Callable[[KernelLowering, Operation], None]] = {
    pl.CreatePipelineOp: lower_create_pipeline,
    pl.MakeTensorMapOp: tma.lower_make_tensor_map,
    pl.ProducerAcquireOp: tma.lower_producer_acquire,
    pl.ProducerAdvanceOp: tma.lower_producer_advance,
    pl.ProducerDrainOp: tma.lower_producer_drain,
    pl.TmaLoadOp: tma.lower_tma_load,
    pl.GatherLoadOp: gathers.lower_gather_load,
    pl.ProxyFenceOp: gathers.lower_proxy_fence,
    pl.ConsumerWaitOp: wgmma_dot.lower_consumer_wait,
    pl.ConsumerReleaseOp: wgmma_dot.lower_consumer_release,
    pl.WgmmaDotOp: wgmma_dot.lower_wgmma_dot,
    pl.DotWaitOp: wgmma_dot.lower_dot_wait,
}
"""Operations of agents and pipelines."""

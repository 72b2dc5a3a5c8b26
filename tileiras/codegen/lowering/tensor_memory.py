"""Tensor memory of a CTA: who allocates it, where it is, and which part of a tile is a warp's.

A warp of the consumers allocates the columns before all warp roles meet, and gives them back when
all consumers have loaded what they wait for: by then every product is done. CTAs that share an SM
share its columns (decision 0056).
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import SSAValue

from tileiras.codegen.atoms.tcgen05 import HALF_LANES, load_registers
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.pipelines import BARRIER_BYTES, SumPipeline, TensorMemory
from tileiras.dialects.layout.tmem import BLOCK_ROWS, HALF_ROWS
from tileiras.dialects.llvm.memory import GlobalOp
from tileiras.dialects.llvm.types import SHARED, integer_type
from tileiras.errors import InternalError

MOST_REGISTERS = 128
"""Of a thread, by one load or store (PTX ISA, "tcgen05.ld", table of `.num`)."""
_LANE_SHIFT = 16
"""Addresses have the lane in the upper 16 bits."""


def tensor_memory(ctx: KernelLowering) -> TensorMemory:
    """That of the kernel, which has some."""
    if ctx.roles.tensor_memory is None:
        raise InternalError("a kernel has no tensor memory", where="tcgen05")
    return ctx.roles.tensor_memory


def memory_address(ctx: KernelLowering) -> SSAValue:
    """The address of the CTA's columns."""
    return tensor_memory(ctx).address()


def allocate(ctx: KernelLowering) -> None:
    """The consumers' last warp allocates, before all warp roles meet."""
    with ctx.where(_is_last_warp(ctx)):
        b, memory = ctx.b, tensor_memory(ctx)
        b.tcgen05_alloc(memory.cell, memory.columns, memory.is_paired)
        b.tcgen05_fence("before_thread_sync")


def find_address(ctx: KernelLowering) -> None:
    """Each warp role that uses tensor memory reads its address, once all have met."""
    b, memory = ctx.b, tensor_memory(ctx)
    b.tcgen05_fence("after_thread_sync")
    memory.base = b.load(memory.cell, integer_type(32), 4)


def deallocate(ctx: KernelLowering) -> None:
    """The consumers meet when they have loaded all sums; the last warp gives the columns back.

    Those of a pair of CTAs meet, for each hands back to the other what it has loaded; warps of
    other roles have ended then, or do so.
    """
    b, memory = ctx.b, tensor_memory(ctx)
    b.tcgen05_fence("before_thread_sync")
    if memory.is_paired:
        b.cluster_arrive()
        b.cluster_wait()
    else:
        b.barrier()
    with ctx.where(_is_last_warp(ctx)):
        ctx.b.tcgen05_fence("after_thread_sync")
        ctx.b.tcgen05_dealloc(memory.address(), memory.columns, memory.is_paired)


def keep_apart(ctx: KernelLowering, variables: Iterable[GlobalOp]) -> None:
    """Takes shared memory until no more CTAs fit an SM than it has columns for.

    So none waits for columns of its own kernel, which those might not give back that wait for it:
    CTAs of its cluster, or others with a lock. Where registers are traded, their number at the
    launch is known, and that may be enough.
    """
    memory, target, roles = ctx.roles.tensor_memory, ctx.target, ctx.roles
    if memory is None:
        return
    ctas = target.tmem_columns // memory.columns
    registers = roles.threads * roles.launched_registers
    if roles.trades_registers and (ctas + 1) * registers > target.registers_per_sm:
        return
    taken = sum(item.size.data for item in variables if item.space.data == SHARED)
    missing = target.shared_memory_of_each(ctas + 1) + 1 - taken
    if missing > 0:
        units = -(-missing // BARRIER_BYTES) * BARRIER_BYTES
        memory.variable.properties["size"] = IntAttr(memory.variable.size.data + units)


def _is_last_warp(ctx: KernelLowering) -> SSAValue:
    """i1: whether this is the last warp of the consumers."""
    b = ctx.b
    return b.icmp("eq", b.lshr(b.thread_id(), b.i32(5)), b.i32(ctx.num_warps - 1))


def own_part(
    ctx: KernelLowering,
    shape: tuple[int, int],
    name: str,
    pipeline: SumPipeline,
    most: int = MOST_REGISTERS,
) -> tuple[SSAValue, tuple[int, list[int]]]:
    """Where this warp's part of a tile of rows and columns is: the address, and for instructions of
    a shape how often each repeats it, and where they begin (`layout/tmem`). Each moves `most`
    registers at most.
    """
    b, (rows, columns) = ctx.b, shape
    warpgroups = ctx.num_warps // 4
    blocks = max(1, rows // BLOCK_ROWS)
    splits_rows = warpgroups > 1 and blocks >= warpgroups
    own = columns if splits_rows else columns // warpgroups
    stride = columns if pipeline.row_stride is None else pipeline.row_stride
    # Lanes of this warp, and columns of this warpgroup.
    warp = b.lshr(b.thread_id(), b.i32(5))
    lane = b.shl(b.and_(warp, b.i32(3)), b.i32(5 + _LANE_SHIFT))
    address = b.add(b.add(memory_address(ctx), pipeline.offset(b)), lane)
    if warpgroups > 1:
        group = b.lshr(warp, b.i32(2))
        address = b.add(address, b.mul(group, b.i32(stride if splits_rows else own)))
    halves = 2 if name == "16x256b" and rows != HALF_ROWS else 1
    # ptxas wants the registers of an instruction from the launch on (C7602).
    if ctx.roles.launched_registers <= MOST_REGISTERS:
        most = min(most, MOST_REGISTERS // 2)
    each, repeats = _repeats(name, own, most)
    step = warpgroups if splits_rows else 1
    offsets = [
        (half * HALF_LANES << _LANE_SHIFT) + block * stride + start
        for block in range(0, blocks, step)
        for half in range(halves)
        for start in range(0, own, each)
    ]
    return b.shfl("idx", address, 0), (repeats, offsets)


def _repeats(shape: str, columns: int, most: int) -> tuple[int, int]:
    """Columns of one load of so many registers at most, and how often it repeats the shape."""
    unit = load_registers("16x256b", 1) * 2 if shape == "16x256b" else 1
    repeats = min(most // load_registers(shape, 1), columns // unit)
    return repeats * unit, repeats

"""Constants, ranges, splats, and reshapes, which the layouts have made free."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, IntegerType, TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.lowering.addressing import (
    combine,
    coordinates,
    is_disjoint,
    register_coordinates,
    thread_coordinate,
)
from tileiras.codegen.lowering.constants import element_bits, is_splat
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.staging import memory_element, register_form
from tileiras.codegen.lowering.types import register_type
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.llvm.types import bit_width, vector_type
from tileiras.errors import InternalError

_AXES = ("x", "y", "z")


def lower_constant(ctx: KernelLowering, op: aa.ConstantOp) -> None:
    """A splat is an immediate; other data lies in constant memory, read at the coordinates."""
    type = ctx.lowered_type(op.result.type)
    bits = element_bits(op.value)
    if is_splat(bits) or not isinstance(op.result.type, TensorType):
        ctx.values[op.result] = ctx.b.const_bits(type, bits[0])
        return
    element = register_type(op.result.type.element_type)
    stored = memory_element(element)
    size = bit_width(stored) // 8
    data = b"".join(value.to_bytes(size, "little") for value in bits)
    memory = ctx.constant_global(data, size)
    layout = ctx.layout(op.result.type).reshape((len(bits),))
    offsets = ctx.b.mul(coordinates(ctx, layout, 0), ctx.b.splat(ctx.b.i32(size), _lanes(layout)))
    pointers = ctx.b.gep(ctx.b.address_of(memory), offsets)
    loaded = ctx.b.masked_load(pointers, None, vector_type(stored, _lanes(layout)), size)
    ctx.values[op.result] = register_form(ctx, loaded, element)


def _lanes(layout: LinearLayout) -> int:
    """Registers of a thread."""
    return layout.in_size("register")


def lower_make_range(ctx: KernelLowering, op: Operation) -> None:
    """The coordinate of every register."""
    result = op.results[0]
    if not isinstance(result.type, TensorType):
        raise InternalError("a range is no tensor")
    layout = ctx.layout(result.type)
    base = thread_coordinate(ctx, layout, 0)
    deltas = register_coordinates(layout, 0)
    values = combine(ctx, base, deltas, is_disjoint(layout, 0))
    element = result.type.element_type
    if not isinstance(element, IntegerType):
        raise InternalError("a range of something that is no integer")
    ctx.values[result] = ctx.b.int_cast(values, vector_type(element, len(deltas)), signed=False)


def lower_splat(ctx: KernelLowering, op: Operation) -> None:
    """The scalar in every register."""
    result = op.results[0]
    count = ctx.layout(result.type).in_size("register")
    ctx.values[result] = ctx.b.splat(ctx.value(op.operands[0]), count)


def lower_in_place(ctx: KernelLowering, op: Operation) -> None:
    """Reshape, permute, broadcast: the operand was made where the result lies."""
    source, result = op.operands[0], op.results[0]
    if source in ctx.smem_tiles:
        ctx.smem_tiles[result] = ctx.smem_tiles[source].seen_through(op)
        return
    before = ctx.layout(source.type).in_size("register")
    after = ctx.layout(result.type).in_size("register")
    if before != after:
        raise InternalError(f"'{op.name}' changes the number of registers", where="lowering")
    ctx.values[result] = ctx.value(source)


def lower_unsplat(ctx: KernelLowering, op: Operation) -> None:
    """The element that every thread holds in register 0."""
    ctx.values[op.results[0]] = ctx.b.extract(ctx.value(op.operands[0]), 0)


def _axis(op: Operation) -> str:
    axis = op.properties.get("axis")
    if not isinstance(axis, IntegerAttr):
        raise InternalError(f"'{op.name}' has no axis")
    return _AXES[axis.value.data]


def lower_program_id(ctx: KernelLowering, op: Operation) -> None:
    """Tile block id along an axis."""
    ctx.values[op.results[0]] = block_index(ctx, _AXES.index(_axis(op)))


def block_index(ctx: KernelLowering, axis: int) -> SSAValue:
    """Number of the tile block or of its cluster, whose CTAs lie along x.

    ptxas computes `clusterid` from `ctaid`, by a division, whatever size of clusters is required.
    """
    if ctx.roles.blocks is not None:
        blocks = ctx.roles.blocks
        is_one = ctx.has_dynamic_tile_scheduler or ctx.has_static_tile_scheduler
        is_one = is_one and axis == 0
        return among_all(ctx, ctx.b, *blocks) if is_one else blocks[axis]
    if ctx.has_dynamic_tile_scheduler and axis == 0:
        x, y, z = (ctx.prologue.sreg(f"ctaid.{name}") for name in _AXES)
        return among_all(ctx, ctx.prologue, x, y, z)
    number = ctx.prologue.sreg(f"ctaid.{_AXES[axis]}")
    if ctx.cluster_size > 1 and axis == 0:
        number = ctx.prologue.lshr(number, ctx.prologue.i32(ctx.cluster_size.bit_length() - 1))
    return _among_all(ctx, number) if ctx.has_static_tile_scheduler and axis == 0 else number


def among_all(
    ctx: KernelLowering, b: ThreadBuilder, x: SSAValue, y: SSAValue, z: SSAValue
) -> SSAValue:
    """The number, among all clusters launched, of the one whose first CTA has these numbers."""
    if ctx.cluster_size > 1:
        x = b.lshr(x, b.i32(ctx.cluster_size.bit_length() - 1))
    rows = b.add(y, b.mul(grid_size(ctx, 1), z))
    return b.add(x, b.mul(grid_size(ctx, 0), rows))


def own_number(ctx: KernelLowering) -> SSAValue:
    """The number of this CTA among all that are launched."""
    return among_all(ctx, ctx.prologue, *(ctx.prologue.sreg(f"ctaid.{name}") for name in _AXES))


def _among_all(ctx: KernelLowering, number: SSAValue) -> SSAValue:
    """Number along the first axis, as one among all launched."""
    b = ctx.prologue
    rows = b.add(b.sreg("ctaid.y"), b.mul(grid_size(ctx, 1), b.sreg("ctaid.z")))
    return b.add(number, b.mul(grid_size(ctx, 0), rows))


def leave_idle_clusters(ctx: KernelLowering, axis: int) -> None:
    """Ends the clusters beyond those that all tile blocks along the axis need, a CTA each."""
    b = ctx.b
    blocks = 1 if ctx.divides_tiles else ctx.cluster_size
    first = b.mul(block_index(ctx, axis), b.i32(blocks))
    idle, busy = b.new_block(), b.new_block()
    b.cond_br(b.icmp("uge", first, tile_blocks(ctx, axis)), idle, busy)
    ctx.start_block(idle)
    b.ret()
    ctx.start_block(busy)


def lower_cluster_rank(ctx: KernelLowering, op: aa.GetClusterRankOp) -> None:
    """The CTA's number in its cluster, or along one of its dims."""
    b, rank = ctx.b, cluster_rank(ctx)
    if op.stride is not None and op.count is not None:
        by = op.stride.data.bit_length() - 1
        rank = b.and_(b.lshr(rank, b.i32(by)), b.i32(op.count.data - 1))
    ctx.values[op.results[0]] = rank


def lower_cluster_place(ctx: KernelLowering, op: aa.GetClusterPlaceOp) -> None:
    """The CTA's row in its cluster, and its place in the row."""
    b, rank, size = ctx.b, cluster_rank(ctx), ctx.value(op.size)
    ctx.values[op.row] = b.udiv(rank, size)
    ctx.values[op.column] = b.and_(rank, b.sub(size, b.i32(1)))


def cluster_rank(ctx: KernelLowering) -> SSAValue:
    """The CTA's number in its cluster, whose CTAs lie along x."""
    b = ctx.prologue
    return b.and_(b.sreg("ctaid.x"), b.i32(ctx.cluster_size - 1))


def first_of_pair(ctx: KernelLowering) -> SSAValue:
    """The number in the cluster of the first CTA of this one's pair."""
    b = ctx.prologue
    return b.and_(cluster_rank(ctx), b.i32(~1))


def is_first_of_pair(ctx: KernelLowering) -> SSAValue:
    """i1: whether this CTA is the first one of its pair, which issues products for both."""
    b = ctx.prologue
    return b.icmp("eq", b.and_(cluster_rank(ctx), b.i32(1)), b.i32(0))


def lower_num_programs(ctx: KernelLowering, op: Operation) -> None:
    """Number of tile blocks of the grid: of its clusters, see `block_index`."""
    ctx.values[op.results[0]] = tile_blocks(ctx, _AXES.index(_axis(op)))


def lower_grid_size(ctx: KernelLowering, op: Operation) -> None:
    """Number of tile blocks that are launched."""
    ctx.values[op.results[0]] = grid_size(ctx, _AXES.index(_axis(op)))


def tile_blocks(ctx: KernelLowering, axis: int) -> SSAValue:
    """Number of tile blocks along an axis; where they divide the work, one for each SM."""
    if not ctx.has_static_tile_scheduler and not ctx.has_dynamic_tile_scheduler:
        return grid_size(ctx, axis)
    b = ctx.prologue
    total = b.mul(b.mul(grid_size(ctx, 0), grid_size(ctx, 1)), grid_size(ctx, 2))
    if ctx.has_dynamic_tile_scheduler:
        return total
    processors = b.sreg("nsmid")
    if ctx.divides_tiles and ctx.cluster_size > 1:
        processors = b.lshr(processors, b.i32(ctx.cluster_size.bit_length() - 1))
    return b.select(b.icmp("ult", total, processors), total, processors)


def grid_size(ctx: KernelLowering, axis: int) -> SSAValue:
    """Number of tile blocks along an axis that are launched: a cluster for each."""
    b = ctx.prologue
    number = b.sreg(f"nctaid.{_AXES[axis]}")
    if ctx.cluster_size == 1 or axis:
        return number
    return b.lshr(number, b.i32(ctx.cluster_size.bit_length() - 1))


def lower_nothing(ctx: KernelLowering, op: Operation) -> None:
    """Tokens and views have no value at run time."""


def lower_barrier(ctx: KernelLowering, op: Operation) -> None:
    """Threads of the tile block meet."""
    ctx.barrier()

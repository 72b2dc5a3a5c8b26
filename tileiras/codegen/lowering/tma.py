"""The producer's operations: tensor maps, waiting for empty slots, copies into them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.codegen.atoms.element_names import tensor_map_element
from tileiras.codegen.atoms.shared_operands import SWIZZLE_BYTES
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.types import storage_bytes
from tileiras.dialects.cuda_tile.types import DYNAMIC
from tileiras.dialects.nv_tileaa.types import TiledViewType
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.errors import InternalError


def tma_dims(type: TiledViewType, axis: int) -> list[int]:
    """Tile dims in the order of a tensor map: `axis` first, then from the last to the first."""
    rest = [dim for dim in reversed(range(len(type.tile_shape))) if dim != axis]
    return [axis, *rest]


def element_name(element: Attribute) -> str:
    """What a tensor map calls an element type."""
    name = tensor_map_element(element)
    if name is None:
        raise InternalError(f"no tensor map element for {element}", where="tma")
    return name


def contiguous_dim(type: TiledViewType) -> int:
    """The tile dim with unit stride that is at least one swizzle span long."""
    size = storage_bytes(type.memref.element_type)
    for axis, extent in enumerate(type.tile_shape):
        if type.memref.strides[type.dim_map[axis]] == 1 and extent * size >= SWIZZLE_BYTES:
            return axis
    raise InternalError("a view for TMA has no contiguous dim", where="tma")


def view_operand(
    ctx: KernelLowering, statics: Sequence[int], dynamic: Sequence[SSAValue], dim: int
) -> SSAValue:
    """A size or stride in elements."""
    if statics[dim] != DYNAMIC:
        return ctx.b.i64(statics[dim])
    return ctx.value(dynamic[sum(value == DYNAMIC for value in statics[:dim])])


def lower_producer_acquire(ctx: KernelLowering, op: Operation) -> None:
    """Waits until the slot has been handed back, then announces what TMA will bring."""
    if not isinstance(op, pl.ProducerAcquireOp):
        raise InternalError("the rule of producer_acquire got another operation")
    ring = ctx.agents.ring(op.pipeline)
    b = ctx.b
    stage, parity = ring.position(ctx)
    current = stage.get(b)
    b.mbarrier_wait(ring.empty_barrier(b, current), b.xor(parity.get(b), b.i32(1)))
    elected = ctx.agents.elected(ctx)
    full = ring.full_barrier(b, current)
    if op.bytes.data:
        b.mbarrier_expect_tx(full, op.bytes.data, elected)
    else:
        b.mbarrier_arrive(full, predicate=elected)


def lower_producer_advance(ctx: KernelLowering, op: Operation) -> None:
    """On to the next slot; threads that copy arrive at this one when their copies have landed."""
    ring = ctx.agents.ring(op.operands[0])
    if ring.gather_threads:
        stage, _ = ring.position(ctx)
        ctx.b.mbarrier_arrive_copies(ring.full_barrier(ctx.b, stage.get(ctx.b)))
    ring.advance(ctx)


def lower_producer_drain(ctx: KernelLowering, op: Operation) -> None:
    """Waits until every slot has been handed back."""
    ring = ctx.agents.ring(op.operands[0])
    b = ctx.b
    stage, parity = ring.position(ctx)
    for _ in range(ring.stages):
        barrier = ring.empty_barrier(b, stage.get(b))
        b.mbarrier_wait(barrier, b.xor(parity.get(b), b.i32(1)))
        ring.advance(ctx)


def lower_tma_load(ctx: KernelLowering, op: Operation) -> None:
    """One copy per panel of 128 bytes along the contiguous dim."""
    if not isinstance(op, pl.TmaLoadOp):
        raise InternalError("the rule of tma_load got another operation")
    b, type = ctx.b, view_type_of(op.view)
    ring = ctx.agents.ring(op.pipeline)
    axis = op.axis.data
    size = storage_bytes(type.memref.element_type)
    span = SWIZZLE_BYTES // size
    stage, _ = ring.position(ctx)
    current = stage.get(b)
    target = b.gep(ring.slot(b, current), op.offset.data)
    barrier = ring.full_barrier(b, current)
    starts = [
        b.mul(b.int_cast(ctx.value(index), i32), b.i32(step))
        for index, step in zip(op.indices, type.steps, strict=True)
    ]
    order = tma_dims(type, axis)
    elements = 1
    for extent in type.tile_shape:
        elements *= extent
    panel_bytes = elements // type.tile_shape[axis] * SWIZZLE_BYTES
    for panel in range(type.tile_shape[axis] // span):
        coordinates = [starts[dim] for dim in order]
        coordinates[0] = b.add(coordinates[0], b.i32(panel * span))
        b.tma_load(
            b.gep(target, panel * panel_bytes),
            ctx.value(op.tensor_map),
            coordinates,
            barrier,
            predicate=ctx.agents.elected(ctx),
        )

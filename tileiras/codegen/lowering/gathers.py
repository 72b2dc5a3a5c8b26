"""Tiles gathered into the ring by cp.async, 16 bytes at a time, in the layout that wgmma reads.

The threads' arrivals at the full barrier wait for their copies (`cp.async.mbarrier.arrive`).
cp.async writes through the generic proxy and wgmma reads through the async proxy, so consumers pass
a proxy fence between the barrier and the product (PTX ISA, "Async proxy"; it may stand anywhere on
the path: "Proxy-preserved base causality order").
"""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from tileiras.codegen.atoms.shared_operands import SWIZZLE_BYTES
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.pointers import pointee_of
from tileiras.codegen.lowering.types import storage_bits, storage_bytes
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.offsets import OffsetTerms, offset_terms
from tileiras.dialects.layout.shared import row_major, swizzle
from tileiras.dialects.llvm.types import integer_type
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.errors import InternalError


def panel_layout(
    shape: tuple[int, ...], axis: int, element_bits: int, row_bytes: int = SWIZZLE_BYTES
) -> LinearLayout:
    """ "offset" in elements -> coordinates, as TMA would write the tile with `axis` contiguous.

    Panels of one swizzle span, `row_bytes` along `axis`, lie one behind the other, each row after
    row, swizzled.
    """
    span = row_bytes * 8 // element_bits
    others = [dim for dim in reversed(range(len(shape))) if dim != axis]
    plain = row_major(shape, (axis, *others))
    along = shape[axis].bit_length() - 1
    inner = span.bit_length() - 1
    bases = plain.vectors("offset")
    panels = LinearLayout.from_index_bases(
        {"offset": (*bases[:inner], *bases[along:], *bases[inner:along])}, shape
    )
    chunk = (128 // element_bits).bit_length() - 1
    chunks = (row_bytes // 16).bit_length() - 1
    return panels.compose(swizzle(chunks, chunk, 3, plain.size))


def chunk_offsets(
    layout: LinearLayout, axis: int, element_bits: int, row_bytes: int = SWIZZLE_BYTES
) -> OffsetTerms:
    """Where the elements that a thread points to lie in the slot, in elements."""
    return offset_terms(layout, panel_layout(layout.shape, axis, element_bits, row_bytes))


def lower_gather_load(ctx: KernelLowering, op: Operation) -> None:
    """Every thread copies its chunks; a false mask copies nothing and writes zeros."""
    if not isinstance(op, pl.GatherLoadOp) or not isinstance(op.pointers.type, TensorType):
        raise InternalError("the rule of gather_load got another operation")
    b, ring = ctx.b, ctx.agents.ring(op.pipeline)
    pointee = pointee_of(ctx, op.pointers)
    layout = ctx.layout(op.pointers.type)
    terms = chunk_offsets(layout, op.axis.data, storage_bits(pointee), op.swizzle.data)
    size = storage_bytes(pointee)
    bytes_ = op.vector.data * size
    stage, _ = ring.position(ctx)
    slot = b.gep(ring.slot(b, stage.get(b)), op.offset.data)
    base = b.mul(ctx.threads.linear(terms.lane, terms.warp), b.i32(size))
    addresses = ctx.value(op.pointers)
    ignored = None if op.mask is None else b.not_(ctx.value(op.mask))
    disjoint = not _thread_bits(terms) & _register_bits(terms)
    for register, offset in enumerate(terms.register):
        delta = b.i32(offset * size)
        place = b.add(base, delta) if disjoint else b.xor(base, delta)
        target = b.gep(slot, b.zext(place, integer_type(64)))
        source = b.inttoptr(b.extract(addresses, register), ctx.pointer)
        b.cp_async(
            target,
            source,
            bytes_,
            "cg",
            ignore=None if ignored is None else b.extract(ignored, register),
        )


def _thread_bits(terms: OffsetTerms) -> int:
    """The bits of an offset that depend on the thread."""
    bits = 0
    for value in (*terms.lane, *terms.warp):
        bits |= value
    return bits


def _register_bits(terms: OffsetTerms) -> int:
    """The bits of an offset that depend on the register."""
    bits = 0
    for value in terms.register:
        bits |= value
    return bits


def lower_proxy_fence(ctx: KernelLowering, op: Operation) -> None:
    """What has been copied by threads is visible to wgmma from here on."""
    ctx.b.fence_proxy_async()

"""Loads: TMA, cp.async or ld.global, how wide, and what a faster one would need."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileaa.storage import storage_bits, storage_bytes
from tileiras.dialects.nv_tileaa.types import element_of
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas.encoding import layout_of
from tileiras.dialects.nv_tileas.tcgen05 import ScalesLoadOp
from tileiras.passes.nv_tileas.explain.telling import Teller, shape_text, tile_text
from tileiras.passes.nv_tileas.explain.vectors import Width, reason, remedy, sectors
from tileiras.planning.access import MAX_ACCESS_BYTES, pointer_limits, view_limits
from tileiras.remarks import RemarkCategory, RemarkKind

SELECTED = "Load instruction selected"
"""NVIDIA's words, for those who look for them."""


def explain_load(teller: Teller, op: Operation) -> None:
    """A remark if the operation loads, one more if it could be faster."""
    match op:
        case pl.TmaLoadOp():
            _tell_tma(teller, op)
        case tas.AsyncCopyOp():
            _tell_async_copy(teller, op)
        case pl.GatherLoadOp() | pl.CopyLoadOp() | ScalesLoadOp():
            _tell_producer_copy(teller, op)
        case tas.TiledLoadOp() if (layout := layout_of(op.result.type)) is not None:
            tell_width(teller, op, view_width(op, layout), "load", "ld.global")
        case tas.LoadOp() if (width := pointer_width(op, op.result)) is not None:
            tell_width(teller, op, width, "load", "ld.global")
        case tas.LoadOp():
            _tell(teller, op, "Global-memory load instruction", (), "a scalar: ld.global")
        case _:
            return


def _tell(
    teller: Teller,
    op: Operation,
    instruction: str,
    shape: tuple[int, ...],
    why: str,
    **facts: object,
) -> None:
    """NVIDIA's remark with our reason."""
    teller.tell(
        op,
        RemarkKind.PASSED,
        RemarkCategory.MEMORY,
        "RemarkMemoryLoadInstructionSelected",
        f"{SELECTED}: {why}",
        Instruction=instruction,
        Shape=shape_text(shape),
        **facts,
    )


def _tell_tma(teller: Teller, op: pl.TmaLoadOp) -> None:
    type = view_type_of(op.view)
    made = op.tensor_map.owner
    box = shape_text(made.box.data) if isinstance(made, pl.MakeTensorMapOp) else ""
    swizzle = made.swizzle.data if isinstance(made, pl.MakeTensorMapOp) else 0
    shared = ", once for all CTAs of the cluster" if op.multicast_if is not None else ""
    if op.apart is not None:
        shared = ", once for all CTAs of the cluster that have the same rows or columns"
    tile = tile_text(type.tile_shape, type.memref.element_type)
    why = (
        f"TMA copies {tile} into a stage that products read{shared}: base and strides are proven "
        "to be multiples of 16 bytes"
    )
    _tell(
        teller,
        op,
        "TMA Load instruction",
        type.tile_shape,
        why,
        Ptx="cp.async.bulk.tensor",
        Box=box,
        SwizzleBytes=swizzle,
    )


def _tell_async_copy(teller: Teller, op: tas.AsyncCopyOp) -> None:
    type = view_type_of(op.view)
    width = view_width(op, op.layout.data)
    stages = next(
        (made.stages.data for made in [op.buffer.owner] if isinstance(made, tas.AllocTensorOp)), 0
    )
    why = (
        f"cp.async, {width.bytes} bytes a thread at once, into one of {stages} stages ahead of the "
        f"iteration that reads it: {reason(width)}"
    )
    _tell(
        teller,
        op,
        "Asynchronous copy instruction",
        type.tile_shape,
        why,
        Ptx="cp.async",
        BytesPerThread=width.bytes,
        Stages=stages,
    )
    _tell_missed(teller, op, width, "copy")


def _tell_producer_copy(teller: Teller, op: pl.GatherLoadOp | pl.CopyLoadOp | ScalesLoadOp) -> None:
    if isinstance(op, pl.GatherLoadOp):
        shape, element = _pointers(op)
        bytes, what = op.vector.data * element, "rows are loaded through pointers or indices"
    else:
        type = view_type_of(op.view)
        shape, element = type.tile_shape, storage_bytes(type.memref.element_type)
        vectors = op.vectors.data if isinstance(op, pl.CopyLoadOp) else (op.vector.data,)
        bytes, what = vectors[-1] * element, _why_copied(op)
    why = f"threads of the producer copy {bytes} bytes at once into a stage: {what}"
    _tell(
        teller,
        op,
        "Asynchronous copy instruction",
        shape,
        why,
        Ptx="cp.async" if bytes >= 4 else "ld.global and st.shared",
        BytesPerThread=bytes,
    )


def _pointers(op: pl.GatherLoadOp) -> tuple[tuple[int, ...], int]:
    """Shape of a gathered tile in chunks, and bytes of an element."""
    type = op.pointers.type
    if not isinstance(type, TensorType) or not isinstance(type.element_type, aa.PointerType):
        return (), 1
    return type.get_shape(), storage_bytes(type.element_type.pointee)


def _why_copied(op: pl.CopyLoadOp | ScalesLoadOp) -> str:
    """Why TMA does not bring a tile that threads copy."""
    from tileiras.planning.operands.tma import unaligned

    if isinstance(op, ScalesLoadOp):
        return "scales go through shared memory to tensor memory, in an order that TMA has not"
    missing = unaligned(view_type_of(op.view), memref_of(op.view))
    return f"no TMA, for {missing}" if missing else "no TMA, for a tensor map cannot describe it"


ViewAccess = tas.TiledLoadOp | tas.TiledStoreOp | tas.AsyncCopyOp


def view_width(op: ViewAccess, layout: LinearLayout) -> Width:
    """How wide an access through a view is to or from registers that lie as `layout` says."""
    type, axis = view_type_of(op.view), op.axis.data
    limits = view_limits(type, memref_of(op.view), axis)
    return Width(op.vector.data, storage_bits(type.memref.element_type), axis, layout, limits)


def pointer_width(op: tas.LoadOp | tas.StoreOp, value: SSAValue) -> Width | None:
    """How wide an access through pointers is; None of a scalar."""
    type, axis, layout = op.pointers.type, op.axis.data, layout_of(value.type)
    if not isinstance(type, TensorType) or layout is None:
        return None
    rank = len(type.get_shape())
    contiguity = op.contiguity.data if op.contiguity is not None else ()
    known = contiguity if len(contiguity) == rank else (1,) * rank
    limits = pointer_limits(op, type.element_type, axis, known)
    return Width(op.vector.data, 8 * storage_bytes(element_of(value)), axis, layout, limits)


def tell_width(teller: Teller, op: Operation, width: Width, verb: str, ptx: str) -> None:
    """What a load or store to or from registers is told of: its width, and what is missed."""
    why = f"{ptx}, {width.bytes} bytes a thread at once: {reason(width)}"
    noun = verb.capitalize()
    teller.tell(
        op,
        RemarkKind.PASSED,
        RemarkCategory.MEMORY,
        f"RemarkMemory{noun}InstructionSelected",
        f"{noun} instruction selected: {why}",
        Instruction=f"Global-memory {verb} instruction",
        Shape=shape_text(width.layout.shape),
        Ptx=ptx,
        BytesPerThread=width.bytes,
        BytesPerWarp=width.warp_bytes,
    )
    _tell_missed(teller, op, width, verb)


def _tell_missed(teller: Teller, op: Operation, width: Width, verb: str) -> None:
    """A remark if an author could have a wider access, or one that uses whole sectors."""
    least = width.tightest
    if width.is_missed and least is not None:
        message = (
            f"{verb} of {width.bytes} instead of {MAX_ACCESS_BYTES} bytes a thread at once: "
            f"{reason(width)}"
        )
        teller.tell(
            op,
            RemarkKind.MISSED,
            RemarkCategory.MEMORY,
            "AccessWidth",
            message,
            BytesPerThread=width.bytes,
            Limit=least.fact.value,
            Change=remedy(least, width.bits),
        )
    if wasted := sectors(width):
        teller.tell(
            op,
            RemarkKind.MISSED,
            RemarkCategory.MEMORY,
            "Coalescing",
            f"{verb} moves parts of sectors: {wasted}",
            BytesPerWarp=width.warp_bytes,
            Change="let neighbouring elements of the tile be neighbours in memory",
        )

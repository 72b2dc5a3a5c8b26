"""Stores and atomics: TMA or st.global, how wide, and what a faster one would need."""

from __future__ import annotations

from xdsl.ir import Operation

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import tma_stores as ts
from tileiras.dialects.nv_tileas.encoding import layout_of
from tileiras.passes.nv_tileas.explain.loads import pointer_width, tell_width, view_width
from tileiras.passes.nv_tileas.explain.telling import Teller, shape_text, tile_text, type_text
from tileiras.planning.operands.tma import unaligned
from tileiras.remarks import RemarkCategory, RemarkKind


def explain_store(teller: Teller, op: Operation) -> None:
    """A remark if the operation stores or is atomic, one more if it could be faster."""
    match op:
        case ts.TmaStoreOp() | ts.StoreStageOp():
            _tell_tma(teller, op)
        case tas.TiledStoreOp() if (layout := layout_of(op.value.type)) is not None:
            tell_width(teller, op, view_width(op, layout), "store", "st.global")
            _tell_failed_tma(teller, op)
        case tas.StoreOp() if (width := pointer_width(op, op.value)) is not None:
            tell_width(teller, op, width, "store", "st.global")
        case tas.StoreOp():
            _tell_scalar(teller, op)
        case tas.StoreRowsOp():
            _tell_rows(teller, op)
        case aa.TiledAtomicRedOp():
            vector = op.vector.data if op.vector is not None else 1
            _tell_atomic(teller, op, "red.global", f"{vector} elements of a thread at once")
        case aa.AtomicRMWOp():
            how = "red.global" if op.result.first_use is None else "atom.global"
            _tell_atomic(teller, op, how, "one element at a time")
        case aa.AtomicCASOp():
            _tell_atomic(teller, op, "atom.global.cas", "one element at a time")
        case _:
            return


def _tell_scalar(teller: Teller, op: tas.StoreOp) -> None:
    """One thread stores what all have."""
    teller.tell(
        op,
        RemarkKind.PASSED,
        RemarkCategory.MEMORY,
        "RemarkMemoryStoreInstructionSelected",
        "Store instruction selected: a scalar: st.global by one thread",
        Instruction="Global-memory store instruction",
        Shape=shape_text(()),
    )


def _tell_rows(teller: Teller, op: tas.StoreRowsOp) -> None:
    """From the registers of a product through shared memory, whole rows at a time."""
    shape = shape_of(op.value)
    teller.tell(
        op,
        RemarkKind.PASSED,
        RemarkCategory.MEMORY,
        "RemarkMemoryStoreInstructionSelected",
        "Store instruction selected: st.global, 16 bytes a thread at once: rows are stored from "
        "shared memory, where one thread of each says where it goes",
        Instruction="Global-memory store instruction",
        Shape=shape_text(shape),
    )


def _tell_tma(teller: Teller, op: ts.TmaStoreOp | ts.StoreStageOp) -> None:
    """From the registers of a product through shared memory."""
    type = view_type_of(op.view)
    tile = tile_text(type.tile_shape, type.memref.element_type)
    by = "a warp of its own" if isinstance(op, ts.StoreStageOp) else "the warps that computed it"
    is_reduction = op.reduction is not None
    teller.tell(
        op,
        RemarkKind.PASSED,
        RemarkCategory.MEMORY,
        "RemarkMemoryStoreInstructionSelected",
        f"Store instruction selected: TMA, {tile} from shared memory by {by}: base and strides "
        "are proven to be multiples of 16 bytes",
        Instruction="TMA Store instruction",
        Shape=shape_text(type.tile_shape),
        Ptx="cp.reduce.async.bulk.tensor" if is_reduction else "cp.async.bulk.tensor",
    )


def _tell_failed_tma(teller: Teller, op: tas.TiledStoreOp) -> None:
    """Where warps have roles TMA would store, if the tensor were aligned."""
    if not pl.switches_of(teller.func):
        return
    missing = unaligned(view_type_of(op.view), memref_of(op.view))
    if missing is not None:
        teller.tell(
            op,
            RemarkKind.FAILED,
            RemarkCategory.MEMORY,
            "RemarkMemoryTmaStoreFailed",
            f"Failed to select TMA store instruction: {missing}",
            reason=missing,
        )


def _tell_atomic(teller: Teller, op: Operation, ptx: str, how: str) -> None:
    """Which atomic instruction, and on how much."""
    value = op.operands[0] if isinstance(op, aa.TiledAtomicRedOp) else op.operands[1]
    teller.tell(
        op,
        RemarkKind.ANALYSIS,
        RemarkCategory.MEMORY,
        "Atomic",
        f"atomics on {type_text(value.type)}: {ptx}, {how}",
        Ptx=ptx,
    )

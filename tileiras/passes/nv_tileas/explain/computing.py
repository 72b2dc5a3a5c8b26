"""Reductions, scans, tiles that change their layout, and the largest tile in registers."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileas.encoding import layout_of
from tileiras.dialects.nv_tileas.ways import ShufflesAttr, ThroughSmemAttr
from tileiras.passes.nv_tileas.explain.telling import Teller, tile_text, type_text
from tileiras.remarks import RemarkCategory, RemarkKind, counted

REGISTER_BITS = 32


def explain_computing(teller: Teller, op: Operation) -> None:
    """A remark if the operation combines a tile or moves it between threads."""
    match op:
        case aa.ReduceOp() | aa.ScanOp():
            _tell_combination(teller, op)
        case tas.ConvertLayoutOp():
            _tell_conversion(teller, op)


def _tell_combination(teller: Teller, op: aa.ReduceOp | aa.ScanOp) -> None:
    """How many elements of a row a thread, a warp and the CTA have."""
    layout, axis = layout_of(op.operands[0].type), op.dim.value.data
    if layout is None:
        return
    parts = {unit: _along(layout, unit, axis) for unit in ("register", "lane", "warp")}
    words = [f"{parts['register']} in registers of a thread"]
    if parts["lane"] > 1:
        words.append(f"{counted(parts['lane'], 'lane')} by shuffles")
    if parts["warp"] > 1:
        words.append(f"{counted(parts['warp'], 'warp')} through shared memory and a barrier")
    name = "reduction" if isinstance(op, aa.ReduceOp) else "scan"
    tile = type_text(op.operands[0].type)
    teller.tell(
        op,
        RemarkKind.ANALYSIS,
        RemarkCategory.SCHEDULE,
        "Reduction",
        f"{name} of {tile} along dim {axis}: {', '.join(words)}",
        Registers=parts["register"],
        Lanes=parts["lane"],
        Warps=parts["warp"],
    )


def _along(layout: LinearLayout, unit: str, axis: int) -> int:
    """How many elements along an axis registers, lanes or warps tell apart."""
    count = 1
    for vector in layout.basis(unit):
        count *= 2 if vector[axis] else 1
    return count


def _tell_conversion(teller: Teller, op: tas.ConvertLayoutOp) -> None:
    """Nothing where only registers are named anew."""
    tile, bytes = type_text(op.source.type), op.smem_bytes
    match op.by:
        case ShufflesAttr():
            how = "by shuffles within warps"
        case ThroughSmemAttr():
            how = f"through {bytes} bytes of shared memory and a barrier"
        case _:
            return
    teller.tell(
        op,
        RemarkKind.ANALYSIS,
        RemarkCategory.MEMORY,
        "LayoutConversion",
        f"{tile} moves between threads {how}: it is made in one layout and used in another",
        Bytes=bytes,
    )


def note_tile(teller: Teller, op: Operation) -> None:
    """Keeps the tile of which a thread has most registers, for what is said of spills."""
    for result in op.results:
        layout, type = layout_of(result.type), result.type
        if layout is None or not isinstance(type, TensorType):
            continue
        bits = storage_bits(type.element_type) if not _is_pointer(type) else 64
        registers = layout.in_size("register") * bits // REGISTER_BITS
        facts = teller.remarks.facts.setdefault(teller.func.sym_name.data, {})
        if registers > int(facts.get("tile_registers", 0)):
            place = place_of(op)
            at = f" at line {place.line}" if place is not None else ""
            facts["tile_registers"] = registers
            facts["tile"] = tile_text(type.get_shape(), type.element_type) + at


def _is_pointer(type: TensorType) -> bool:
    return isinstance(type.element_type, aa.PointerType)

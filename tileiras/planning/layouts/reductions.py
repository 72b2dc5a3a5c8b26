"""The steps of a reduction: in registers first, then over lanes by shuffles, then over warps.

A body that is not known to commute combines elements in the order of their coordinates: bit after
bit from the lowest, wherever a bit lives. What is left of a row when registers and lanes are done
goes to other threads, and they combine it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr, IntAttr, IntegerType, StringAttr
from xdsl.ir import SSAValue

from tileiras.analysis.choosing_body import extreme_with_place
from tileiras.analysis.combining import is_commutative, is_packed, redux_kind
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import IntTupleAttr
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.axis_bits import (
    AxisBit,
    along_axis_first,
    axis_bits,
    compressed,
    gathered_in_registers,
    is_unit,
    totals_layout,
    with_copies,
    without_stride,
)
from tileiras.dialects.layout.blocked import LANE_BITS
from tileiras.dialects.nv_tileaa.storage import register_bits
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.dialects.nv_tileas import ConvertLayoutOp
from tileiras.dialects.nv_tileas.assigned import layout_attribute
from tileiras.dialects.nv_tileas.ways import (
    CombineAttr,
    FindAttr,
    ReduxAttr,
    RegroupAttr,
    StepAttr,
)
from tileiras.planning.layouts.conversions import way_between

MAX_GATHERED = 32
"""Policy: partial results of one row that a thread may read; where more are left, a better layout
pays.
"""
MAX_GATHERED_REGISTERS = 64
"""Policy: partial results of all rows that a thread may hold at once; beyond, rows are dealt out.

A quarter of the 255 registers of a thread: the combination needs both halves and its result.
"""
LEAST_FOUND = 2
"""Policy: bits of registers from which finding an extreme costs less than combining."""
REGISTER_BITS = 32
"""Fixed: bits of a register (PTX ISA)."""


@dataclass
class _Steps:
    """The steps so far, and where partial results lie behind them."""

    layout: LinearLayout
    axis: int
    bits: tuple[int, ...]
    commutes: bool
    redux: str | None
    packs: bool
    extreme: str | None
    steps: list[StepAttr] = field(default_factory=list["StepAttr"])

    def within_warps(self) -> None:
        """What registers and shuffles can do.

        What packed instructions compute takes registers from the highest bit: pairs of neighbours
        stay pairs.
        """
        if self.commutes:
            found = axis_bits(self.layout, self.axis)
            registers = [bit for bit in found if bit.unit == "register"]
            if self.packs:
                registers.sort(key=lambda bit: -bit.bit)
            if self.extreme and len(registers) >= LEAST_FOUND:
                self.steps.append(FindAttr.of(kind=self.extreme))
                self.layout = with_copies(self.layout, self.axis, ("register",))
                self.layout = self.layout.without_register_duplicates()
                registers = []
            self.extreme = None
            early = [*registers, *(bit for bit in found if bit.unit == "lane")]
        else:
            early = _below_warps(axis_bits(self.layout, self.axis))
        while early:
            bit = early[0]
            if self.redux and bit.unit == "lane" and _all_lanes_remain(self.layout, self.axis):
                self.steps.append(ReduxAttr.of(kind=self.redux))
                self.layout = with_copies(self.layout, self.axis, ("lane",))
                early = [other for other in early if other.unit != "lane"]
                continue
            run = _run_of(early)
            self.combine(run)
            early = early[len(run) :]
        self.layout = compressed(self.layout, self.axis)

    def combine(self, run: Sequence[AxisBit]) -> None:
        """Combines what bits of one unit tell apart, in this order."""
        unit = run[0].unit
        strides = tuple(1 << bit.position for bit in run)
        in_order = unit == "lane" and not self.commutes
        parameters = (StringAttr(f"{unit}s"), IntTupleAttr(strides), IntAttr(int(in_order)))
        self.steps.append(CombineAttr(*parameters))
        for stride in strides:
            self.layout = without_stride(self.layout, self.axis, unit, stride)

    def regroup(self, layout: LinearLayout) -> None:
        """Brings what is left to other threads."""
        self.steps.append(_regroup(self.layout, layout, self.bits))
        self.layout = layout

    def rest(self) -> None:
        """What is left of each row, in threads that hold all of it."""
        if not axis_bits(self.layout, self.axis):
            return
        words = sum(-(-bits // REGISTER_BITS) for bits in self.bits)
        self.regroup(_gathered(self.layout, self.axis, words))
        self.combine(axis_bits(self.layout, self.axis))
        self.layout = compressed(self.layout, self.axis)


def steps_of_reduction(
    op: aa.ReduceOp, layout: LinearLayout, has_redux: bool, has_packed: bool
) -> tuple[ArrayAttr[StepAttr], LinearLayout]:
    """The steps on operands of a unit layout (`axis_bits.is_unit`), and that of the results.

    `has_redux`: the target has instructions that combine all lanes; `has_packed`: ones that combine
    two pairs of f32.
    """
    axis, body = op.dim.value.data, op.body.block
    redux = redux_kind(body) if has_redux else None
    packs = has_packed and is_packed(body)
    extreme = extreme_with_place(body) if _has_places(op) else None
    found = _Steps(layout, axis, _bits(op), is_commutative(body), redux, packs, extreme)
    found.within_warps()
    while found.layout.shape[axis] > MAX_GATHERED:
        found.regroup(along_axis_first(found.layout, axis))
        found.within_warps()
    found.rest()
    return ArrayAttr(found.steps), found.layout.slice(axis)


def _has_places(op: aa.ReduceOp) -> bool:
    """Whether the second operand counts along the dim, and all that is wanted is a place.

    A number would be that of another zero where zeros of both signs are extreme.
    """
    if len(op.operands) != 2:
        return False
    is_wanted = bool(op.results[0].first_use)
    if is_wanted and not isinstance(element_of(op.operands[0]), IntegerType):
        return False
    return counts_along(op.operands[1], op.dim.value.data)


def counts_along(value: SSAValue, dim: int) -> bool:
    """Whether each element is its coordinate along a dim."""
    match value.owner:
        case aa.MakeRangeOp():
            return dim == 0
        case ConvertLayoutOp() as op:
            return counts_along(op.source, dim)
        case aa.BroadcastOp() as op:
            return shape_of(op.source)[dim] == shape_of(value)[dim] and counts_along(op.source, dim)
        case aa.ReshapeOp() as op:
            flat = shape_of(op.source)
            spread = (1,) * dim + flat + (1,) * (len(shape_of(value)) - dim - 1)
            return len(flat) == 1 and shape_of(value) == spread and counts_along(op.source, 0)
        case _:
            return False


def is_scanned(layout: LinearLayout, axis: int) -> bool:
    """Whether a scan can go on in a layout: warps are the highest bits of the axis, and few."""
    if not is_unit(layout):
        return False
    units = [bit.unit for bit in axis_bits(layout, axis)]
    warps = units.count("warp")
    return "warp" not in units[: len(units) - warps] and 1 << warps <= MAX_GATHERED


def totals_of_scan(op: aa.ScanOp, layout: LinearLayout) -> RegroupAttr | None:
    """How the totals of warps reach all threads of their rows; None where a warp has whole rows."""
    axis = op.dim.value.data
    if all(bit.unit != "warp" for bit in axis_bits(layout, axis)):
        return None
    totals = totals_layout(layout, axis)
    return _regroup(totals, gathered_in_registers(totals, axis), _bits(op))


def scan_total_layout(layout: LinearLayout, axis: int) -> LinearLayout:
    """Where a scan in a layout leaves what all elements make: in all threads of each row."""
    totals = with_copies(totals_layout(layout, axis), axis, ("warp",))
    return compressed(totals, axis).slice(axis)


def _bits(op: aa.ReduceOp | aa.ScanOp) -> tuple[int, ...]:
    return tuple(register_bits(element_of(value)) for value in op.operands)


def _regroup(
    source: LinearLayout, target: LinearLayout, element_bits: tuple[int, ...]
) -> RegroupAttr:
    """From one layout to another, each operand by its way."""
    ways = [way_between(source, target, bits) for bits in element_bits]
    return RegroupAttr(layout_attribute(target), ArrayAttr(ways))


def _below_warps(bits: Sequence[AxisBit]) -> list[AxisBit]:
    """The bits below the lowest one of warps."""
    first = next((i for i, bit in enumerate(bits) if bit.unit == "warp"), len(bits))
    return list(bits[:first])


def _run_of(bits: Sequence[AxisBit]) -> list[AxisBit]:
    """The first bits, as far as they are of one unit."""
    end = next((i for i, bit in enumerate(bits) if bit.unit != bits[0].unit), len(bits))
    return list(bits[:end])


def _all_lanes_remain(layout: LinearLayout, axis: int) -> bool:
    """Whether all lanes of a warp hold different elements of one row, and each just one."""
    units = [bit.unit for bit in axis_bits(layout, axis)]
    return units.count("lane") == LANE_BITS and "register" not in units


def _gathered(layout: LinearLayout, axis: int, words: int) -> LinearLayout:
    """A layout with the axis in the lowest registers, in order, and not too many others above.

    An element of all operands takes `words` registers. Threads of the first choice repeat each
    other's work, so that all hold the result at once.
    """
    everywhere = gathered_in_registers(layout, axis)
    if everywhere.in_size("register") * words <= MAX_GATHERED_REGISTERS:
        return everywhere
    dealt_out = along_axis_first(layout, axis, layout.shape[axis])
    fewer = dealt_out.in_size("register") < everywhere.in_size("register")
    return dealt_out if fewer else everywhere

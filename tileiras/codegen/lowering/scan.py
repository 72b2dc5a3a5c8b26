"""Scans: level by level, wherever the bits of the axis live.

A level is a run of bits of one unit: registers, lanes or warps. Blocks of the lowest level are
scanned by themselves, and their totals by the levels above, which tell each block what comes before
it. So elements are combined once with what is before their block, however many levels there are,
and exchanges between lanes and warps move totals only.

    elements   1 2 3 4 | 5 6 7 8        two registers bits, one lane bit
    blocks     1 3 6 10 | 5 11 18 26
    before         -    |    10
    result     1 3 6 10 | 15 21 28 36

A reverse scan is the same with all bits of the coordinate flipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from tileiras.codegen.lowering.combine_body import CombineBody
from tileiras.codegen.lowering.context import KernelLowering, LoweringRules
from tileiras.codegen.lowering.partial_results import Partial
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.axis_bits import (
    AxisBit,
    axis_bits,
    compressed,
    is_unit,
    without_lane_bit,
    without_register_bit,
)
from tileiras.dialects.llvm.types import lanes_of
from tileiras.dialects.nv_tileas.ways import TOTALS, RegroupAttr


def lower_scan(ctx: KernelLowering, op: aa.ScanOp) -> None:
    """Inclusive prefixes along one axis."""
    axis = op.dim.value.data
    layout = ctx.layout(op.operands[0].type)
    if not is_unit(layout) or ctx.layout(op.results[0].type) != layout:
        raise ctx.contradiction("cannot go on in its layouts: tileas-legalize-reduce comes before")
    values = [ctx.value(operand) for operand in op.operands]
    scan = _Scan(ctx, CombineBody(ctx, op), axis, reverse=bool(op.reverse.value.data))
    ctx.values.update(zip(op.results, scan.run(layout, values), strict=True))
    for result, total in zip(op.results, scan.totals):
        for user in _totals_of(result):
            is_tile = isinstance(user.result.type, TensorType)
            ctx.values[user.result] = total if is_tile else ctx.b.extract(total, 0)


def _totals_of(result: SSAValue) -> list[tas.ScanTotalOp]:
    """The operations that want to know what all elements make."""
    users = (use.operation for use in result.uses)
    return [user for user in users if isinstance(user, tas.ScanTotalOp)]


def lower_total(ctx: KernelLowering, op: tas.ScanTotalOp) -> None:
    """The scan has left it."""


@dataclass(frozen=True)
class _Before:
    """What comes before the block of each register, one vector for each operand.

    `exists` says for each register whether there is anything: known, or known to the thread.
    """

    values: list[SSAValue]
    exists: list[bool | SSAValue]


class _Scan:
    """One scan along `axis`; `reverse` starts at the end.

    `totals`: what all elements make, for each register beside the axis, once it has run, if
    somebody wants to know.
    """

    def __init__(self, ctx: KernelLowering, body: CombineBody, axis: int, reverse: bool):
        self.ctx = ctx
        self.b = ctx.b
        self.body = body
        self.axis = axis
        self.reverse = reverse
        self.totals: list[SSAValue] = []
        self.has_totals = any(map(_totals_of, body.op.results))

    def run(self, layout: LinearLayout, values: list[SSAValue]) -> list[SSAValue]:
        """The prefixes, in the layout of the elements."""
        level = _lowest_level(axis_bits(layout, self.axis))
        if not level:
            self.totals = values
            return values
        if level[0].unit == "warp":
            return self._combined(values, self._before_warp(layout, values))
        blocks = self._blocks(layout, values, level)
        before = self._before_blocks(layout, blocks, level)
        return blocks if before is None else self._combined(blocks, before)

    def _before(self, layout: LinearLayout, values: list[SSAValue]) -> _Before | None:
        """The exclusive prefixes of values; None if the axis has one coordinate."""
        level = _lowest_level(axis_bits(layout, self.axis))
        if not level:
            self.totals = values
            return None
        if level[0].unit == "warp":
            return self._before_warp(layout, values)
        blocks = self._blocks(layout, values, level)
        before = self._before_blocks(layout, blocks, level)
        if before is None:
            nothing = [False] * layout.in_size("register")
            before = _Before(blocks, list[bool | SSAValue](nothing))
        shifted = self._shifted_registers if level[0].unit == "register" else self._shifted_lanes
        return shifted(blocks, before, level)

    def _before_blocks(
        self, layout: LinearLayout, blocks: list[SSAValue], level: Sequence[AxisBit]
    ) -> _Before | None:
        """What comes before the blocks of a level, for each of their registers."""
        bits = [bit.bit for bit in level]
        if level[0].unit == "lane":
            ends = sum(1 << bit for bit in bits)
            set_bits, clear_bits = (0, ends) if self.reverse else (ends, 0)
            for bit in bits:
                layout = without_lane_bit(layout, bit)
            if not self.has_totals and not axis_bits(layout, self.axis):
                return None
            totals = [self._from_lane(value, set_bits, clear_bits) for value in blocks]
            return self._before(layout, totals)
        moving = sum(1 << bit for bit in bits)
        wanted = 0 if self.reverse else moving
        count = layout.in_size("register")
        last = [register for register in range(count) if register & moving == wanted]
        for bit in sorted(bits, reverse=True):
            layout = without_register_bit(layout, bit)
        before = self._before(layout, [self.b.shuffle(value, None, last) for value in blocks])
        if before is None:
            return None
        places = [last.index(register & ~moving | wanted) for register in range(count)]
        values = [self.b.shuffle(value, None, places) for value in before.values]
        return _Before(values, [before.exists[place] for place in places])

    # blocks of one level

    def _blocks(
        self, layout: LinearLayout, values: list[SSAValue], level: Sequence[AxisBit]
    ) -> list[SSAValue]:
        """The inclusive prefixes within each block.

        Each step over lanes joins neighbouring blocks, doubling them: elements with a bit of the
        axis set are combined with the last one that has it clear, and all lower bits set.
        """
        if level[0].unit == "register":
            return self._run_registers(layout, values, level)
        for index, bit in enumerate(level):
            values = self._join_lanes(values, level[:index], bit)
        return values

    def _run_registers(
        self, layout: LinearLayout, values: list[SSAValue], level: Sequence[AxisBit]
    ) -> list[SSAValue]:
        """One element after the other: each is combined once."""
        count, moving = layout.in_size("register"), sum(1 << bit.bit for bit in level)
        places = [self._register_at(place, level) for place in range(1 << len(level))]
        if self.reverse:
            places.reverse()
        beside = [register for register in range(count) if not register & moving]
        rows = [[register | place for register in beside] for place in places]
        running = [self.b.shuffle(value, None, rows[0]) for value in values]
        made = [[value] for value in running]
        for row in rows[1:]:
            own = [self.b.shuffle(value, None, row) for value in values]
            running = self.body.apply(own, running)
            for parts, value in zip(made, running, strict=True):
                parts.append(value)
        order = [register for row in rows for register in row]
        found = [order.index(register) for register in range(count)]
        return [self.b.shuffle(self.b.concat(parts), None, found) for parts in made]

    @staticmethod
    def _register_at(place: int, level: Sequence[AxisBit]) -> int:
        """The bits of the register at a place along a level."""
        return sum((place >> rank & 1) << bit.bit for rank, bit in enumerate(level))

    def _join_lanes(
        self, values: list[SSAValue], lower: Sequence[AxisBit], bit: AxisBit
    ) -> list[SSAValue]:
        ends, starts = sum(1 << other.bit for other in lower), 1 << bit.bit
        if self.reverse:
            ends, starts = starts, ends
        earlier = [self._from_lane(value, ends, starts) for value in values]
        is_later = self._is_at(1 << bit.bit, 0 if self.reverse else 1 << bit.bit)
        return self._where(is_later, self.body.apply(values, earlier), values)

    # from inclusive to exclusive

    def _shifted_registers(
        self, blocks: list[SSAValue], before: _Before, level: Sequence[AxisBit]
    ) -> _Before:
        """Each register's neighbour before it, combined with what comes before the block."""
        moving = sum(1 << bit.bit for bit in level)
        first = moving if self.reverse else 0
        count = len(before.exists)
        is_first = [register & moving == first for register in range(count)]
        neighbours = [r if is_first[r] else self._neighbour(r, level) for r in range(count)]
        own = [self.b.shuffle(value, None, neighbours) for value in blocks]
        there = zip(before.exists, is_first, strict=True)
        within = _Before(before.values, [not start and exists for exists, start in there])
        shifted = self._combined(own, within)
        places = [register if is_first[register] else count + register for register in range(count)]
        pairs = zip(before.values, shifted, strict=True)
        values = [self.b.shuffle(outer, inner, places) for outer, inner in pairs]
        there = zip(before.exists, is_first, strict=True)
        return _Before(values, [exists if start else True for exists, start in there])

    def _neighbour(self, register: int, level: Sequence[AxisBit]) -> int:
        """The register one coordinate before."""
        place = sum((register >> bit.bit & 1) << rank for rank, bit in enumerate(level))
        place += 1 if self.reverse else -1
        for rank, bit in enumerate(level):
            mask = 1 << bit.bit
            register = register | mask if place >> rank & 1 else register & ~mask
        return register

    def _shifted_lanes(
        self, blocks: list[SSAValue], before: _Before, level: Sequence[AxisBit]
    ) -> _Before:
        """The neighbouring lane's prefix, combined with what comes before the block."""
        mask = sum(1 << bit.bit for bit in level)
        lane = self._neighbouring_lane(mask)
        inner = self._combined([self.b.shfl("idx", value, lane) for value in blocks], before)
        is_first = self._is_at(mask, mask if self.reverse else 0)
        if not any(before.exists):
            return _Before(inner, [self.b.not_(is_first)] * len(before.exists))
        values = self._where(is_first, before.values, inner)
        exists = [self._or(state, self.b.not_(is_first)) for state in before.exists]
        return _Before(values, exists)

    def _neighbouring_lane(self, mask: int) -> SSAValue:
        """The lane one coordinate before this one, of which the bits of `mask` are the number."""
        b, lane = self.b, self.ctx.threads.lane
        if self.reverse:
            moved = b.add(b.or_(lane, b.i32(~mask)), b.i32(1))
        else:
            moved = b.add(b.and_(lane, b.i32(mask)), b.i32(-1))
        return b.or_(b.and_(moved, b.i32(mask)), b.and_(lane, b.i32(~mask)))

    def _before_warp(self, layout: LinearLayout, values: list[SSAValue]) -> _Before:
        """The totals of all warps before this one, combined."""
        totals = Partial(compressed(layout, self.axis), tuple(values))
        step = self.body.op.attributes.get(TOTALS)
        if not isinstance(step, RegroupAttr):
            said = "has several warps and no totals: tileas-legalize-reduce comes before"
            raise self.ctx.contradiction(said)
        gathered = totals.regrouped(self.ctx, step)
        count = gathered.layout.shape[self.axis]
        rows = [self._register_slices(value, count) for value in gathered.values]
        order = list(reversed(range(count))) if self.reverse else list(range(count))
        running = [row[order[0]] for row in rows]
        prefix = running
        position = self._warp_position(totals.layout)
        for place, following in zip(order[1:], order[2:]):
            running = self.body.apply([row[place] for row in rows], running)
            here = self.b.icmp("eq", position, self.b.i32(following))
            prefix = self._where(here, running, prefix)
        self.totals = self.body.apply([row[order[-1]] for row in rows], running)
        has_before = self.b.icmp("ne", position, self.b.i32(order[0]))
        return _Before(prefix, [has_before] * totals.layout.in_size("register"))

    def _register_slices(self, value: SSAValue, count: int) -> list[SSAValue]:
        """The registers for each coordinate along the axis, which is in the lowest bits."""
        lanes = lanes_of(value.type) or 1
        return [self.b.shuffle(value, None, range(place, lanes, count)) for place in range(count)]

    def _warp_position(self, totals: LinearLayout) -> SSAValue:
        """This thread's warp along the axis of the totals."""
        warps = [vector[self.axis] for vector in totals.basis("warp")]
        return self.ctx.threads.linear((0,) * totals.in_bits("lane"), warps)

    # helpers

    def _combined(self, own: list[SSAValue], before: _Before) -> list[SSAValue]:
        """Values combined with what comes before them, where there is anything."""
        count = len(before.exists)
        parts = [[value] for value in own]
        places = list(range(count))
        end = count
        for state in dict.fromkeys(before.exists):
            if state is False:
                continue
            registers = [r for r in range(count) if before.exists[r] is state]
            mine = [self.b.shuffle(value, None, registers) for value in own]
            theirs = [self.b.shuffle(value, None, registers) for value in before.values]
            found = self.body.apply(mine, theirs)
            if isinstance(state, SSAValue):
                found = self._where(state, found, mine)
            for part, value in zip(parts, found, strict=True):
                part.append(value)
            for rank, register in enumerate(registers):
                places[register] = end + rank
            end += len(registers)
        if end == count:
            return own
        return [self.b.shuffle(self.b.concat(part), None, places) for part in parts]

    def _where(
        self, condition: SSAValue, chosen: Sequence[SSAValue], other: Sequence[SSAValue]
    ) -> list[SSAValue]:
        pairs = zip(chosen, other, strict=True)
        return [self.b.select(condition, new, old) for new, old in pairs]

    def _or(self, state: bool | SSAValue, other: SSAValue) -> bool | SSAValue:
        if isinstance(state, SSAValue):
            return self.b.or_(state, other)
        return True if state else other

    def _is_at(self, mask: int, bits: int) -> SSAValue:
        """Whether some bits of the lane's number are these."""
        own = self.b.and_(self.ctx.threads.lane, self.b.i32(mask))
        return self.b.icmp("eq", own, self.b.i32(bits))

    def _from_lane(self, value: SSAValue, set_bits: int, clear_bits: int) -> SSAValue:
        """`value` of the lane with some bits of the index set and others cleared."""
        lane = self.b.or_(self.ctx.threads.lane, self.b.i32(set_bits))
        lane = self.b.and_(lane, self.b.i32(~clear_bits))
        return self.b.shfl("idx", value, lane)


def _lowest_level(bits: Sequence[AxisBit]) -> list[AxisBit]:
    """The first bits, as far as they are of one unit; of lanes as far as they ascend."""
    level: list[AxisBit] = []
    for bit in bits:
        if level and bit.unit != level[0].unit:
            break
        if level and bit.unit == "lane" and bit.bit < level[-1].bit:
            break
        level.append(bit)
    return level


RULES: LoweringRules = {
    aa.ScanOp: lower_scan,
    tas.ScanTotalOp: lower_total,
}
"""Scans by class."""

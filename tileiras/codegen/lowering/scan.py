"""Scans: each step joins neighbouring blocks of the axis, doubling them, wherever the bits live.

After the step of bit k every element has been combined with all before it in its aligned block of
2^(k+1). So the step combines elements with bit k set with the last element of the block before:
the one with bit k clear and all lower bits set. That is a register of the same thread, or a
register of another lane. What remains between warps are one total per warp and row.

A reverse scan is the same with all bits of the coordinate flipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation, SSAValue

from tileiras.codegen.lowering.combine_body import CombineBody
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.reduce import Partial
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.axis_bits import (
    AxisBit,
    axis_bits,
    is_unit,
    totals_layout,
)
from tileiras.dialects.llvm.types import lanes_of
from tileiras.dialects.nv_tileas.ways import TOTALS, RegroupAttr
from tileiras.errors import InternalError


def lower_scan(ctx: KernelLowering, op: Operation) -> None:
    """Inclusive prefixes along one axis."""
    if not isinstance(op, aa.ScanOp):
        raise InternalError("the rule of scan got another operation")
    axis = op.dim.value.data
    layout = ctx.layout(op.operands[0].type)
    if not is_unit(layout) or ctx.layout(op.results[0].type) != layout:
        raise ctx.contradiction("cannot go on in its layouts: tileas-legalize-reduce comes before")
    partial = Partial(layout, tuple(ctx.value(operand) for operand in op.operands))
    scan = _Scan(ctx, CombineBody(ctx, op), axis, reverse=bool(op.reverse.value.data))
    partial = scan.run(partial)
    ctx.values.update(zip(op.results, partial.values, strict=True))


class _Scan:
    """One scan along `axis`; `reverse` starts at the end."""

    def __init__(self, ctx: KernelLowering, body: CombineBody, axis: int, reverse: bool):
        self.ctx = ctx
        self.b = ctx.b
        self.body = body
        self.axis = axis
        self.reverse = reverse

    def run(self, partial: Partial) -> Partial:
        """The prefixes, in the layout of the elements."""
        bits = axis_bits(partial.layout, self.axis)
        values = list(partial.values)
        within_warp = [bit for bit in bits if bit.unit != "warp"]
        for index, bit in enumerate(within_warp):
            values = self._step(partial.layout, values, within_warp[:index], bit)
        if len(within_warp) < len(bits):
            values = self._across_warps(partial.layout, values)
        return Partial(partial.layout, tuple(values))

    def _step(
        self,
        layout: LinearLayout,
        values: Sequence[SSAValue],
        lower: Sequence[AxisBit],
        bit: AxisBit,
    ) -> list[SSAValue]:
        """Combines the blocks that `bit` tells apart; `lower` are the bits within a block."""
        count = layout.in_size("register")
        targets = list(range(count))
        if bit.unit == "register":
            targets = [r for r in targets if bool(r >> bit.bit & 1) != self.reverse]
        sources = [self._source_register(register, lower, bit) for register in targets]
        needed = sorted(set(sources))
        places = [needed.index(source) for source in sources]
        before = [
            self.b.shuffle(
                self._fetch(self.b.shuffle(value, None, needed), lower, bit), None, places
            )
            for value in values
        ]
        own = [self.b.shuffle(value, None, targets) for value in values]
        combined = self.body.apply(own, before)
        if bit.unit == "lane":
            return self._where_later(bit, combined, own)
        merged = [targets.index(r) + count if r in targets else r for r in range(count)]
        return [
            self._replaced(value, new, merged) for value, new in zip(values, combined, strict=True)
        ]

    def _replaced(self, old: SSAValue, new: SSAValue, merged: Sequence[int]) -> SSAValue:
        """`old` with some registers from `new`: those whose index is beyond `old`."""
        return self.b.shuffle(old, self.b.concat([new, new]), merged)

    def _source_register(self, register: int, lower: Sequence[AxisBit], bit: AxisBit) -> int:
        """The register that holds the last element of the block before that of `register`."""
        for other in lower:
            if other.unit == "register":
                register = self._with_bit(register, other.bit, not self.reverse)
        if bit.unit == "register":
            register = self._with_bit(register, bit.bit, self.reverse)
        return register

    @staticmethod
    def _with_bit(value: int, bit: int, is_set: bool) -> int:
        return value | 1 << bit if is_set else value & ~(1 << bit)

    def _fetch(self, value: SSAValue, lower: Sequence[AxisBit], bit: AxisBit) -> SSAValue:
        """`value` of the lane that holds the last element of the block before."""
        ends = sum(1 << other.bit for other in lower if other.unit == "lane")
        starts = 1 << bit.bit if bit.unit == "lane" else 0
        if self.reverse:
            ends, starts = starts, ends
        return self._from_lane(value, set_bits=ends, clear_bits=starts)

    def _from_lane(self, value: SSAValue, set_bits: int, clear_bits: int) -> SSAValue:
        """`value` of the lane with some bits of the index set and others cleared."""
        if not set_bits and not clear_bits:
            return value
        lane = self.b.or_(self.ctx.threads.lane, self.b.i32(set_bits))
        lane = self.b.and_(lane, self.b.i32(~clear_bits))
        return self.b.shfl("idx", value, lane)

    def _where_later(
        self, bit: AxisBit, combined: Sequence[SSAValue], own: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """`combined` in the lanes that come later in the scan, else `own`."""
        is_clear = self.ctx.threads.all_zero(1 << bit.bit, 0)
        if is_clear is None:
            raise InternalError("a lane bit is no lane bit", where="lowering")
        pairs = zip(combined, own, strict=True)
        if self.reverse:
            return [self.b.select(is_clear, new, old) for new, old in pairs]
        return [self.b.select(is_clear, old, new) for new, old in pairs]

    def _across_warps(self, layout: LinearLayout, values: Sequence[SSAValue]) -> list[SSAValue]:
        """Combines with the totals of all warps before."""
        totals = self._totals(layout, values)
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
        for place in order[1:-1]:
            running = self.body.apply([row[place] for row in rows], running)
            following = place - 1 if self.reverse else place + 1
            here = self.b.icmp("eq", position, self.b.i32(following))
            pairs = zip(running, prefix, strict=True)
            prefix = [self.b.select(here, new, old) for new, old in pairs]
        spread = self._spread(layout)
        before = [self.b.shuffle(value, None, spread) for value in prefix]
        combined = self.body.apply(values, before)
        is_first = self.b.icmp("eq", position, self.b.i32(order[0]))
        pairs = zip(values, combined, strict=True)
        return [self.b.select(is_first, old, new) for old, new in pairs]

    def _totals(self, layout: LinearLayout, values: Sequence[SSAValue]) -> Partial:
        """The last prefix of each warp, in all its lanes; what remains of the axis are warps."""
        lanes = [bit for bit in axis_bits(layout, self.axis) if bit.unit == "lane"]
        mask = sum(1 << bit.bit for bit in lanes)
        registers = [bit.bit for bit in axis_bits(layout, self.axis) if bit.unit == "register"]
        wanted = 0 if self.reverse else sum(1 << bit for bit in registers)
        moving = sum(1 << bit for bit in registers)
        kept = [r for r in range(layout.in_size("register")) if r & moving == wanted]
        moved = []
        for value in values:
            last = self.b.shuffle(value, None, kept)
            set_bits, clear_bits = (0, mask) if self.reverse else (mask, 0)
            moved.append(self._from_lane(last, set_bits, clear_bits))
        return Partial(totals_layout(layout, self.axis), tuple(moved))

    def _register_slices(self, value: SSAValue, count: int) -> list[SSAValue]:
        """The registers for each coordinate along the axis, which is in the lowest bits."""
        lanes = lanes_of(value.type) or 1
        return [self.b.shuffle(value, None, range(place, lanes, count)) for place in range(count)]

    def _warp_position(self, totals: LinearLayout) -> SSAValue:
        """This thread's warp along the axis of the totals."""
        warps = [vector[self.axis] for vector in totals.basis("warp")]
        return self.ctx.threads.linear((0,) * totals.in_bits("lane"), warps)

    def _spread(self, layout: LinearLayout) -> list[int]:
        """For each register, the one among those without axis bits that is of the same row."""
        moving = {bit.bit for bit in axis_bits(layout, self.axis) if bit.unit == "register"}
        kept = [bit for bit in range(layout.in_bits("register")) if bit not in moving]
        return [
            sum(1 << place for place, bit in enumerate(kept) if register >> bit & 1)
            for register in range(layout.in_size("register"))
        ]


RULES: dict[type[Operation], Callable[[KernelLowering, Operation], None]] = {
    aa.ScanOp: lower_scan,
}
"""Scans by class."""

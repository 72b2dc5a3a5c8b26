"""Reductions: in registers first, then over lanes by shuffles, then over warps by shared memory.

The body may be any associative function. If it is not known to commute, elements are combined in
the order of their coordinates: bit after bit from the lowest, wherever a bit lives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.codegen.lowering.axis_bits import (
    AxisBit,
    along_axis_first,
    axis_bits,
    compressed,
    gathered_in_registers,
    is_unit,
    with_copies,
    without_register_bit,
)
from tileiras.codegen.lowering.combine_body import CombineBody
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.convert_layout import convert
from tileiras.codegen.target import Feature
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.blocked import LANE_BITS
from tileiras.dialects.llvm.types import bit_width, scalar_of
from tileiras.errors import InternalError

MAX_GATHERED = 32
"""Partial results of one row that a thread may read; where more are left, a better layout pays."""
MAX_GATHERED_REGISTERS = 64
"""Partial results of all rows that a thread may hold at once; beyond, rows are dealt out.

A quarter of the 255 registers of a thread: the combination needs both halves and its result.
"""


@dataclass(frozen=True)
class Partial:
    """Partial results: this thread's part of each operand, and where all of them lie."""

    layout: LinearLayout
    values: tuple[SSAValue, ...]

    def converted(self, ctx: KernelLowering, layout: LinearLayout) -> Partial:
        """The same elements in another layout."""
        values = tuple(convert(ctx, value, self.layout, layout) for value in self.values)
        return Partial(layout, values)


def lower_reduce(ctx: KernelLowering, op: Operation) -> None:
    """Combines along one axis; every thread that holds a row's elements holds its result."""
    if not isinstance(op, aa.ReduceOp):
        raise InternalError("the rule of reduce got another operation")
    axis = op.dim.value.data
    body = CombineBody(ctx, op)
    layout = ctx.layout(op.operands[0].type)
    partial = Partial(layout, tuple(ctx.value(operand) for operand in op.operands))
    if not is_unit(layout):
        partial = partial.converted(ctx, along_axis_first(layout, axis))
    partial = _combine_within_warps(ctx, body, partial, axis)
    while partial.layout.shape[axis] > MAX_GATHERED:
        partial = partial.converted(ctx, along_axis_first(partial.layout, axis))
        partial = _combine_within_warps(ctx, body, partial, axis)
    partial = _combine_rest(ctx, body, partial, axis)
    _finish(ctx, op, partial, axis)


def _combine_within_warps(
    ctx: KernelLowering, body: CombineBody, partial: Partial, axis: int
) -> Partial:
    """What registers and shuffles can do; the axis is then as long as what is left of a row."""
    for bit in _early_bits(partial.layout, axis, body):
        partial = _combine_bit(ctx, body, partial, axis, bit)
    return Partial(compressed(partial.layout, axis), partial.values)


def _early_bits(layout: LinearLayout, axis: int, body: CombineBody) -> list[AxisBit]:
    """The register and lane bits to combine within warps, in the order to do so.

    A body that does not commute takes the bits below the lowest warp bit, from the lowest. One that
    packed instructions compute takes registers from the highest: pairs of neighbours stay pairs.
    """
    bits = axis_bits(layout, axis)
    if body.is_commutative:
        registers = [bit for bit in bits if bit.unit == "register"]
        if body.is_packed:
            registers.sort(key=lambda bit: -bit.bit)
        return [*registers, *(bit for bit in bits if bit.unit == "lane")]
    first_warp = next((i for i, bit in enumerate(bits) if bit.unit == "warp"), len(bits))
    return list(bits[:first_warp])


def _combine_bit(
    ctx: KernelLowering, body: CombineBody, partial: Partial, axis: int, bit: AxisBit
) -> Partial:
    """Combines the two halves of the axis that one register or lane bit tells apart."""
    current = next((b for b in axis_bits(partial.layout, axis) if b.position == bit.position), None)
    if current is None:
        return partial
    if current.unit == "register":
        return combine_register_bit(ctx, body, partial, current.bit)
    if _all_lanes_remain(partial.layout, axis) and ctx.target.has(Feature.REDUX):
        kind = body.redux_kind()
        if kind is not None:
            values = tuple(ctx.b.redux(kind, value) for value in partial.values)
            return Partial(with_copies(partial.layout, axis, ("lane",)), values)
    return _combine_lane_bit(ctx, body, partial, current.bit)


def _all_lanes_remain(layout: LinearLayout, axis: int) -> bool:
    """Whether all lanes of a warp hold different elements of one row, and each just one."""
    units = [bit.unit for bit in axis_bits(layout, axis)]
    return units.count("lane") == LANE_BITS and "register" not in units


def combine_register_bit(
    ctx: KernelLowering, body: CombineBody, partial: Partial, bit: int
) -> Partial:
    """Halves the registers: those with the bit set are the later elements."""
    count = partial.layout.in_size("register")
    low = [register for register in range(count) if not register >> bit & 1]
    high = [register | 1 << bit for register in low]
    later = [ctx.b.shuffle(value, None, high) for value in partial.values]
    earlier = [ctx.b.shuffle(value, None, low) for value in partial.values]
    return Partial(without_register_bit(partial.layout, bit), tuple(body.apply(later, earlier)))


def _combine_lane_bit(
    ctx: KernelLowering, body: CombineBody, partial: Partial, bit: int
) -> Partial:
    """Exchanges with the lane that differs in one bit; both lanes come to hold the result."""
    own = list(partial.values)
    other = [ctx.b.shfl("bfly", value, 1 << bit) for value in own]
    later, earlier = other, own
    if not body.is_commutative:
        is_lower = ctx.threads.all_zero(1 << bit, 0)
        if is_lower is None:
            raise InternalError("a lane bit is no lane bit", where="lowering")
        pairs = list(zip(own, other, strict=True))
        later = [ctx.b.select(is_lower, theirs, mine) for mine, theirs in pairs]
        earlier = [ctx.b.select(is_lower, mine, theirs) for mine, theirs in pairs]
    layout = _without_lane_bit(partial.layout, bit)
    return Partial(layout, tuple(body.apply(later, earlier)))


def _without_lane_bit(layout: LinearLayout, bit: int) -> LinearLayout:
    """The layout in which lanes that differ in one bit hold copies."""
    bases = dict(layout.index_bases)
    lanes = list(bases["lane"])
    lanes[bit] = 0
    bases["lane"] = tuple(lanes)
    return LinearLayout.from_index_bases(bases, layout.shape)


def _combine_rest(ctx: KernelLowering, body: CombineBody, partial: Partial, axis: int) -> Partial:
    """What is left of each row goes to threads of the row, which combine it in order.

    To all of them, if that is little; else each row to one thread.
    """
    bits = axis_bits(partial.layout, axis)
    if not bits:
        return partial
    words = sum(-(-bit_width(scalar_of(value.type)) // 32) for value in partial.values)
    partial = partial.converted(ctx, _gathered(partial.layout, axis, words))
    for _ in bits:
        partial = combine_register_bit(ctx, body, partial, 0)
    return Partial(compressed(partial.layout, axis), partial.values)


def _gathered(layout: LinearLayout, axis: int, words: int) -> LinearLayout:
    """A layout with the axis in the lowest registers, in order, and not too many others above.

    An element of all operands takes `words` registers of 32 bits. Threads of the first choice
    repeat each other's work, so that all hold the result at once.
    """
    everywhere = gathered_in_registers(layout, axis)
    if everywhere.in_size("register") * words <= MAX_GATHERED_REGISTERS:
        return everywhere
    dealt_out = along_axis_first(layout, axis, layout.shape[axis])
    fewer = dealt_out.in_size("register") < everywhere.in_size("register")
    return dealt_out if fewer else everywhere


def _finish(ctx: KernelLowering, op: aa.ReduceOp, partial: Partial, axis: int) -> None:
    """Drops the axis and puts the results where they are wanted."""
    layout = partial.layout.slice(axis)
    for result, value in zip(op.results, partial.values, strict=True):
        if isinstance(result.type, TensorType):
            ctx.values[result] = convert(ctx, value, layout, ctx.layout(result.type))
        else:
            ctx.values[result] = ctx.b.extract(value, 0)


RULES: dict[type[Operation], Callable[[KernelLowering, Operation], None]] = {
    aa.ReduceOp: lower_reduce,
}
"""Reductions by class."""

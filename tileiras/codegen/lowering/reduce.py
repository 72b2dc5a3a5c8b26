"""Reductions: the steps that `tileas-legalize-reduce` has written beside them, carried out.

If the body is not known to commute, elements are combined in the order of their coordinates.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, TensorType
from xdsl.ir import Attribute

from tileiras.codegen.lowering.combine_body import CombineBody
from tileiras.codegen.lowering.context import KernelLowering, LoweringRules
from tileiras.codegen.lowering.extreme_places import find_extremes
from tileiras.codegen.lowering.partial_results import Partial
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.axis_bits import (
    bit_of_stride,
    compressed,
    with_copies,
    without_lane_bit,
    without_register_bit,
)
from tileiras.dialects.nv_tileas.ways import (
    STEPS,
    CombineAttr,
    FindAttr,
    ReduxAttr,
    RegroupAttr,
)
from tileiras.errors import InternalError


def lower_reduce(ctx: KernelLowering, op: aa.ReduceOp) -> None:
    """Combines along one axis; every thread that holds a row's elements holds its result."""
    steps = op.attributes.get(STEPS)
    if not isinstance(steps, ArrayAttr):
        raise ctx.contradiction("has no steps: tileas-legalize-reduce comes before")
    axis = op.dim.value.data
    body = CombineBody(ctx, op)
    layout = ctx.layout(op.operands[0].type)
    partial = Partial(layout, tuple(ctx.value(operand) for operand in op.operands))
    for step in steps.data:
        partial = _step(ctx, body, partial, axis, step)
    _finish(ctx, op, compressed(partial.layout, axis), partial, axis)


def _step(
    ctx: KernelLowering, body: CombineBody, partial: Partial, axis: int, step: Attribute
) -> Partial:
    """The partial results behind one step."""
    match step:
        case CombineAttr():
            for stride in step.strides.data:
                partial = _combine(ctx, body, partial, axis, step, stride)
            return partial
        case ReduxAttr():
            kind = step.word("kind")
            values = tuple(ctx.b.redux(kind, value) for value in partial.values)
            return Partial(with_copies(partial.layout, axis, ("lane",)), values)
        case FindAttr():
            return find_extremes(ctx, partial, axis, step.word("kind"))
        case RegroupAttr():
            left = compressed(partial.layout, axis)
            return Partial(left, partial.values).regrouped(ctx, step)
        case _:
            raise ctx.contradiction(f"has an unknown step, {step}")


def _combine(
    ctx: KernelLowering,
    body: CombineBody,
    partial: Partial,
    axis: int,
    step: CombineAttr,
    stride: int,
) -> Partial:
    """Combines the two halves of the axis that one register or lane bit tells apart."""
    bit = bit_of_stride(partial.layout, axis, step.of_unit, stride)
    if bit is None:
        raise ctx.contradiction(f"has no elements {stride} apart in {step.unit.data} at a step")
    if step.of_unit == "register":
        return _combine_register_bit(ctx, body, partial, bit)
    return _combine_lane_bit(ctx, body, partial, bit, in_order=bool(step.in_order.data))


def _combine_register_bit(
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
    ctx: KernelLowering, body: CombineBody, partial: Partial, bit: int, in_order: bool
) -> Partial:
    """Exchanges with the lane that differs in one bit; both lanes come to hold the result."""
    own = list(partial.values)
    other = [ctx.b.shfl("bfly", value, 1 << bit) for value in own]
    later, earlier = other, own
    if in_order:
        is_lower = ctx.threads.all_zero(1 << bit, 0)
        if is_lower is None:
            raise InternalError("a lane bit is no lane bit", where="lowering")
        pairs = list(zip(own, other, strict=True))
        later = [ctx.b.select(is_lower, theirs, mine) for mine, theirs in pairs]
        earlier = [ctx.b.select(is_lower, mine, theirs) for mine, theirs in pairs]
    layout = without_lane_bit(partial.layout, bit)
    return Partial(layout, tuple(body.apply(later, earlier)))


def _finish(
    ctx: KernelLowering, op: aa.ReduceOp, left: LinearLayout, partial: Partial, axis: int
) -> None:
    """Drops the axis: the results lie where their types say."""
    if left.shape[axis] != 1:
        raise ctx.contradiction(f"has {left.shape[axis]} partial results behind its steps")
    layout = left.slice(axis)
    for result, value in zip(op.results, partial.values, strict=True):
        if not isinstance(result.type, TensorType):
            ctx.values[result] = ctx.b.extract(value, 0)
            continue
        if ctx.layout(result.type) != layout:
            raise ctx.contradiction("gives its result in another layout than its steps lead to")
        ctx.values[result] = value


RULES: LoweringRules = {
    aa.ReduceOp: lower_reduce,
}
"""Reductions by class."""

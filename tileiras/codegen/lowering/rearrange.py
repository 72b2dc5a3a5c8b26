"""Slices and concatenations: elements change tiles, mostly without changing threads.

Some input bits of a layout tell the slices of a tile apart. Register bits are a choice of
registers; where lane or warp bits do, the threads that hold the slice write it to shared memory
and all read what they need. So no more than one slice is ever in shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Operation, SSAValue

from tileiras.codegen.llvmir.folding import constant_int
from tileiras.codegen.lowering.addressing import coordinates
from tileiras.codegen.lowering.context import KernelLowering, LoweringRules
from tileiras.codegen.lowering.convert_layout import convert_from
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.axis_bits import is_unit, without_register_bit
from tileiras.dialects.layout.parts import half_of, slice_axis, splitting_bit, within_slice
from tileiras.dialects.nv_tileas.ways import BY
from tileiras.errors import CompileError, InternalError

Shape = tuple[int, ...]


# extract


def lower_extract(ctx: KernelLowering, op: aa.ExtractOp) -> None:
    """One slice of a tile that is a grid of slices."""
    value, source = ctx.value(op.source), ctx.layout(op.source.type)
    wanted = ctx.layout(op.result.type)
    if not is_unit(source):
        raise _not_ready(ctx)
    numbers = [ctx.b.int_cast(ctx.value(index), i32, signed=False) for index in op.indices]
    value, layout = _choose_registers(ctx, value, source, wanted.shape, numbers)
    held = within_slice(layout, wanted.shape)
    holders = _holds_slice(ctx, layout, wanted.shape, numbers)
    if holders is None:
        if held != wanted:
            raise _not_ready(ctx)
        ctx.values[op.result] = value
        return
    first = ctx.owner(source)
    owner = holders if first is None else ctx.b.and_(first, holders)
    ctx.values[op.result] = convert_from(ctx, value, held, wanted, owner, op.attributes.get(BY))


def _not_ready(ctx: KernelLowering) -> CompileError:
    """The error for an operation whose threads do not hold what they need."""
    return ctx.contradiction(
        "has tiles in other layouts than it can take: tileas-materialize-convert-layout comes "
        "before"
    )


def _holds_slice(
    ctx: KernelLowering, layout: LinearLayout, shape: Shape, numbers: Sequence[SSAValue]
) -> SSAValue | None:
    """i1: whether this thread holds a part of the slice; None if every thread does."""
    b = ctx.b
    guard: SSAValue | None = None
    for axis, (size, number) in enumerate(zip(shape, numbers, strict=True)):
        lane = [vector[axis] // size for vector in layout.basis("lane")]
        warp = [vector[axis] // size for vector in layout.basis("warp")]
        mask = 0
        for moved in (*lane, *warp):
            mask |= moved
        if mask:
            mine = ctx.threads.linear(lane, warp)
            guard = ctx.both(guard, b.icmp("eq", mine, b.and_(number, b.i32(mask))))
    return guard


def _choose_registers(
    ctx: KernelLowering,
    value: SSAValue,
    layout: LinearLayout,
    shape: Shape,
    numbers: Sequence[SSAValue],
) -> tuple[SSAValue, LinearLayout]:
    """The registers that hold the slice in the threads that hold any of it, and their layout.

    Indices that are known choose at once, the others halve the registers bit by bit.
    """
    b = ctx.b
    for bit in reversed(range(layout.in_bits("register"))):
        axis = slice_axis(layout, bit, shape)
        if axis is None:
            continue
        count = layout.in_size("register")
        low = b.shuffle(value, None, [r for r in range(count) if not r >> bit & 1])
        high = b.shuffle(value, None, [r for r in range(count) if r >> bit & 1])
        place = layout.basis("register")[bit][axis] // shape[axis]
        known = constant_int(numbers[axis])
        if known is not None:
            value = high if known & place else low
        else:
            is_low = b.icmp("eq", b.and_(numbers[axis], b.i32(place)), b.i32(0))
            value = b.select(is_low, low, high)
        layout = without_register_bit(layout, bit)
    return value, layout


# insert


def lower_insert(ctx: KernelLowering, op: aa.InsertOp) -> None:
    """A tile with one slice replaced: threads choose per element between two tiles."""
    source, wanted = ctx.layout(op.source.type), ctx.layout(op.result.type)
    if ctx.layout(op.destination.type) != wanted or source != within_slice(wanted, source.shape):
        raise _not_ready(ctx)
    old, new = ctx.value(op.destination), ctx.value(op.source)
    inside: SSAValue | None = None
    for axis, size in enumerate(source.shape):
        if size != wanted.shape[axis]:
            index = ctx.b.int_cast(ctx.value(op.indices[axis]), i32, signed=False)
            inside = ctx.both(inside, _is_in_slice(ctx, wanted, axis, size, index))
    ctx.values[op.result] = new if inside is None else ctx.b.select(inside, new, old)


def _is_in_slice(
    ctx: KernelLowering, layout: LinearLayout, axis: int, size: int, index: SSAValue
) -> SSAValue:
    """For each register, whether it is in slice number `index` along an axis."""
    b, count = ctx.b, layout.in_size("register")
    shift = b.splat(b.i32(size.bit_length() - 1), count)
    number = b.lshr(coordinates(ctx, layout, axis), shift)
    return b.icmp("eq", number, b.splat(index, count))


# cat


def lower_cat(ctx: KernelLowering, op: Operation) -> None:
    """Two tiles of one shape behind each other: one register bit tells them apart."""
    if not isinstance(op, aa.CatOp) or not isinstance(op.dim, IntegerAttr):
        raise InternalError("the rule of cat got another operation")
    axis = op.dim.value.data
    left, right = ctx.layout(op.lhs.type), ctx.layout(op.rhs.type)
    wanted = ctx.layout(op.result.type)
    bit = splitting_bit(wanted, axis)
    if bit is None or not left == right == half_of(wanted, axis, bit):
        raise _not_ready(ctx)
    count = left.in_size("register")
    low = (1 << bit) - 1
    order = [
        (r & low) | (r >> bit + 1 << bit) | (count if r >> bit & 1 else 0) for r in range(2 * count)
    ]
    ctx.values[op.result] = ctx.b.shuffle(ctx.value(op.lhs), ctx.value(op.rhs), order)


RULES: LoweringRules = {
    aa.ExtractOp: lower_extract,
    aa.InsertOp: lower_insert,
    aa.CatOp: lower_cat,
}
"""Slices and concatenations by class."""

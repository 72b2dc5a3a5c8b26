"""The extreme number of each row of a thread's registers, and the first place that has it.

A body that chooses between two numbers with their places compares twice for each element, or more
with NaNs. Here an element costs a part of the extreme, one comparison with it, and one choice:

    %m = max(max(%0, %1), max(%2, %3))
    %p = 3;  %p = %2 == %m ? 2 : %p;  %p = %1 == %m ? 1 : %p;  %p = %0 == %m ? 0 : %p

Of NaNs alone no element is equal: the place is the first one, as the body has it.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.partial_results import Partial
from tileiras.dialects.layout.axis_bits import AxisBit, axis_bits, without_register_bit
from tileiras.dialects.llvm.types import lanes_of

CHAIN = 16
"""Policy: choices one after the other; the next ones begin when their elements are there."""


def find_extremes(ctx: KernelLowering, partial: Partial, axis: int, kind: str) -> Partial:
    """The partial results of all registers along the axis: numbers, and places that count up."""
    layout, (numbers, places) = partial.layout, partial.values
    bits = [bit for bit in axis_bits(layout, axis) if bit.unit == "register"]
    moving = sum(1 << bit.bit for bit in bits)
    kept = [r for r in range(layout.in_size("register")) if not r & moving]
    parts = [_Part(bits, number) for number in range(1 << len(bits))]
    chains = [
        _in_chain(ctx.b, numbers, kept, parts[start : start + CHAIN], kind)
        for start in range(0, len(parts), CHAIN)
    ]
    extremes = ctx.b.concat([extreme for extreme, _ in chains])
    extreme = _reduced(ctx.b, extremes, len(kept), kind)
    offset = chains[0][1]
    if chains[1:]:
        for found, place in reversed(chains):
            offset = ctx.b.select(_is_equal(ctx.b, found, extreme, kind), place, offset)
    for bit in sorted(bits, key=lambda bit: -bit.bit):
        layout = without_register_bit(layout, bit.bit)
    first = ctx.b.shuffle(places, None, kept)
    return Partial(layout, (extreme, ctx.b.add(first, offset)))


class _Part:
    """The registers with one coordinate along the axis: what is set in their number."""

    def __init__(self, bits: Sequence[AxisBit], number: int):
        chosen = [bit for rank, bit in enumerate(bits) if number >> rank & 1]
        self.set = sum(1 << bit.bit for bit in chosen)
        self.offset = sum(1 << bit.position for bit in chosen)


def _in_chain(
    b: ThreadBuilder, numbers: SSAValue, kept: Sequence[int], parts: Sequence[_Part], kind: str
) -> tuple[SSAValue, SSAValue]:
    """The extremes of a few parts, and how far from the first place they are."""
    elements = b.shuffle(numbers, None, [r | part.set for part in parts for r in kept])
    extreme = _reduced(b, elements, len(kept), kind)
    repeated = b.shuffle(extreme, None, [*range(len(kept))] * len(parts))
    is_equal = _is_equal(b, elements, repeated, kind)
    offset = _offsets(b, parts[0].offset, len(kept))
    for number, part in reversed(list(enumerate(parts))):
        here = b.slice(is_equal, number * len(kept), len(kept))
        offset = b.select(here, _offsets(b, part.offset, len(kept)), offset)
    return extreme, offset


def _offsets(b: ThreadBuilder, offset: int, count: int) -> SSAValue:
    return b.splat(b.i32(offset), count)


def _reduced(b: ThreadBuilder, values: SSAValue, count: int, kind: str) -> SSAValue:
    """The extremes of lanes that are `count` apart, in halves."""
    lanes = lanes_of(values.type) or 1
    while lanes > count:
        lanes //= 2
        halves = b.slice(values, 0, lanes), b.slice(values, lanes, lanes)
        values = b.unary_intrinsic(f"llvm.{kind}", *halves)
    return values


def _is_equal(b: ThreadBuilder, lhs: SSAValue, rhs: SSAValue, kind: str) -> SSAValue:
    return b.fcmp("oeq", lhs, rhs) if kind.endswith("num") else b.icmp("eq", lhs, rhs)

"""The extreme number of each row of a thread's registers, and the first place that has it.

A body that chooses between two numbers with their places compares twice for each element, or more
with NaNs. Here an element costs a part of the extreme, one comparison with what it was before, and
one choice. Lanes of a vector have extremes of their own, so that each element is read once:

    %m1 = max(%m0, %x1);  %p = %m1 != %m0 ? 1 : 0;  %m2 = max(%m1, %x2);  %p = %m2 != %m1 ? 2 : %p

Of lanes whose extreme is that of all the one with the least place has it. Of NaNs alone none is
equal: the place is the first one, as the body has it.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.partial_results import Partial
from tileiras.dialects.layout.axis_bits import AxisBit, axis_bits, without_register_bit
from tileiras.dialects.llvm.types import lanes_of

import os
LANES = int(os.environ.get('X_LANES','8'))
"""Policy: elements side by side, whose comparisons do not wait for each other."""


def find_extremes(ctx: KernelLowering, partial: Partial, axis: int, kind: str) -> Partial:
    """The partial results of all registers along the axis: numbers, and places that count up."""
    layout, (numbers, places) = partial.layout, partial.values
    bits = [bit for bit in axis_bits(layout, axis) if bit.unit == "register"]
    moving = sum(1 << bit.bit for bit in bits)
    kept = [r for r in range(layout.in_size("register")) if not r & moving]
    from tileiras.dialects.llvm.types import bit_width, scalar_of
    if len(kept) > 1 or (len(_parts(bits)) <= int(os.environ.get('X_WIDE','0')) and bit_width(scalar_of(numbers.type))>=32):
        extreme, offset = _by_chains(ctx.b, numbers, kept, _parts(bits), kind)
        for bit in sorted(bits, key=lambda bit: -bit.bit):
            layout = without_register_bit(layout, bit.bit)
        first = ctx.b.shuffle(places, None, kept)
        return Partial(layout, (extreme, ctx.b.add(first, offset)))
    beside = _beside(bits, len(kept))
    lanes = _parts(beside)
    steps = _parts([bit for bit in bits if bit not in beside])
    registers = [r | part.set for part in lanes for r in kept]
    natural = sorted(registers)
    best, offset = _in_steps(ctx.b, numbers, natural, steps, kind)
    order = [natural.index(register) for register in registers]
    best, offset = (ctx.b.shuffle(value, None, order) for value in (best, offset))
    extreme, offset = _of_all(ctx.b, best, offset, lanes, kind)
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


def _parts(bits: Sequence[AxisBit]) -> list[_Part]:
    """All that some bits tell apart, lower coordinates first."""
    return [_Part(bits, number) for number in range(1 << len(bits))]


def _beside(bits: Sequence[AxisBit], rows: int) -> list[AxisBit]:
    """The bits of the lowest registers, as many as make `LANES` of so many rows."""
    by_register = sorted(bits, key=lambda bit: bit.bit)
    count = 0
    while count < len(bits) and rows << count < LANES:
        count += 1
    return [bit for bit in bits if bit in by_register[:count]]


def _in_steps(
    b: ThreadBuilder,
    numbers: SSAValue,
    registers: Sequence[int],
    steps: Sequence[_Part],
    kind: str,
) -> tuple[SSAValue, SSAValue]:
    """The extreme of each lane, and the offset of the first step that has it; any of NaNs alone."""
    best = b.shuffle(numbers, None, list(registers))
    offset = _splat(b, 0, len(registers))
    for part in steps[1:]:
        elements = b.shuffle(numbers, None, [r | part.set for r in registers])
        new = b.unary_intrinsic(f"llvm.{kind}", best, elements)
        here = _splat(b, part.offset, len(registers))
        offset = b.select(_differs(b, new, best, kind), here, offset)
        best = new
    return best, offset


def _of_all(
    b: ThreadBuilder, best: SSAValue, offset: SSAValue, lanes: Sequence[_Part], kind: str
) -> tuple[SSAValue, SSAValue]:
    """The extremes of all lanes of a row, and how far the first place that has it is."""
    count = (lanes_of(best.type) or 1) // len(lanes)
    extreme = _reduced(b, best, count, f"llvm.{kind}")
    if len(lanes) > 1:
        repeated = b.shuffle(extreme, None, [*range(count)] * len(lanes))
        apart = b.concat([_splat(b, part.offset, count) for part in lanes])
        far = _splat(b, -1, count * len(lanes))
        offset = b.select(_is_equal(b, best, repeated, kind), b.add(offset, apart), far)
        offset = _reduced(b, offset, count, "llvm.umin")
    if kind.endswith("num"):
        is_number = _is_equal(b, extreme, extreme, kind)
        offset = b.select(is_number, offset, _splat(b, 0, count))
    return extreme, offset


def _by_chains(b, numbers, kept, parts, kind):
    CHAIN = 16
    chains = [
        _in_chain(b, numbers, kept, parts[start : start + CHAIN], kind)
        for start in range(0, len(parts), CHAIN)
    ]
    extremes = b.concat([extreme for extreme, _ in chains])
    extreme = _reduced(b, extremes, len(kept), f"llvm.{kind}")
    offset = chains[0][1]
    if chains[1:]:
        for found, place in reversed(chains):
            offset = b.select(_is_equal(b, found, extreme, kind), place, offset)
    return extreme, offset


def _in_chain(
    b: ThreadBuilder, numbers: SSAValue, kept: Sequence[int], parts: Sequence[_Part], kind: str
) -> tuple[SSAValue, SSAValue]:
    """The extremes of a few parts, and how far from the first place they are."""
    elements = b.shuffle(numbers, None, [r | part.set for part in parts for r in kept])
    extreme = _reduced(b, elements, len(kept), f"llvm.{kind}")
    repeated = b.shuffle(extreme, None, [*range(len(kept))] * len(parts))
    is_equal = _is_equal(b, elements, repeated, kind)
    offset = _splat(b, parts[0].offset, len(kept))
    for number, part in reversed(list(enumerate(parts))):
        here = b.slice(is_equal, number * len(kept), len(kept))
        offset = b.select(here, _splat(b, part.offset, len(kept)), offset)
    return extreme, offset


def _splat(b: ThreadBuilder, offset: int, count: int) -> SSAValue:
    return b.splat(b.i32(offset), count)


def _reduced(b: ThreadBuilder, values: SSAValue, count: int, name: str) -> SSAValue:
    """What a function makes of lanes that are `count` apart, in halves."""
    lanes = lanes_of(values.type) or 1
    while lanes > count:
        lanes //= 2
        halves = b.slice(values, 0, lanes), b.slice(values, lanes, lanes)
        values = b.unary_intrinsic(name, *halves)
    return values


def _is_equal(b: ThreadBuilder, lhs: SSAValue, rhs: SSAValue, kind: str) -> SSAValue:
    return b.fcmp("oeq", lhs, rhs) if kind.endswith("num") else b.icmp("eq", lhs, rhs)


def _differs(b: ThreadBuilder, lhs: SSAValue, rhs: SSAValue, kind: str) -> SSAValue:
    return b.fcmp("une", lhs, rhs) if kind.endswith("num") else b.icmp("ne", lhs, rhs)

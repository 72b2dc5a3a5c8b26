"""The extreme number of each row of a thread's registers, and the first place that has it.

A body that chooses between two numbers with their places compares twice for each element, or more
with NaNs. Here an element costs a part of the extreme, one comparison and one choice. Either all
elements are there, and the first one that has their extreme is looked for:

    %m = max(max(%0, %1), max(%2, %3))
    %p = 3;  %p = %2 == %m ? 2 : %p;  %p = %1 == %m ? 1 : %p;  %p = %0 == %m ? 0 : %p

or lanes of a vector have extremes of their own, and each element is read once:

    %m1 = max(%m0, %x1);  %p = %m1 != %m0 ? 1 : 0;  %m2 = max(%m1, %x2);  %p = %m2 != %m1 ? 2 : %p

Of lanes whose extreme is that of all the one with the least place has it. Of NaNs alone no element
is equal: the place is the first one, as the body has it.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.partial_results import Partial
from tileiras.dialects.layout.axis_bits import AxisBit, axis_bits, without_register_bit
from tileiras.dialects.llvm.types import bit_width, lanes_of, scalar_of

WORD_BITS = 32
"""Fixed: of a register."""
CHAIN = 16
"""Policy: choices one after the other; the next ones begin when their elements are there."""
FEW_WORDS = 64
"""Policy: elements of 32 bits or more of one row that are there at once; of 16 bits, and of more,
ptxas keeps comparisons instead of elements, and loads wait for them. argmax of 8192x8192, us on one
H200, all at once and each read once: f32 1x8192 (64 elements) 62.0 and 64.5, 2x8192 62.2 and 64.0,
4x8192 (128) 70.2 and 64.2; f16 2x8192 (64) 38.6 and 34.4, 4x8192 (128) 39.1 and 33.4 (decision
0085). Where a thread has several rows, as of columns, loads would wait: whole columns of 2048x16
f32 89 and 103.
"""
LANES = 8
"""Policy: elements side by side, whose comparisons do not wait for each other. With 16 and 32
instead: f16 4x8192 33.4, 38.1 and 34.6; f32 64.2, 66.3 and 66.3.
"""


def find_extremes(ctx: KernelLowering, partial: Partial, axis: int, kind: str) -> Partial:
    """The partial results of all registers along the axis: numbers, and places that count up."""
    layout, (numbers, places) = partial.layout, partial.values
    bits = [bit for bit in axis_bits(layout, axis) if bit.unit == "register"]
    moving = sum(1 << bit.bit for bit in bits)
    kept = [r for r in range(layout.in_size("register")) if not r & moving]
    is_wide = bit_width(scalar_of(numbers.type)) >= WORD_BITS
    if len(kept) > 1 or (is_wide and 1 << len(bits) <= FEW_WORDS):
        extreme, offset = _by_chains(ctx.b, numbers, kept, _parts(bits), kind)
    else:
        extreme, offset = _one_by_one(ctx.b, numbers, bits, kind)
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


def _by_chains(
    b: ThreadBuilder, numbers: SSAValue, kept: Sequence[int], parts: Sequence[_Part], kind: str
) -> tuple[SSAValue, SSAValue]:
    """The extremes of all parts, and how far from the first place they are."""
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


def _one_by_one(
    b: ThreadBuilder, numbers: SSAValue, bits: Sequence[AxisBit], kind: str
) -> tuple[SSAValue, SSAValue]:
    """The extreme of one row, and how far from the first place it is; each element is read once."""
    lowest = sorted(bits, key=lambda bit: bit.bit)[: LANES.bit_length() - 1]
    lanes = sorted(_parts([bit for bit in bits if bit in lowest]), key=lambda part: part.set)
    best = b.shuffle(numbers, None, [lane.set for lane in lanes])
    offset = _splat(b, 0, len(lanes))
    for part in _parts([bit for bit in bits if bit not in lowest])[1:]:
        elements = b.shuffle(numbers, None, [lane.set | part.set for lane in lanes])
        new = b.unary_intrinsic(f"llvm.{kind}", best, elements)
        here = _splat(b, part.offset, len(lanes))
        offset = b.select(_differs(b, new, best, kind), here, offset)
        best = new
    return _of_lanes(b, best, offset, lanes, kind)


def _of_lanes(
    b: ThreadBuilder, best: SSAValue, offset: SSAValue, lanes: Sequence[_Part], kind: str
) -> tuple[SSAValue, SSAValue]:
    """The extreme of all lanes, and the least place that has it; the first one of NaNs alone."""
    extreme = _reduced(b, best, 1, f"llvm.{kind}")
    everywhere = b.shuffle(extreme, None, [0] * len(lanes))
    apart = b.concat([_splat(b, lane.offset, 1) for lane in lanes])
    far = _splat(b, -1, len(lanes))
    found = b.select(_is_equal(b, best, everywhere, kind), b.add(offset, apart), far)
    found = _reduced(b, found, 1, "llvm.umin")
    if kind.endswith("num"):
        found = b.select(_is_equal(b, extreme, extreme, kind), found, _splat(b, 0, 1))
    return extreme, found


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

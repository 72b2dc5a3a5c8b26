"""Which tile block a CTA computes, where that is not the one of its own number."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tileiras.codegen.llvmir.builder import ThreadBuilder

_AXES = ("x", "y", "z")


def longest_tile_first_blocks(b: ThreadBuilder, order: Sequence[int]) -> tuple[SSAValue, ...]:
    """The tile block of this CTA along all axes (`AgentSwitchOp.longest_tile_first`)."""
    numbers = [b.sreg(f"ctaid.{axis}") for axis in _AXES]
    return longest_tile_first_block(b, numbers, grid_counts(b), order)


def grid_counts(b: ThreadBuilder) -> list[SSAValue]:
    """CTAs along all axes of the grid, read where they are needed."""
    return [b.sreg(f"nctaid.{axis}") for axis in _AXES]


def longest_tile_first_block(
    b: ThreadBuilder, numbers: Sequence[SSAValue], counts: Sequence[SSAValue], order: Sequence[int]
) -> tuple[SSAValue, ...]:
    """The tile block of the CTA with these numbers along x, y, z of a grid of `counts`.

    CTAs start with x running fastest. In that order groups of blocks along the other two axes
    follow each other; in a group the index along the axis runs slowest, from the long blocks on.
    """
    axis, is_rising, group = order
    inner, outer = (other for other in range(3) if other != axis)
    length = counts[axis]
    others = b.mul(counts[inner], counts[outer])
    if axis == 0:
        column = b.add(numbers[1], b.mul(counts[1], numbers[2]))
        first = b.and_(column, b.i32(-group))
        place = b.add(numbers[0], b.mul(length, b.sub(column, first)))
    else:
        started = b.add(numbers[1], b.mul(counts[1], numbers[2]))
        started = b.add(numbers[0], b.mul(counts[0], started))
        whole = b.mul(length, b.i32(group))
        number = b.udiv(started, whole)
        first = b.mul(number, b.i32(group))
        place = b.sub(started, b.mul(number, whole))
    left = b.sub(others, first)
    members = b.select(b.icmp("ult", left, b.i32(group)), left, b.i32(group))
    row = b.udiv(place, members)
    column = b.add(first, b.sub(place, b.mul(row, members)))
    outermost = b.udiv(column, counts[inner])
    found = {
        axis: b.sub(b.sub(length, b.i32(1)), row) if is_rising else row,
        inner: b.sub(column, b.mul(outermost, counts[inner])),
        outer: outermost,
    }
    return tuple(found[number] for number in range(3))

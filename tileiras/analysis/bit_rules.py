"""Facts about the results of shifts, bitwise operations and changes of integer width."""

from __future__ import annotations

from collections.abc import Callable
from operator import and_, or_, xor

from tileiras.analysis.integer_rules import may_wrap
from tileiras.analysis.lattice import (
    Axis,
    ValueFacts,
    constant_facts,
    divisor_of,
    largest_divisor,
    make_facts,
    wrap_bounds,
)
from tileiras.analysis.typed_facts import (
    common_constancy,
    elementwise,
    signed_range,
    unsigned_range,
)
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import Signedness


def shift_left(op: ct.ShLIOp, left: ValueFacts, right: ValueFacts) -> ValueFacts:
    """`left << right`: a multiplication by a power of two, when the amount is known."""
    amount = right.constant
    if amount == 0:
        return left
    low, high = unsigned_range(right)
    divisor = left.element_divisor << low if high < left.width else 1
    bounds: tuple[int | None, int | None] = (None, None)
    if amount is not None and 0 <= amount < left.width:
        low, high = left.range()
        bounds = wrap_bounds(low << amount, high << amount, left.width, may_wrap(op.overflow, left))
    return elementwise(left, right, element_divisor=divisor, bounds=bounds)


def shift_right(op: ct.ShRIOp, left: ValueFacts, right: ValueFacts) -> ValueFacts:
    """`left >> right`: a division that rounds down, when the amount is known."""
    amount = right.constant
    if amount == 0:
        return left
    signed = op.signedness.data is Signedness.SIGNED
    low, high = left.range() if signed else unsigned_range(left)
    if amount is None or not 0 < amount < left.width:
        return elementwise(left, right, bounds=(0, high) if left.range()[0] >= 0 else (None, None))
    constancy = tuple(
        max(both, min(left.aligned_run(dim), 1 << amount))
        for dim, both in enumerate(common_constancy(left, right))
    )
    return elementwise(
        left,
        right,
        element_divisor=max(1, left.element_divisor >> amount),
        bounds=wrap_bounds(low >> amount, high >> amount, left.width),
        constancy=constancy,
    )


def bitwise(
    op: ct.AndIOp | ct.OrIOp | ct.XOrIOp, left: ValueFacts, right: ValueFacts
) -> ValueFacts:
    """`left & right`, `left | right`, `left ^ right`.

    Where one side runs in aligned runs and the other is constant with zeros in the bits that
    run, the result is constant (and) or contiguous (or, xor).
    """
    is_and = isinstance(op, ct.AndIOp)
    function: Callable[[int, int], int] = (
        and_ if is_and else or_ if isinstance(op, ct.OrIOp) else xor
    )
    folded = _fold(function, left, right)
    if folded is not None:
        return folded
    pick = max if is_and else min
    axes: list[Axis] = []
    for dim, both in enumerate(common_constancy(left, right)):
        steady = max(_clear_run(left, right, dim), _clear_run(right, left, dim))
        run = _copied_run(left, right, dim) if is_and else steady
        divisor = pick(left.run_divisor(dim, run), right.run_divisor(dim, run))
        constancy = max(both, steady) if is_and else both
        axes.append((run, divisor, 1 if run > 1 else constancy))
    element = pick(left.element_divisor, right.element_divisor)
    bounds = _bitwise_bounds(op, left, right)
    return make_facts(left.shape, left.width, axes, element_divisor=element, bounds=bounds)


def _fold(
    function: Callable[[int, int], int], left: ValueFacts, right: ValueFacts
) -> ValueFacts | None:
    """The result where one side is a constant that decides it: 0, all ones, or both constant."""
    if left.constant is not None and right.constant is not None:
        return constant_facts(left.shape, left.width, function(left.constant, right.constant))
    ones = 1 if left.width == 1 else -1
    for value, other in ((left.constant, right), (right.constant, left)):
        if value not in (0, ones) or value is None:
            continue
        if function is and_:
            return constant_facts(other.shape, other.width, 0) if value == 0 else other
        if function is or_ and value == ones:
            return constant_facts(other.shape, other.width, ones)
        if value == 0:
            return other
    return None


def _clear_run(runner: ValueFacts, fixed: ValueFacts, dim: int) -> int:
    """Runs of `runner` in which only bits change that are zero in the constant `fixed`."""
    return min(runner.aligned_run(dim), fixed.constancy[dim], fixed.run_divisor(dim, 1))


def _copied_run(left: ValueFacts, right: ValueFacts, dim: int) -> int:
    """Runs of one side that a constant mask with all the low bits set leaves contiguous."""
    runs = [
        min(runner.aligned_run(dim), divisor_of(fixed.constant + 1, fixed.width))
        for runner, fixed in ((left, right), (right, left))
        if fixed.constant is not None
    ]
    return max(runs, default=1)


def _bitwise_bounds(
    op: ct.AndIOp | ct.OrIOp | ct.XOrIOp, left: ValueFacts, right: ValueFacts
) -> tuple[int | None, int | None]:
    """Bounds where at least one side (and) or both sides (or, xor) are not negative."""
    if left.width == 1:
        return None, None
    (low_l, high_l), (low_r, high_r) = left.range(), right.range()
    if isinstance(op, ct.AndIOp):
        highs = [high for low, high in ((low_l, high_l), (low_r, high_r)) if low >= 0]
        return (0, min(highs)) if highs else (None, None)
    if low_l < 0 or low_r < 0:
        return None, None
    most = (1 << max(high_l, high_r).bit_length()) - 1
    return (max(low_l, low_r) if isinstance(op, ct.OrIOp) else 0), most


def extend(source: ValueFacts, width: int, signed: bool) -> ValueFacts:
    """The same numbers in more bits: runs must not cross the place where the old width wraps."""
    read = signed_range if signed else unsigned_range
    low, high = read(source)
    half = 1 << (source.width - 1)
    limit = half if signed else 1 << source.width
    # a run that wraps holds both the largest and the smallest value
    may_cross = low == (-half if signed else 0) and high == limit - 1
    axes: list[Axis] = []
    for dim in range(source.rank):
        run = source.contiguity[dim]
        if may_cross:
            run = min(source.aligned_run(dim), limit)
        axes.append((run, source.run_divisor(dim, run), source.constancy[dim]))
    return make_facts(
        source.shape,
        width,
        axes,
        element_divisor=source.element_divisor,
        bounds=wrap_bounds(low, high, width),
    )


def truncate(source: ValueFacts, width: int, wraps: bool = True) -> ValueFacts:
    """The low bits: runs stay runs modulo the new width, divisors beyond it are lost."""
    cap = largest_divisor(width)
    axes = [
        (source.contiguity[dim], min(cap, source.divisibility[dim]), source.constancy[dim])
        for dim in range(source.rank)
    ]
    low, high = source.range()
    if width == 1:
        wraps = True
    bounds = wrap_bounds(low, high, width, wraps)
    element = min(cap, source.element_divisor)
    return make_facts(source.shape, width, axes, element_divisor=element, bounds=bounds)


def resize(source: ValueFacts, width: int, signed: bool) -> ValueFacts:
    """`source` as an integer of another width whose value fits where it matters."""
    if width == source.width:
        return source
    if width > source.width:
        return extend(source, width, signed)
    return truncate(source, width)


__all__ = [
    "bitwise",
    "extend",
    "resize",
    "shift_left",
    "shift_right",
    "truncate",
]

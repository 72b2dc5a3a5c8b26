"""Facts about the results of integer arithmetic, comparison and selection.

The recurring argument: in an aligned run (its first element a multiple of its length, a power of
two) only the low bits change, so no wraparound, division boundary or comparison with an equally
aligned number can fall inside it.
"""

from __future__ import annotations

from tileiras.analysis.lattice import (
    Axis,
    ValueFacts,
    constant_facts,
    divisor_of,
    hull,
    join_axis,
    make_facts,
    type_range,
    wrap_bounds,
)
from tileiras.analysis.typed_facts import (
    common_constancy,
    elementwise,
    signed_range,
    unsigned_range,
)
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    IntegerOverflow,
    IntegerOverflowAttr,
    RoundingMode,
    Signedness,
)

NO_SIGNED_WRAP = (IntegerOverflow.NO_SIGNED_WRAP, IntegerOverflow.NO_WRAP)
ORDER = {
    ComparisonPredicate.LESS_THAN: ComparisonPredicate.GREATER_THAN,
    ComparisonPredicate.LESS_THAN_OR_EQUAL: ComparisonPredicate.GREATER_THAN_OR_EQUAL,
    ComparisonPredicate.GREATER_THAN: ComparisonPredicate.LESS_THAN,
    ComparisonPredicate.GREATER_THAN_OR_EQUAL: ComparisonPredicate.LESS_THAN_OR_EQUAL,
}
"""The order relations, each with the one that holds when the operands change places."""


def may_wrap(overflow: IntegerOverflowAttr, facts: ValueFacts) -> bool:
    """Whether a signed result may wrap around; for i1 nothing is concluded from promises."""
    return facts.width == 1 or overflow.data not in NO_SIGNED_WRAP


def add(op: ct.AddIOp, left: ValueFacts, right: ValueFacts) -> ValueFacts:
    """`left + right`: a contiguous run plus a constant run is contiguous."""
    axes: list[Axis] = []
    for dim in range(left.rank):
        run = max(
            min(left.contiguity[dim], right.constancy[dim]),
            min(left.constancy[dim], right.contiguity[dim]),
        )
        axes.append(join_axis(left, right, dim, run))
    (low_l, high_l), (low_r, high_r) = left.range(), right.range()
    bounds = wrap_bounds(low_l + low_r, high_l + high_r, left.width, may_wrap(op.overflow, left))
    element = min(left.element_divisor, right.element_divisor)
    return make_facts(left.shape, left.width, axes, element_divisor=element, bounds=bounds)


def subtract(op: ct.SubIOp | ct.NegIOp, left: ValueFacts, right: ValueFacts) -> ValueFacts:
    """`left - right`: a contiguous run minus a constant run is contiguous."""
    axes = [
        join_axis(left, right, dim, min(left.contiguity[dim], right.constancy[dim]))
        for dim in range(left.rank)
    ]
    (low_l, high_l), (low_r, high_r) = left.range(), right.range()
    bounds = wrap_bounds(low_l - high_r, high_l - low_r, left.width, may_wrap(op.overflow, left))
    element = min(left.element_divisor, right.element_divisor)
    return make_facts(left.shape, left.width, axes, element_divisor=element, bounds=bounds)


def negate(op: ct.NegIOp, source: ValueFacts) -> ValueFacts:
    """`0 - source`."""
    return subtract(op, constant_facts(source.shape, source.width, 0), source)


def absolute(op: ct.AbsIOp, source: ValueFacts) -> ValueFacts:
    """`|source|`: keeps divisors; the smallest number stays itself."""
    low, high = source.range()
    if low >= 0 and source.width > 1:
        return source
    bounds: tuple[int | None, int | None] = (None, None)
    if source.width > 1 and low > type_range(source.width)[0]:
        bounds = 0, max(-low, high)
    return elementwise(source, source, element_divisor=source.element_divisor, bounds=bounds)


def multiply(op: ct.MulIOp, left: ValueFacts, right: ValueFacts) -> ValueFacts:
    """`left * right`: divisors multiply, also modulo a power of two."""
    if right.constant == 1:
        return left
    if left.constant == 1:
        return right
    (low_l, high_l), (low_r, high_r) = left.range(), right.range()
    corners = (low_l * low_r, low_l * high_r, high_l * low_r, high_l * high_r)
    bounds = wrap_bounds(min(corners), max(corners), left.width, may_wrap(op.overflow, left))
    divisor = left.element_divisor * right.element_divisor
    return elementwise(left, right, element_divisor=divisor, bounds=bounds)


def multiply_high(op: ct.MulhiIOp, left: ValueFacts, right: ValueFacts) -> ValueFacts:
    """The upper half of the product."""
    return elementwise(left, right)


def divide(op: ct.DivIOp, left: ValueFacts, right: ValueFacts) -> ValueFacts:
    """`left / right`: aligned runs that the divisor's alignment covers give one quotient."""
    if right.constant == 1 and right.width > 1:
        return left
    signed = op.signedness.data is Signedness.SIGNED
    rounding = op.rounding.data
    constancy = common_constancy(left, right)
    low, divisor_low = left.range()[0], right.range()[0]
    rounds_down = not signed or low >= 0 or rounding is RoundingMode.NEGATIVE_INF
    if (
        rounding is not RoundingMode.POSITIVE_INF
        and rounds_down
        and (not signed or divisor_low >= 0)
    ):
        runs = [_steady_run(left, right, dim, signed) for dim in range(left.rank)]
        constancy = tuple(map(max, constancy, runs))
    divisor = 1
    power = right.constant
    if power is not None and power > 0 and left.element_divisor % power == 0:
        divisor = left.element_divisor // power
    bounds = _quotient_bounds(left, right, signed, rounding) if left.width > 1 else (None, None)
    return elementwise(left, right, element_divisor=divisor, bounds=bounds, constancy=constancy)


def _quotient_bounds(
    left: ValueFacts, right: ValueFacts, signed: bool, rounding: RoundingMode
) -> tuple[int | None, int | None]:
    """Bounds of a quotient, for divisors that cannot be negative (zero is undefined)."""
    read = signed_range if signed else unsigned_range
    (low, high), (divisor_low, divisor_high) = read(left), read(right)
    divisor_low = max(divisor_low, 1) if divisor_low >= 0 else divisor_low
    if not 1 <= divisor_low <= divisor_high:
        return None, None
    corners = [
        _divide_exactly(value, by, rounding)
        for value in (low, high)
        for by in (divisor_low, divisor_high)
    ]
    return wrap_bounds(min(corners), max(corners), left.width)


def _divide_exactly(value: int, by: int, rounding: RoundingMode) -> int:
    """A quotient by a positive number, rounded as `divi` does."""
    match rounding:
        case RoundingMode.NEGATIVE_INF:
            return value // by
        case RoundingMode.POSITIVE_INF:
            return -(-value // by)
        case _:
            return value // by if value >= 0 else -(-value // by)


def _steady_run(left: ValueFacts, right: ValueFacts, dim: int, signed: bool) -> int:
    """Length of runs of `left` that no multiple of `right` splits, with `right` constant there."""
    return min(
        left.aligned_run(dim),
        right.constancy[dim],
        right.run_divisor(dim, 1),
        1 << (left.width - 1 if signed else left.width),
    )


def remainder(op: ct.RemIOp, left: ValueFacts, right: ValueFacts) -> ValueFacts:
    """`left % right`: aligned runs stay contiguous; a common divisor divides the remainder."""
    signed = op.signedness.data is Signedness.SIGNED
    read = signed_range if signed else unsigned_range
    (low, high), (by_low, by_high) = read(left), read(right)
    if low >= 0 and high < by_low:
        return left
    axes: list[Axis] = []
    constancy = common_constancy(left, right)
    for dim in range(left.rank):
        run = _steady_run(left, right, dim, signed) if low >= 0 else 1
        divisor = min(left.run_divisor(dim, run), right.run_divisor(dim, 1))
        axes.append((run, divisor, constancy[dim] if run == 1 else 1))
    most = max(abs(by_low), abs(by_high), 1) - 1
    bounds: tuple[int | None, int | None] = (None, None)
    if left.width > 1:
        bounds = wrap_bounds(
            0 if low >= 0 else max(-most, low), min(most, high) if high >= 0 else 0, left.width
        )
    element = min(left.element_divisor, right.element_divisor)
    return make_facts(left.shape, left.width, axes, element_divisor=element, bounds=bounds)


def minimum(op: ct.MinIOp | ct.MaxIOp, left: ValueFacts, right: ValueFacts) -> ValueFacts:
    """`min(left, right)` or `max(left, right)`."""
    element = min(left.element_divisor, right.element_divisor)
    (low_l, high_l), (low_r, high_r) = left.range(), right.range()
    same_reading = op.signedness.data is Signedness.SIGNED or (low_l >= 0 and low_r >= 0)
    if left.width == 1 or not same_reading:
        return elementwise(left, right, element_divisor=element)
    pick = min if isinstance(op, ct.MinIOp) else max
    if high_l <= low_r:
        return left if pick is min else right
    if high_r <= low_l:
        return right if pick is min else left
    bounds = pick(low_l, low_r), pick(high_l, high_r)
    return elementwise(left, right, element_divisor=element, bounds=bounds)


def compare(op: ct.CmpIOp, left: ValueFacts, right: ValueFacts) -> ValueFacts:
    """A comparison: an aligned run lies on one side of an equally aligned number."""
    signed = op.signedness.data is Signedness.SIGNED
    predicate = op.comparison_predicate.data
    known = _decide(predicate, left, right, signed)
    if known is not None:
        return constant_facts(left.shape, 1, int(known))
    constancy = common_constancy(left, right)
    if predicate in ORDER:
        runs = [_one_sided_run(predicate, left, right, dim, signed) for dim in range(left.rank)]
        constancy = tuple(map(max, constancy, runs))
    return elementwise(left, right, width=1, constancy=constancy)


def _decide(
    predicate: ComparisonPredicate, left: ValueFacts, right: ValueFacts, signed: bool
) -> bool | None:
    """The answer that the bounds alone give, if they give one."""
    read = signed_range if signed else unsigned_range
    (low_l, high_l), (low_r, high_r) = read(left), read(right)
    match predicate:
        case ComparisonPredicate.EQUAL | ComparisonPredicate.NOT_EQUAL:
            equal = predicate is ComparisonPredicate.EQUAL
            if high_l < low_r or high_r < low_l:
                return not equal
            return equal if low_l == high_l == low_r == high_r else None
        case ComparisonPredicate.LESS_THAN:
            return True if high_l < low_r else False if low_l >= high_r else None
        case ComparisonPredicate.LESS_THAN_OR_EQUAL:
            return True if high_l <= low_r else False if low_l > high_r else None
        case _:
            return _decide(ORDER[predicate], right, left, signed)


def _one_sided_run(
    predicate: ComparisonPredicate, left: ValueFacts, right: ValueFacts, dim: int, signed: bool
) -> int:
    """Runs along which an order relation gives one answer.

    `x < n` and `x >= n` are steady where x runs in aligned runs and n is a multiple of their
    length; `x <= n` and `x > n` are `x < n + 1` and its opposite, for a constant n.
    """
    limit = 1 << (left.width - 1 if signed else left.width)
    strict = (ComparisonPredicate.LESS_THAN, ComparisonPredicate.GREATER_THAN_OR_EQUAL)
    best = 1
    for runner, fixed, relation in ((left, right, predicate), (right, left, ORDER[predicate])):
        divisor = fixed.run_divisor(dim, 1)
        if relation not in strict:
            value = fixed.constant
            _, most = (signed_range if signed else unsigned_range)(fixed)
            if value is None or most >= limit - 1:
                continue
            divisor = divisor_of(value + 1, fixed.width)
        run = min(runner.aligned_run(dim), fixed.constancy[dim], divisor, limit)
        best = max(best, run)
    return best


def select(op: ct.SelectOp, cond: ValueFacts, left: ValueFacts, right: ValueFacts) -> ValueFacts:
    """`cond ? left : right`: what holds for both, in runs along which the condition is constant."""
    if cond.constant is not None:
        return left if cond.constant else right
    axes: list[Axis] = []
    for dim in range(left.rank):
        steady = cond.constancy[dim]
        run = min(left.contiguity[dim], right.contiguity[dim], steady)
        run, divisor, constancy = join_axis(left, right, dim, run)
        axes.append((run, divisor, min(constancy, steady)))
    return make_facts(
        left.shape,
        left.width,
        axes,
        element_divisor=min(left.element_divisor, right.element_divisor),
        bounds=hull(left, right),
        step=left.step,
    )

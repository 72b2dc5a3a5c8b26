"""Float arithmetic: correctly rounded in every mode, with `flush_to_zero` and the NaN rules."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tileiras.dialects.cuda_tile import arithmetic as ct
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonOrdering,
    ComparisonPredicate,
    RoundingMode,
)
from tileiras.interpreter.formats import Array, FloatFormat, float_format_of
from tileiras.interpreter.rounding import (
    exact_errors,
    flush_subnormals,
    is_nearest,
    round_to,
    to_odd,
    toward,
    two_product,
    two_sum,
)
from tileiras.interpreter.state import PureRule

_SAFE_EXPONENT = 400
"""Products and quotients of float64 within 2**+-400 neither overflow nor lose error bits."""

COMPARE: dict[ComparisonPredicate, Callable[[Array, Array], Array]] = {
    ComparisonPredicate.EQUAL: np.equal,
    ComparisonPredicate.NOT_EQUAL: np.not_equal,
    ComparisonPredicate.LESS_THAN: np.less,
    ComparisonPredicate.LESS_THAN_OR_EQUAL: np.less_equal,
    ComparisonPredicate.GREATER_THAN: np.greater,
    ComparisonPredicate.GREATER_THAN_OR_EQUAL: np.greater_equal,
}
"""numpy's comparison of each predicate."""


def result_float_format(op: Operation) -> FloatFormat:
    """The float format of an op's first result."""
    return float_format_of(op.results[0].type.element_type)  # pyright: ignore


def _flush(op: Any, *values: Array) -> tuple[Array, ...]:
    if op.flush_to_zero is None:
        return values
    return tuple(flush_subnormals(value) for value in values)


def add(lhs: Array, rhs: Array, fmt: FloatFormat, mode: RoundingMode) -> Array:
    """`lhs + rhs` rounded once; an exact zero sum is -0 only toward negative infinity."""
    if is_nearest(mode):
        return lhs + rhs
    if fmt.name == "f64":
        total = lhs + rhs
        errors = exact_errors(total, (lhs, rhs), lambda s, a, b: a + b - s)
        result = toward(total, errors, mode)
    else:
        total, error = two_sum(lhs.astype(np.float64), rhs.astype(np.float64))
        result = to_odd(total, error)
    if mode is RoundingMode.NEGATIVE_INF:
        is_cancelled = (total == 0) & (np.signbit(lhs) != np.signbit(rhs))
        result = np.where(is_cancelled, -0.0, result)
    return round_to(result, fmt, mode)


def multiply(lhs: Array, rhs: Array, fmt: FloatFormat, mode: RoundingMode) -> Array:
    """`lhs * rhs` rounded once."""
    if is_nearest(mode):
        return lhs * rhs
    if fmt.name == "f64":
        product = lhs * rhs
        errors = exact_errors(product, (lhs, rhs), lambda p, a, b: a * b - p)
        return toward(product, errors, mode)
    return round_to(lhs.astype(np.float64) * rhs.astype(np.float64), fmt, mode)


def divide(lhs: Array, rhs: Array, fmt: FloatFormat, mode: RoundingMode) -> Array:
    """`lhs / rhs` rounded once."""
    if is_nearest(mode):
        return lhs / rhs
    if fmt.name == "f64":
        quotient = lhs / rhs
        errors = exact_errors(quotient, (lhs, rhs), _quotient_residual)
        errors = np.where(rhs == 0, 0.0, errors)  # the infinity of x / 0 is exact
        return toward(quotient, errors, mode)
    wide_lhs, wide_rhs = lhs.astype(np.float64), rhs.astype(np.float64)
    quotient = wide_lhs / wide_rhs
    product, low = two_product(quotient, wide_rhs)
    error = ((wide_lhs - product) - low) * np.sign(wide_rhs)
    return round_to(to_odd(quotient, error), fmt, mode)


def _quotient_residual(quotient: Fraction, lhs: Fraction, rhs: Fraction) -> Fraction:
    return lhs / rhs - quotient if rhs else Fraction(0)


def square_root(source: Array, fmt: FloatFormat, mode: RoundingMode) -> Array:
    """The square root, rounded once."""
    if is_nearest(mode):
        return np.sqrt(source)
    if fmt.name == "f64":
        root = np.sqrt(source)
        errors = exact_errors(root, (source,), lambda r, a: a - r * r)
        return toward(root, errors, mode)
    wide = source.astype(np.float64)
    root = np.sqrt(wide)
    square, low = two_product(root, root)
    return round_to(to_odd(root, (wide - square) - low), fmt, mode)


def fused_multiply_add(
    lhs: Array, rhs: Array, acc: Array, fmt: FloatFormat, mode: RoundingMode
) -> Array:
    """`lhs * rhs + acc` rounded once."""
    if fmt.name == "f64":
        return _fma_f64(lhs, rhs, acc, mode)
    product = lhs.astype(np.float64) * rhs.astype(np.float64)
    total, error = two_sum(product, acc.astype(np.float64))
    result = to_odd(total, error)
    if mode is RoundingMode.NEGATIVE_INF:
        is_cancelled = (total == 0) & (np.signbit(product) != np.signbit(acc))
        result = np.where(is_cancelled, -0.0, result)
    return round_to(result, fmt, mode)


def _fma_f64(lhs: Array, rhs: Array, acc: Array, mode: RoundingMode) -> Array:
    lhs, rhs, acc = np.broadcast_arrays(lhs, rhs, acc)
    if is_nearest(mode):
        high, low = two_product(lhs, rhs)
        top, carry = two_sum(high, acc)
        rest, error = two_sum(low, carry)
        result = np.where(np.isfinite(carry + low), top + to_odd(rest, error), lhs * rhs + acc)
        unsafe = ~(_is_tame(lhs) & _is_tame(rhs) & _is_tame(acc))
    else:
        result = np.array(lhs * rhs + acc)
        unsafe = np.ones(result.shape, dtype=np.bool_)
    result = np.array(result)
    for position in zip(*np.nonzero(np.atleast_1d(unsafe))):
        place = position if result.ndim else ()
        a, b, c = (float(operand[place]) for operand in (lhs, rhs, acc))
        result[place] = _exact_fma(a, b, c, mode)
    return result


def _is_tame(values: Array) -> Array:
    _, exponent = np.frexp(values)
    return np.isfinite(values) & (np.abs(exponent) < _SAFE_EXPONENT) & (values != 0)


def _exact_fma(lhs: float, rhs: float, acc: float, mode: RoundingMode) -> float:
    """One element by fractions; special values and zeros follow IEEE 754."""
    if not np.all(np.isfinite([lhs, rhs, acc])):
        return acc if np.isfinite(lhs) and np.isfinite(rhs) else lhs * rhs + acc
    exact = Fraction(float(lhs)) * Fraction(float(rhs)) + Fraction(float(acc))
    if exact == 0:
        sign_product = np.signbit(lhs) != np.signbit(rhs)
        if sign_product == np.signbit(acc):
            return -0.0 if sign_product else 0.0
        return -0.0 if mode is RoundingMode.NEGATIVE_INF else 0.0
    try:
        nearest = float(exact)
    except OverflowError:
        nearest = float(np.copysign(np.inf, float(np.sign(exact.numerator))))
        return float(toward(np.asarray(nearest), np.asarray(-np.sign(nearest)), mode))
    error = exact - Fraction(nearest)
    if nearest == 0:
        nearest = -0.0 if exact < 0 else 0.0
    sign = np.asarray((error > 0) - (error < 0))
    return float(toward(np.asarray(nearest), sign, mode))


def maximum(lhs: Array, rhs: Array, propagates_nan: bool) -> Array:
    """The larger operand, +0 above -0; a NaN loses, or wins with `propagates_nan`."""
    is_left = (lhs > rhs) | ((lhs == rhs) & ~np.signbit(lhs))
    return _nan_rule(np.where(is_left, lhs, rhs), lhs, rhs, propagates_nan)


def minimum(lhs: Array, rhs: Array, propagates_nan: bool) -> Array:
    """The smaller operand, -0 below +0; a NaN loses, or wins with `propagates_nan`."""
    is_left = (lhs < rhs) | ((lhs == rhs) & np.signbit(lhs))
    return _nan_rule(np.where(is_left, lhs, rhs), lhs, rhs, propagates_nan)


def _nan_rule(chosen: Array, lhs: Array, rhs: Array, propagates_nan: bool) -> Array:
    if propagates_nan:
        return np.where(np.isnan(lhs), lhs, np.where(np.isnan(rhs), rhs, chosen))
    return np.where(np.isnan(lhs), rhs, np.where(np.isnan(rhs), lhs, chosen))


def _binary(compute: Callable[[Array, Array, FloatFormat, RoundingMode], Array]) -> PureRule:
    def rule(op: Any, lhs: Array, rhs: Array) -> Array:
        lhs, rhs = _flush(op, lhs, rhs)
        return _flush(op, compute(lhs, rhs, result_float_format(op), op.rounding_mode.data))[0]

    return rule


def _subtract(lhs: Array, rhs: Array, fmt: FloatFormat, mode: RoundingMode) -> Array:
    return add(lhs, -rhs, fmt, mode)


def _fma_rule(op: ct.FmaOp, lhs: Array, rhs: Array, acc: Array) -> Array:
    lhs, rhs, acc = _flush(op, lhs, rhs, acc)
    fmt = result_float_format(op)
    return _flush(op, fused_multiply_add(lhs, rhs, acc, fmt, op.rounding_mode.data))[0]


def _max_rule(op: ct.MaxFOp, lhs: Array, rhs: Array) -> Array:
    lhs, rhs = _flush(op, lhs, rhs)
    return maximum(lhs, rhs, op.propagate_nan is not None)


def _min_rule(op: ct.MinFOp, lhs: Array, rhs: Array) -> Array:
    lhs, rhs = _flush(op, lhs, rhs)
    return minimum(lhs, rhs, op.propagate_nan is not None)


def _compare_rule(op: ct.CmpFOp, lhs: Array, rhs: Array) -> Array:
    """A NaN makes an unordered comparison true and an ordered one false, `not_equal` too."""
    is_unordered = np.isnan(lhs) | np.isnan(rhs)
    answer = COMPARE[op.comparison_predicate.data](lhs, rhs)
    if op.comparison_ordering.data is ComparisonOrdering.UNORDERED:
        return answer | is_unordered
    return answer & ~is_unordered


RULES: dict[type[Operation], PureRule] = {
    ct.AbsFOp: lambda op, source: np.abs(source),
    ct.AddFOp: _binary(add),
    ct.CeilOp: lambda op, source: np.ceil(source),
    ct.CmpFOp: _compare_rule,
    ct.DivFOp: _binary(divide),
    ct.FloorOp: lambda op, source: np.floor(source),
    ct.FmaOp: _fma_rule,
    ct.MaxFOp: _max_rule,
    ct.MinFOp: _min_rule,
    ct.MulFOp: _binary(multiply),
    ct.NegFOp: lambda op, source: -source,
    ct.RemFOp: lambda op, lhs, rhs: np.fmod(lhs, rhs),
    ct.SubFOp: _binary(_subtract),
}
"""Float operations by class."""

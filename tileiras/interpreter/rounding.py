"""Exact rounding to every float format under every rounding mode, on whole arrays.

A result is first brought to float64 so that its later rounding cannot go wrong, then rounded once:
either it is exact in float64, or it is rounded to odd (the last bit is set when anything was cut),
which a second rounding to at most 51 bits cannot tell from the exact value (Boldo and Melquiond,
"Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
Results in f64 itself are corrected by the sign of the exact error, computed with fractions.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from tileiras.dialects.cuda_tile.attributes import RoundingMode
from tileiras.interpreter.formats import Array, FloatFormat

_SMALLEST_NORMAL_F32 = np.float32(2.0**-126)

_SPLITTER = 134217729.0
"""2**27 + 1: Veltkamp's constant, splits a float64 into two halves of 26 bits."""


def _round_half_away(values: Array) -> Array:
    whole = np.trunc(values)
    return whole + np.copysign((np.abs(values - whole) >= 0.5).astype(np.float64), values)


_TO_INTEGER: dict[RoundingMode, Callable[[Array], Array]] = {
    RoundingMode.NEAREST_EVEN: np.rint,
    RoundingMode.APPROX: np.rint,
    RoundingMode.FULL: np.rint,
    RoundingMode.NEAREST_AWAY: _round_half_away,
    RoundingMode.ZERO: np.trunc,
    RoundingMode.NEGATIVE_INF: np.floor,
    RoundingMode.POSITIVE_INF: np.ceil,
}


def is_nearest(mode: RoundingMode) -> bool:
    """Whether the mode is nearest-even; `approx` and `full` are taken as correctly rounded."""
    return mode in (RoundingMode.NEAREST_EVEN, RoundingMode.APPROX, RoundingMode.FULL)


def round_to(values: Array, fmt: FloatFormat, mode: RoundingMode, saturate: bool = False) -> Array:
    """Rounds float64 values to `fmt`, an array of its numpy type.

    Overflow gives infinity (NaN where the format has none), or the largest finite value where
    the mode or `saturate` says so. Unsigned formats turn negative values into NaN.
    """
    values = np.asarray(values, dtype=np.float64)
    if fmt.name == "f64":
        return values
    if fmt.name in ("f16", "f32") and mode is RoundingMode.NEAREST_EVEN and not saturate:
        return values.astype(fmt.dtype)
    _, exponent = np.frexp(values)
    ulp = np.maximum(exponent - 1, fmt.emin) - (fmt.precision - 1)
    rounded = np.ldexp(_TO_INTEGER[mode](np.ldexp(values, -ulp)), ulp)
    rounded = _limit(values, rounded, fmt, mode, saturate)
    if not fmt.is_signed:
        return _unsigned(values, rounded, fmt)
    return np.copysign(rounded, values).astype(fmt.dtype)


def _limit(
    values: Array, rounded: Array, fmt: FloatFormat, mode: RoundingMode, saturate: bool
) -> Array:
    """Replaces what lies beyond the largest finite value."""
    over = np.abs(rounded) > fmt.max_finite
    if not np.any(over):
        return rounded
    top = np.copysign(fmt.max_finite, values)
    beyond = np.copysign(np.inf if fmt.has_inf else np.nan, values)
    if saturate or not fmt.has_nan:
        return np.where(over, top, rounded)
    match mode:
        case RoundingMode.ZERO:
            keeps_finite = np.isfinite(values)
        case RoundingMode.NEGATIVE_INF:
            keeps_finite = np.isfinite(values) & (values > 0)
        case RoundingMode.POSITIVE_INF:
            keeps_finite = np.isfinite(values) & (values < 0)
        case _:
            keeps_finite = np.zeros_like(over)
    return np.where(over, np.where(keeps_finite, top, beyond), rounded)


def _unsigned(values: Array, rounded: Array, fmt: FloatFormat) -> Array:
    """Unsigned formats: negative becomes NaN, and zero the smallest value where there is none."""
    if not fmt.has_zero:
        rounded = np.where(rounded == 0, 2.0**fmt.emin, rounded)
    return np.where(values < 0, np.nan, rounded).astype(fmt.dtype)


def flush_subnormals(values: Array) -> Array:
    """Turns f32 subnormals into zeros of the same sign (`flush_to_zero`)."""
    small = np.abs(values) < _SMALLEST_NORMAL_F32
    return np.where(small, np.copysign(np.float32(0), values), values)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """`s + e = a + b` exactly, `s` the rounded sum (Knuth)."""
    s = a + b
    back = s - a
    return s, (a - (s - back)) + (b - back)


def _split(a: Array) -> tuple[Array, Array]:
    scaled = _SPLITTER * a
    high = scaled - (scaled - a)
    return high, a - high


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """`p + e = a * b` exactly, `p` the rounded product (Dekker); no overflow guard."""
    p = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


def to_odd(rounded: Array, error: Array) -> Array:
    """Rounds `rounded + error` to odd, where `rounded` is the nearest float64 to the sum."""
    rounded = np.asarray(rounded, dtype=np.float64)
    bits = rounded.view(np.int64)
    is_cut = (error < 0) | (error > 0)
    is_even_and_cut = is_cut & ((bits & 1) == 0) & np.isfinite(rounded)
    step = np.where((error > 0) == (rounded > 0), np.int64(1), np.int64(-1))
    return np.where(is_even_and_cut, bits + step, bits).view(np.float64)


def toward(nearest: Array, error: Array, mode: RoundingMode) -> Array:
    """Turns nearest-rounded f64 results into directed ones, given the sign of `exact - nearest`.

    An overflown result counts its error as NaN and stays, or falls back to the largest value.
    """
    down = np.nextafter(nearest, -np.inf)
    up = np.nextafter(nearest, np.inf)
    match mode:
        case RoundingMode.NEGATIVE_INF:
            return np.where(error < 0, down, nearest)
        case RoundingMode.POSITIVE_INF:
            return np.where(error > 0, up, nearest)
        case RoundingMode.ZERO:
            inward = np.where(nearest > 0, down, up)
            is_outward = (error != 0) & ((error < 0) == (nearest > 0)) & (nearest != 0)
            return np.where(is_outward, inward, nearest)
    return nearest


def exact_errors(
    nearest: Array, operands: tuple[Array, ...], residual: Callable[..., Fraction]
) -> Array:
    """The sign of `exact - nearest` per element; `residual(nearest, *operands)` computes it.

    An overflown result of finite operands has an error away from its infinity; any other result
    that is not finite is exact.
    """
    nearest, *operands_ = np.broadcast_arrays(nearest, *operands)
    signs = np.zeros(nearest.shape)
    for position in np.ndindex(nearest.shape):
        inputs = [float(operand[position]) for operand in operands_]
        value = float(nearest[position])
        if not np.all(np.isfinite(inputs)) or np.isnan(value):
            continue
        if np.isinf(value):
            signs[position] = -np.sign(value)
            continue
        error = residual(Fraction(value), *map(Fraction, inputs))
        signs[position] = (error > 0) - (error < 0)
    return signs

"""Float formats and exact rounding to them (PTX ISA, "Rounding Modifiers", "cvt").

Values travel as float64. A result that float64 cannot hold is rounded to odd (the last bit is set
when anything was cut): rounding it once more to at most 51 bits gives what rounding the exact
value would (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class FloatFormat:
    """`precision` counts the hidden bit; `2**emin` is the smallest normal number."""

    name: str
    bits: int
    precision: int
    emin: int
    max_finite: float
    dtype: Any
    nan: int | None
    has_inf: bool = True
    is_signed: bool = True


_ROWS = (
    FloatFormat("f16", 16, 11, -14, 65504.0, np.float16, 0x7FFF),
    FloatFormat("bf16", 16, 8, -126, 2.0**128 - 2.0**120, ml_dtypes.bfloat16, 0x7FFF),
    FloatFormat("f32", 32, 24, -126, 2.0**128 - 2.0**104, np.float32, 0x7FFFFFFF),
    FloatFormat("tf32", 32, 11, -126, 2.0**128 - 2.0**117, np.float32, 0x7FFFFFFF),
    FloatFormat("e4m3", 8, 4, -6, 448.0, ml_dtypes.float8_e4m3fn, 0x7F, has_inf=False),
    FloatFormat("e5m2", 8, 3, -14, 57344.0, ml_dtypes.float8_e5m2, 0x7F),
    FloatFormat("e2m3", 6, 4, 0, 7.5, ml_dtypes.float6_e2m3fn, None, has_inf=False),
    FloatFormat("e3m2", 6, 3, -2, 28.0, ml_dtypes.float6_e3m2fn, None, has_inf=False),
    FloatFormat("e2m1", 4, 2, 0, 6.0, ml_dtypes.float4_e2m1fn, None, has_inf=False),
    FloatFormat(
        "ue8m0", 8, 1, -127, 2.0**127, ml_dtypes.float8_e8m0fnu, 0xFF, False, is_signed=False
    ),
)
FORMATS: dict[str, FloatFormat] = {row.name: row for row in _ROWS}
FORMATS["ue4m3"] = FORMATS["e4m3"]

_INTEGER_ROUNDING = {
    "rn": np.rint,
    "rz": np.trunc,
    "rm": np.floor,
    "rp": np.ceil,
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}


def round_half_away(values: np.ndarray) -> np.ndarray:
    """To the nearest integer, ties away from zero (`.rna`)."""
    whole = np.trunc(values)
    return whole + np.copysign((np.abs(values - whole) >= 0.5).astype(np.float64), values)


def to_integral(values: np.ndarray, mode: str) -> np.ndarray:
    """float64 values rounded to integers by a mode."""
    return round_half_away(values) if mode == "rna" else _INTEGER_ROUNDING[mode](values)


def round_to(values: np.ndarray, fmt: FloatFormat, mode: str, finite: bool = False) -> np.ndarray:
    """float64 values rounded to a format, still float64; beyond the largest finite value they
    become infinity, or stay finite where the mode or `finite` (`.satfinite`) says so."""
    _, exponent = np.frexp(values)
    ulp = np.maximum(exponent - 1, fmt.emin) - (fmt.precision - 1)
    rounded = np.ldexp(to_integral(np.ldexp(values, -ulp), mode), ulp)
    rounded = np.copysign(rounded, values)
    over = np.abs(rounded) > fmt.max_finite
    if over.any():
        top = np.copysign(fmt.max_finite, values)
        keeps = np.isfinite(values) & _stays_finite(values, mode)
        beyond = np.where(keeps | finite, top, np.copysign(np.inf, values))
        rounded = np.where(over, beyond, rounded)
    if not fmt.is_signed:
        rounded = np.where(rounded <= 0, 2.0**fmt.emin, rounded)
    return np.where(np.isnan(values), np.nan, rounded)


def _stays_finite(values: np.ndarray, mode: str) -> np.ndarray:
    match mode:
        case "rz":
            return np.ones(values.shape, np.bool_)
        case "rm":
            return values > 0
        case "rp":
            return values < 0
    return np.zeros(values.shape, np.bool_)


def encode(values: np.ndarray, fmt: FloatFormat) -> np.ndarray:
    """The bits of values that a format holds exactly, NaN as the ISA's canonical one.

    Formats without NaN get their largest value for it (`cvt`, `.satfinite`).
    """
    unsigned = {4: np.uint8, 6: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.uint32}[fmt.bits]
    is_nan = np.isnan(values)
    if fmt.nan is None:
        values = np.where(is_nan, fmt.max_finite, values)
    elif not fmt.has_inf:
        is_nan = is_nan | np.isinf(values)
        values = np.where(is_nan, 1.0, values)
    bits = values.astype(np.float32).astype(fmt.dtype).view(unsigned)
    if fmt.nan is not None and is_nan.any():
        bits = np.where(is_nan, unsigned(fmt.nan), bits)
    return bits


@cache
def _table(name: str) -> np.ndarray:
    fmt = FORMATS[name]
    codes = np.arange(1 << fmt.bits, dtype=np.uint8 if fmt.bits <= 8 else np.uint16)
    return codes.view(fmt.dtype).astype(np.float64)


def decode(bits: np.ndarray, fmt: FloatFormat) -> np.ndarray:
    """The float64 values of bit patterns; surplus high bits of 4- and 6-bit ones are ignored."""
    if fmt.bits == 32:
        return bits.view(np.float32).astype(np.float64)
    if fmt.bits == 16:
        return bits.view(fmt.dtype).astype(np.float32).astype(np.float64)
    return _table(fmt.name)[bits & np.uint8((1 << fmt.bits) - 1)]


def to_odd(total: np.ndarray, error: np.ndarray) -> np.ndarray:
    """A float64 sum and its exact error, as one value rounded to odd."""
    inexact = (error != 0) & np.isfinite(total)
    if not inexact.any():
        return total
    is_even = total.view(np.uint64) & np.uint64(1) == 0
    moved = np.nextafter(total, np.copysign(np.inf, error))
    return np.where(inexact & is_even, moved, total)


def sum_with_error(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Knuth's TwoSum: the rounded sum and what rounding lost."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def exact_sum(a: np.ndarray, b: np.ndarray, mode: str = "rn") -> np.ndarray:
    """`a + b` of float64 arrays, rounded to odd; an exact zero has the sign of the mode."""
    total, error = sum_with_error(a, b)
    result = to_odd(total, error)
    if mode == "rm":
        result = np.where((result == 0) & (np.signbit(a) | np.signbit(b)), -0.0, result)
    return result


def is_subnormal(values: np.ndarray, fmt: FloatFormat) -> np.ndarray:
    """Which float64 values are below the format's normal numbers."""
    return np.abs(values) < 2.0**fmt.emin


def flush(values: np.ndarray, fmt: FloatFormat) -> np.ndarray:
    """Subnormals become zeros of their sign (`.ftz`)."""
    return np.where(is_subnormal(values, fmt), np.copysign(0.0, values), values)

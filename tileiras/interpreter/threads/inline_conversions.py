"""Conversions and functions of numbers in inline PTX."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import bf16, f16, f32, f64

from tileiras.dialects.llvm.calls import InlineAsmOp
from tileiras.interpreter.formats import float_format_of, to_bits
from tileiras.interpreter.rounding import flush_subnormals, round_to
from tileiras.interpreter.threads.intrinsics import ROUNDING_MODES
from tileiras.interpreter.threads.state import Lockstep
from tileiras.interpreter.threads.values import Value, from_float, signed, to_float

_PAIRS: dict[str, tuple[Any, int]] = {
    "e4m3x2": (ml_dtypes.float8_e4m3fn, 8),
    "e5m2x2": (ml_dtypes.float8_e5m2, 8),
    "e2m1x2": (ml_dtypes.float4_e2m1fn, 4),
}
"""Small floats that come in pairs: what they are and the bits of each."""
_FLOATS: dict[str, Any] = {"f16": f16, "bf16": bf16, "f32": f32, "f64": f64}

Rule = Callable[[Lockstep, InlineAsmOp, re.Match[str]], Value]


def _widened(run: Lockstep, op: InlineAsmOp, match: re.Match[str]) -> Value:
    """Two small floats as the f16s in the halves of a word."""
    (pairs,) = run.operands(op.arguments)
    dtype, bits = _PAIRS[match["pair"]]
    word = np.zeros(pairs.shape, np.uint64)
    for half in range(2):
        small = (pairs >> np.uint64(half * bits)) & np.uint64((1 << bits) - 1)
        wide = small.astype(np.uint8).view(dtype).astype(np.float16).view(np.uint16)
        word |= wide.astype(np.uint64) << np.uint64(16 * half)
    return word


def _narrowed(run: Lockstep, op: InlineAsmOp, match: re.Match[str]) -> Value:
    """Two f32 as a pair of small floats, finite ones at most."""
    dtype, bits = _PAIRS[match["pair"]]
    high, low = (to_float(value, f32) for value in run.operands(op.arguments))
    most = float(ml_dtypes.finfo(dtype).max)
    halves = [
        np.clip(value, -most, most).astype(dtype).view(np.uint8).astype(np.uint64)
        for value in (low, high)
    ]
    return halves[0] | halves[1] << np.uint64(bits)


def _power_of_two(run: Lockstep, op: InlineAsmOp, match: re.Match[str]) -> Value:
    (numbers,) = (to_float(value, f32) for value in run.operands(op.arguments))
    return from_float(flush_subnormals(np.exp2(flush_subnormals(numbers))), f32)


def _hyperbolic_tangent(run: Lockstep, op: InlineAsmOp, match: re.Match[str]) -> Value:
    (numbers,) = (to_float(value, f32) for value in run.operands(op.arguments))
    return from_float(np.tanh(numbers.astype(np.float64)), f32)


def _truncated(run: Lockstep, op: InlineAsmOp, match: re.Match[str]) -> Value:
    """Cut off and clamped; NaN is 0 as 32 bits of an f32, else the sign bit alone."""
    source, width = match["source"], int(match["width"])
    (numbers,) = (to_float(value, _FLOATS[source]) for value in run.operands(op.arguments))
    wide = np.trunc(numbers.astype(np.longdouble))
    bits = width - 1 if match["kind"] == "s" else width
    least = -(2**bits) if match["kind"] == "s" else 0
    clamped = np.clip(np.where(np.isnan(wide), 0, wide), least, 2**bits - 1)
    is_signed = match["kind"] == "s"
    result = clamped.astype(np.int64).view(np.uint64) if is_signed else clamped.astype(np.uint64)
    nan = 0 if (source, width) == ("f32", 32) else 1 << (width - 1)
    return np.where(np.isnan(wide), np.uint64(nan), result) & np.uint64((1 << width) - 1)


def _float_bits(values: np.ndarray, name: str, mode: str) -> Value:
    """f64 numbers rounded to a type, as its bits."""
    fmt = float_format_of(_FLOATS[name])
    return to_bits(round_to(values, fmt, ROUNDING_MODES[mode]), fmt).astype(np.uint64)


def _rounded(run: Lockstep, op: InlineAsmOp, match: re.Match[str]) -> Value:
    """A float to a narrower one."""
    (numbers,) = (to_float(value, _FLOATS[match["source"]]) for value in run.operands(op.arguments))
    return _float_bits(numbers.astype(np.float64), match["result"], match["mode"])


def _rounded_pair(run: Lockstep, op: InlineAsmOp, match: re.Match[str]) -> Value:
    """Two f32 as the halves of a word."""
    high, low = (to_float(value, f32).astype(np.float64) for value in run.operands(op.arguments))
    halves = [_float_bits(value, match["result"], match["mode"]) for value in (low, high)]
    return halves[0] | halves[1] << np.uint64(16)


def _integer_cut_off(run: Lockstep, op: InlineAsmOp, match: re.Match[str]) -> Value:
    """An integer to f32, towards zero: a longdouble holds all of its bits."""
    (patterns,) = run.operands(op.arguments)
    width = int(match["width"])
    wide = signed(patterns, width) if match["kind"] == "s" else patterns
    numbers = wide.astype(np.longdouble)
    nearest = numbers.astype(np.float32)
    too_far = np.abs(nearest.astype(np.longdouble)) > np.abs(numbers)
    return from_float(np.where(too_far, np.nextafter(nearest, np.float32(0)), nearest), f32)


def _high_product(run: Lockstep, op: InlineAsmOp, match: re.Match[str]) -> Value:
    """The upper half of a product of 64 bits, from products of halves."""
    a, b = run.operands(op.arguments)
    half, low = np.uint64(32), np.uint64((1 << 32) - 1)
    middle = (a & low) * (b & low) >> half
    first = (a >> half) * (b & low) + middle
    second = (a & low) * (b >> half) + (first & low)
    return (a >> half) * (b >> half) + (first >> half) + (second >> half)


def _smaller_with_sign(run: Lockstep, op: InlineAsmOp, match: re.Match[str]) -> Value:
    """The smaller size of two, the other's where one is no number; its sign is both's product."""
    first, second = (to_float(value, f32) for value in run.operands(op.arguments))
    size = np.fmin(np.abs(first), np.abs(second))
    return from_float(np.where(np.signbit(first) ^ np.signbit(second), -size, size), f32)


CONVERSIONS: tuple[tuple[str, Rule], ...] = (
    (r"cvt\.rn\.f16x2\.(?P<pair>e4m3x2|e5m2x2|e2m1x2) ", _widened),
    (r"^cvt\.rn\.satfinite\.(?P<pair>e4m3x2|e5m2x2)\.f32 \$0, \$1, \$2;$", _narrowed),
    (r"^ex2\.approx\.ftz\.f32 \$0, \$1;$", _power_of_two),
    (r"^tanh\.approx\.f32 \$0, \$1;$", _hyperbolic_tangent),
    (r"^min\.xorsign\.abs\.f32 \$0, \$1, \$2;$", _smaller_with_sign),
    (r"^mul\.hi\.u64 \$0, \$1, \$2;$", _high_product),
    (r"^cvt\.rzi\.(?P<kind>[su])(?P<width>32|64)\.(?P<source>f32|f64) \$0, \$1;$", _truncated),
    (r"^cvt\.rz\.f32\.(?P<kind>[su])(?P<width>32|64) \$0, \$1;$", _integer_cut_off),
    (
        r"^cvt\.(?P<mode>r[nzmp])\.(?P<result>f32|f16)\.(?P<source>f64|f32) \$0, \$1;$",
        _rounded,
    ),
    (r"^cvt\.(?P<mode>r[nz])\.(?P<result>f16|bf16)x2\.f32 \$0, \$1, \$2;$", _rounded_pair),
)
"""Forms of text with their rules."""

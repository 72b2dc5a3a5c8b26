"""LLVM's intrinsics, and NVVM's that are numbers, by name; approximate ones are exact here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from xdsl.dialects.builtin import f32, f64

from tileiras.dialects.cuda_tile.attributes import RoundingMode
from tileiras.interpreter.float_arithmetic import (
    add,
    divide,
    fused_multiply_add,
    multiply,
    square_root,
)
from tileiras.interpreter.formats import FloatFormat, float_format_of
from tileiras.interpreter.rounding import flush_subnormals
from tileiras.interpreter.threads.arithmetic import floats, integers, signed_integers
from tileiras.interpreter.threads.state import Rule
from tileiras.interpreter.threads.values import Value

ROUNDING_MODES = {
    "rn": RoundingMode.NEAREST_EVEN,
    "rz": RoundingMode.ZERO,
    "rm": RoundingMode.NEGATIVE_INF,
    "rp": RoundingMode.POSITIVE_INF,
}
"""PTX's names of them."""


def extremum(
    propagates_nan: bool, pick: Callable[[Any, Any], Any]
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The maximum or minimum; -0 is less than +0, which numpy leaves open."""

    def compute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        picked = pick(a, b)
        is_negative = pick(~np.signbit(a), ~np.signbit(b)) == 0
        zero = np.where(is_negative, -0.0, 0.0).astype(picked.dtype)
        picked = np.where((a == 0) & (b == 0), zero, picked)
        if propagates_nan:
            return picked
        return np.where(np.isnan(a), b, np.where(np.isnan(b), a, picked))

    return compute


def flushed(compute: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """The same where subnormals go in and come out as zero."""

    def act(*operands: np.ndarray) -> np.ndarray:
        result = compute(*map(flush_subnormals, operands))
        return flush_subnormals(np.asarray(result).astype(operands[0].dtype))

    return act


def via_float64(compute: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A function computed in float64."""
    return lambda *operands: compute(*(operand.astype(np.float64) for operand in operands))


def _permuted_bytes(low: Value, high: Value, selector: Value, width: int) -> Value:
    """Bytes of two words, picked by the nibbles of a third (PTX ISA, "prmt")."""
    both = low | high << np.uint64(32)
    result = np.zeros_like(both)
    for byte in range(4):
        nibble = selector >> np.uint64(4 * byte)
        picked = both >> (nibble & np.uint64(7)) * np.uint64(8) & np.uint64(255)
        sign = np.where(picked & np.uint64(128), np.uint64(255), np.uint64(0))
        picked = np.where(nibble & np.uint64(8), sign, picked)
        result |= picked << np.uint64(8 * byte)
    return result


def _leading_zeros(value: Value, width: int) -> np.ndarray:
    """Of the width if there is no one at all."""
    lengths = np.zeros(value.shape, np.uint64)
    for bit in range(width):
        lengths = np.where(value >> np.uint64(bit) != 0, np.uint64(bit + 1), lengths)
    return np.uint64(width) - lengths


_APPROXIMATIONS: dict[str, Callable[..., np.ndarray]] = {
    "lg2": np.log2,
    "rsqrt": lambda a: 1.0 / np.sqrt(a),
    "sqrt": np.sqrt,
    "rcp": lambda a: 1.0 / a,
    "sin": np.sin,
    "cos": np.cos,
    "div": np.divide,
}


def _approximations() -> dict[str, Rule]:
    rules: dict[str, Rule] = {}
    for name, compute in _APPROXIMATIONS.items():
        wide = via_float64(compute)
        rules[f"nvvm.{name}.approx.f"] = floats(wide)
        rules[f"nvvm.{name}.approx.ftz.f"] = floats(flushed(wide))
    rules["nvvm.div.full"] = rules["nvvm.div.approx.f"]
    rules["nvvm.div.full.ftz"] = rules["nvvm.div.approx.ftz.f"]
    return rules


def _reciprocal(source: np.ndarray, fmt: FloatFormat, mode: RoundingMode) -> np.ndarray:
    return divide(np.ones_like(source), source, fmt, mode)


_ROUNDED: dict[str, Callable[..., np.ndarray]] = {
    "add": add,
    "mul": multiply,
    "div": divide,
    "fma": fused_multiply_add,
    "sqrt": square_root,
    "rcp": _reciprocal,
}


def _rounded() -> dict[str, Rule]:
    """Arithmetic with a rounding mode, and the same that flushes subnormals."""
    rules: dict[str, Rule] = {}
    for name, compute in _ROUNDED.items():
        for suffix, mode in ROUNDING_MODES.items():
            for ending, type_ in (("f", f32), ("d", f64)):
                act = partial(_in_mode, compute, float_format_of(type_), mode)
                rules[f"nvvm.{name}.{suffix}.{ending}"] = floats(act)
                rules[f"nvvm.{name}.{suffix}.ftz.{ending}"] = floats(flushed(act))
    return rules


def _in_mode(
    compute: Callable[..., np.ndarray], fmt: FloatFormat, mode: RoundingMode, *operands: np.ndarray
) -> np.ndarray:
    return compute(*operands, fmt, mode)


def _extrema() -> dict[str, Rule]:
    """Maxima and minima that flush subnormals or pass NaNs on."""
    rules: dict[str, Rule] = {}
    for name, pick in (("fmin", np.minimum), ("fmax", np.maximum)):
        rules[f"nvvm.{name}.nan.f"] = floats(extremum(True, pick))
        rules[f"nvvm.{name}.ftz.f"] = floats(flushed(extremum(False, pick)))
        rules[f"nvvm.{name}.ftz.nan.f"] = floats(flushed(extremum(True, pick)))
    return rules


INTRINSICS: dict[str, Rule] = {
    "fma": floats(lambda a, b, c: a.astype(np.longdouble) * b + c),
    "sqrt": floats(np.sqrt),
    "fabs": floats(np.abs),
    "floor": floats(np.floor),
    "ceil": floats(np.ceil),
    "trunc": floats(np.trunc),
    "copysign": floats(np.copysign),
    "minnum": floats(extremum(False, np.minimum)),
    "maxnum": floats(extremum(False, np.maximum)),
    "minimum": floats(extremum(True, np.minimum)),
    "maximum": floats(extremum(True, np.maximum)),
    "exp2": floats(np.exp2),
    "smin": signed_integers(np.minimum),
    "smax": signed_integers(np.maximum),
    "umin": integers(lambda a, b, width: np.minimum(a, b)),
    "umax": integers(lambda a, b, width: np.maximum(a, b)),
    "abs": signed_integers(np.abs),
    "ctlz": integers(_leading_zeros),
    "nvvm.prmt": integers(_permuted_bytes),
    **_approximations(),
    **_rounded(),
    **_extrema(),
}
"""Intrinsics by name, without `llvm.`."""

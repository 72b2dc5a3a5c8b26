"""Floating-point arithmetic (PTX ISA, "Floating Point Instructions", "Half Precision Floating
Point Instructions", "Mixed Precision Floating Point Instructions").

Every result is the exact one, rounded once. The approximate functions (`.approx`, `ex2`, `sin`
and so on) are rounded to nearest, which is inside of the ISA's error bounds but need not be the
hardware's last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tileiras.interpreter.ptx.carries import carrying
from tileiras.interpreter.ptx.decoding import Decoder, Execute
from tileiras.interpreter.ptx.formats import (
    FORMATS,
    FloatFormat,
    decode,
    encode,
    exact_sum,
    flush,
    round_to,
)
from tileiras.interpreter.ptx.integer import (
    divide_integers,
    integer_binary,
    multiply_add_integers,
    multiply_integers,
)
from tileiras.interpreter.ptx.rules import rule
from tileiras.interpreter.ptx.types import TYPES, PtxType

Function = Callable[..., np.ndarray]

_SCALAR = {"f16x2": "f16", "bf16x2": "bf16", "f32x2": "f32"}


@dataclass(frozen=True)
class Finish:
    """What happens to operands and results: rounding, `.ftz`, `.sat`, `.relu`."""

    mode: str = "rn"
    ftz: bool = False
    sat: bool = False
    relu: bool = False


def split(values: np.ndarray, type_: PtxType) -> list[np.ndarray]:
    """A register's float64 values: one, or two for packed types."""
    fmt = FORMATS[_SCALAR.get(type_.name, type_.name)]
    if type_.name not in _SCALAR:
        return [decode(values.view(type_.held), fmt)]
    unsigned = np.dtype(f"u{fmt.bits // 8}")
    pairs = np.ascontiguousarray(values).view(unsigned).reshape(-1, 2)
    return [decode(np.ascontiguousarray(pairs[:, i]), fmt) for i in (0, 1)]


def fuse(parts: Sequence[np.ndarray], type_: PtxType) -> np.ndarray:
    """The register of values that the type holds exactly."""
    fmt = FORMATS[_SCALAR.get(type_.name, type_.name)]
    coded = [encode(part, fmt) for part in parts]
    if len(coded) == 1:
        return coded[0]
    pairs = np.stack(np.broadcast_arrays(*coded), axis=1)
    return np.ascontiguousarray(pairs).view(type_.held)[:, 0]


def finished(values: np.ndarray, fmt: FloatFormat, finish: Finish) -> np.ndarray:
    """Exact (or odd) float64 results as values of the format."""
    result = round_to(values, fmt, finish.mode)
    if finish.ftz:
        result = flush(result, fmt)
    if finish.sat:
        result = np.where(np.isnan(result), 0.0, np.clip(result, 0.0, 1.0)) + 0.0
    if finish.relu:
        result = np.where(result <= 0, 0.0, result)
    return result


def float_rule(
    d: Decoder, type_: PtxType, function: Function, arguments: int, finish: Finish
) -> Execute:
    """`d = round(function(a, b, ...))`; `function` works on float64 and knows the mode."""
    d.count(arguments + 1)
    reads = [d.src(i, type_) for i in range(1, arguments + 1)]
    write = d.dst(0, type_)
    if type_.name == "f64":
        return lambda cta, on: write(cta, on, function(*(read(cta) for read in reads)))
    fmt = FORMATS[_SCALAR.get(type_.name, type_.name)]

    def run(cta: Any, on: Any) -> None:
        parts = [split(read(cta), type_) for read in reads]
        results = []
        for lane in zip(*parts):
            inputs = [flush(part, fmt) for part in lane] if finish.ftz else lane
            results.append(finished(function(*inputs), fmt, finish))
        write(cta, on, fuse(results, type_))

    return run


def _finish(d: Decoder) -> Finish:
    mode = d.choice("rn", "rz", "rm", "rp") or "rn"
    return Finish(mode, d.flag("ftz"), d.flag("sat"), d.flag("relu"))


# Addition, multiplication ---------------------------------------------------------------------


def _fraction_round(value: Fraction, mode: str, zero_sign: float) -> float:
    """A fraction rounded to float64."""
    if value == 0:
        return zero_sign
    try:
        near = float(value)
    except OverflowError:
        near = float("inf") if value > 0 else float("-inf")
    if mode == "rn":
        return near
    top = float(np.finfo(np.float64).max)
    exact = Fraction(near) if abs(near) != float("inf") else None
    too_high = exact is None and value > 0 or exact is not None and exact > value
    too_low = exact is None and value < 0 or exact is not None and exact < value
    down = mode == "rm" or (mode == "rz" and value > 0)
    if too_high and down:
        return top if exact is None else float(np.nextafter(near, -np.inf))
    if too_low and not down:
        return -top if exact is None else float(np.nextafter(near, np.inf))
    return near


def double_exactly(
    terms: Callable[..., Fraction], plain: Function, mode: str, addends: Any = None
) -> Function:
    """A float64 function rounded by `mode`, element by element with fractions.

    `addends` gives the two values that a sum adds: an exact zero is -0 toward minus infinity,
    unless both are +0.
    """

    def run(*arrays: np.ndarray) -> np.ndarray:
        shaped = np.broadcast_arrays(*arrays)
        result = np.array(plain(*shaped), np.float64)
        finite = np.isfinite(np.stack(shaped)).all(axis=0)
        for i in np.flatnonzero(finite):
            inputs = [float(array[i]) for array in shaped]
            exact = terms(*(Fraction(value) for value in inputs))
            zero = float(result[i]) if result[i] == 0 else 0.0
            if exact == 0 and mode == "rm" and addends is not None:
                zero = -0.0 if any(np.signbit(value) for value in addends(*inputs)) else 0.0
            result[i] = _fraction_round(exact, mode, zero)
        return result

    return run


def fused(a: np.ndarray, b: np.ndarray, c: np.ndarray, mode: str = "rn") -> np.ndarray:
    """`a * b + c` of values of at most 24 bits: the product is exact, the sum rounded to odd."""
    return exact_sum(a * b, c, mode)


@rule("add", "sub")
def add_or_subtract(d: Decoder) -> Execute:
    """`add`, `sub` of any type; `.cc` writes the carry flag."""
    type_ = d.type()
    if type_.is_integer or type_.name in ("u16x2", "s16x2", "u8x4", "s8x4", "b32", "b64"):
        if "cc" in d.modifiers:
            return carrying(d, type_, reads_carry=False)
        function = np.add if d.opcode == "add" else np.subtract
        return integer_binary(d, type_, function, d.flag("sat"))
    finish = _finish(d)
    if d.modifiers and d.modifiers[-1] == "f32":
        return _mixed(d, type_, finish)
    sign = 1.0 if d.opcode == "add" else -1.0
    if type_.name == "f64":
        plain = np.add if sign > 0 else np.subtract
        if finish.mode == "rn":
            return float_rule(d, type_, plain, 2, finish)
        exact = double_exactly(
            lambda a, b: a + int(sign) * b, plain, finish.mode, lambda a, b: (a, sign * b)
        )
        return float_rule(d, type_, exact, 2, finish)
    if type_.name == "f32" and finish == Finish():
        return _plain_f32(d, np.add if sign > 0 else np.subtract)
    return float_rule(d, type_, lambda a, b: exact_sum(a, sign * b, finish.mode), 2, finish)


def _mixed(d: Decoder, small: PtxType, finish: Finish) -> Execute:
    """`add.f32.f16 d, a, c`, `fma.f32.bf16 d, a, b, c`: small factors, f32 sum and result."""
    d.type()
    wide = TYPES["f32"]
    last = len(d.operands) - 1
    reads = [d.src(i, small) for i in range(1, last)]
    read_c, write = d.src(last, wide), d.dst(0, wide)
    sign = -1.0 if d.opcode == "sub" else 1.0

    def run(cta: Any, on: Any) -> None:
        value = split(reads[0](cta), small)[0]
        for read in reads[1:]:
            value = value * split(read(cta), small)[0]
        total = exact_sum(value, sign * split(read_c(cta), wide)[0], finish.mode)
        write(cta, on, fuse([finished(total, FORMATS["f32"], finish)], wide))

    return run


def _plain_f32(d: Decoder, function: Function) -> Execute:
    """Round-to-nearest f32 arithmetic without modifiers is numpy's, with one NaN."""
    d.count(3)
    type_ = TYPES["f32"]
    read_a, read_b, write = d.src(1, type_), d.src(2, type_), d.dst(0, type_)
    nan = np.uint32(0x7FFFFFFF)

    def run(cta: Any, on: Any) -> None:
        value = function(read_a(cta), read_b(cta))
        if np.isnan(value).any():
            value = np.where(np.isnan(value), nan.view(np.float32), value)
        write(cta, on, value)

    return run


@rule("mul")
def multiply(d: Decoder) -> Execute:
    """`mul` of any type."""
    type_ = d.type()
    if type_.is_integer:
        return multiply_integers(d, type_)
    finish = _finish(d)
    if type_.name == "f64":
        if finish.mode == "rn":
            return float_rule(d, type_, np.multiply, 2, finish)
        exact = double_exactly(lambda a, b: a * b, np.multiply, finish.mode)
        return float_rule(d, type_, exact, 2, finish)
    if type_.name == "f32" and finish == Finish():
        return _plain_f32(d, np.multiply)
    return float_rule(d, type_, np.multiply, 2, finish)


@rule("mad", "madc", "fma")
def multiply_add(d: Decoder) -> Execute:
    """`mad`, `fma` of any type; of floats with one rounding."""
    type_ = d.type()
    if type_.is_integer:
        return multiply_add_integers(d, type_)
    finish = _finish(d)
    if d.modifiers and d.modifiers[-1] == "f32":
        return _mixed(d, type_, finish)
    if d.flag("oob"):
        d.error("not supported")
    if type_.name == "f64":
        exact = double_exactly(
            lambda a, b, c: a * b + c,
            lambda a, b, c: a * b + c,
            finish.mode,
            lambda a, b, c: (a * b, c),
        )
        return float_rule(d, type_, exact, 3, finish)
    return float_rule(d, type_, lambda a, b, c: fused(a, b, c, finish.mode), 3, finish)


# Division, roots, approximations --------------------------------------------------------------


@rule("div")
def divide(d: Decoder) -> Execute:
    """`div`: integers toward zero; floats rounded once, also `.full` and `.approx`.

    A quotient of 24-bit values is never close enough to a rounding boundary for float64's own
    rounding to change the second one (53 >= 2 * 24 + 2).
    """
    type_ = d.type()
    if type_.is_integer:
        return divide_integers(d, type_)
    d.flag("approx", "full")
    finish = _finish(d)
    if type_.name == "f64" and finish.mode != "rn":

        def quotient(a: Fraction, b: Fraction) -> Fraction:
            return a / b if b else Fraction(0)

        exact = double_exactly(quotient, np.divide, finish.mode)
        return float_rule(d, type_, lambda a, b: np.where(b == 0, a / b, exact(a, b)), 2, finish)

    def odd_quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        near = a / b
        if finish.mode == "rn":
            return near
        high = near.astype(np.float32).astype(np.float64)
        rest = a - high * b
        return np.where(
            (rest == 0) | ~np.isfinite(rest) | ~np.isfinite(near),
            near,
            _nudge(high, near, np.sign(rest) * np.sign(b)),
        )

    return float_rule(d, type_, np.divide if type_.name == "f64" else odd_quotient, 2, finish)


def _nudge(high: np.ndarray, near: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """`near`, kept strictly on the side of `high` where the exact result is."""
    beyond = np.nextafter(high, direction * np.inf)
    return np.where(near == high, beyond, near)


def _unary(function: Function, *types: str) -> Callable[[Decoder], Execute]:
    """A rule for `d = function(a)` with any rounding and `.approx`."""

    def decode_rule(d: Decoder) -> Execute:
        type_ = d.type()
        if type_.name not in types:
            d.error(f"no type .{type_.name}")
        d.flag("approx")
        return float_rule(d, type_, function, 1, _finish(d))

    return decode_rule


def _corrected(function: Function, inverse_error: Function) -> Function:
    """A float64 result moved off an exact tie of f32 by the sign of its error, for directed
    rounding."""

    def run(a: np.ndarray) -> np.ndarray:
        near = function(a)
        high = near.astype(np.float32).astype(np.float64)
        error = inverse_error(a, high)
        moved = _nudge(high, near, np.sign(error))
        return np.where((error == 0) | ~np.isfinite(near) | (near == 0), near, moved)

    return run


_ROOT = _corrected(np.sqrt, lambda a, r: a - r * r)
_RECIPROCAL = _corrected(lambda a: 1.0 / a, lambda a, r: (1.0 - r * a) * np.sign(a))

_SIMPLE: dict[str, tuple[Function, tuple[str, ...]]] = {
    "rsqrt": (lambda a: 1.0 / np.sqrt(a), ("f32", "f64")),
    "ex2": (np.exp2, ("f32", "f16", "f16x2", "bf16", "bf16x2")),
    "lg2": (np.log2, ("f32",)),
    "sin": (np.sin, ("f32",)),
    "cos": (np.cos, ("f32",)),
    "tanh": (np.tanh, ("f32", "f16", "f16x2", "bf16", "bf16x2")),
}
for _name, (_function, _types) in _SIMPLE.items():
    rule(_name)(_unary(_function, *_types))


@rule("sqrt", "rcp")
def root_or_reciprocal(d: Decoder) -> Execute:
    """`sqrt`, `rcp`, rounded once; of f64 to nearest only."""
    type_ = d.type()
    is_approximate = d.flag("approx")
    finish = _finish(d)
    if type_.name == "f64":
        if finish.mode != "rn":
            d.error("f64 in this rounding is not supported")
        plain = np.sqrt if d.opcode == "sqrt" else lambda a: 1.0 / a
        return float_rule(d, type_, plain, 1, finish)
    function = _ROOT if d.opcode == "sqrt" else _RECIPROCAL
    if is_approximate:
        finish = Finish("rn", finish.ftz)
    return float_rule(d, type_, function, 1, finish)


# Sign, minimum, maximum -----------------------------------------------------------------------

_SIGN: dict[str, int] = {"f16": 1 << 15, "bf16": 1 << 15, "f32": 1 << 31, "f64": 1 << 63}


@rule("neg", "abs")
def negate_or_absolute(d: Decoder) -> Execute:
    """`neg`, `abs` of any type; NaN becomes the canonical one, but of f64 keeps its bits."""
    type_ = d.type()
    d.count(2)
    ftz = d.flag("ftz")
    is_negation = d.opcode == "neg"
    if type_.is_integer:
        function = np.negative if is_negation else np.abs
        read, write = d.src(1, type_), d.dst(0, type_)
        return lambda cta, on: write(cta, on, function(read(cta)))
    read, write = d.src(1, type_), d.dst(0, type_)
    function = np.negative if is_negation else np.abs
    if type_.name == "f64":
        return lambda cta, on: write(cta, on, function(read(cta)))
    fmt = FORMATS[_SCALAR.get(type_.name, type_.name)]

    def run(cta: Any, on: Any) -> None:
        parts = split(read(cta), type_)
        if ftz:
            parts = [flush(part, fmt) for part in parts]
        write(cta, on, fuse([function(part) for part in parts], type_))

    return run


@rule("min", "max")
def minimum_or_maximum(d: Decoder) -> Execute:
    """`min`, `max` of any type; of floats the number wins over NaN unless `.NaN`, -0 < +0."""
    type_ = d.type()
    is_max = d.opcode == "max"
    if type_.is_integer or type_.name in ("u16x2", "s16x2", "u8x4", "s8x4"):
        relu = d.flag("relu")
        function = np.maximum if is_max else np.minimum
        if not relu:
            return integer_binary(d, type_, function)
        return integer_binary(d, type_, lambda a, b: np.maximum(function(a, b), 0))
    keeps_nan, magnitude = d.flag("NaN"), d.flag("abs")
    xor_sign = d.flag("xorsign")
    magnitude |= xor_sign and d.flag("abs")
    finish = _finish(d)
    arguments = len(d.operands) - 1

    def pick(*values: np.ndarray) -> np.ndarray:
        inputs = [np.abs(value) for value in values] if magnitude else list(values)
        result = inputs[0]
        for value in inputs[1:]:
            result = _extreme(result, value, is_max, keeps_nan)
        if xor_sign:
            sign = np.signbit(values[0]) ^ np.signbit(values[1])
            result = np.where(sign, -np.abs(result), np.abs(result))
        return result

    return float_rule(d, type_, pick, arguments, finish)


def _extreme(a: np.ndarray, b: np.ndarray, is_max: bool, keeps_nan: bool) -> np.ndarray:
    less = (a < b) | ((a == b) & np.signbit(a) & ~np.signbit(b))
    result = np.where(less == is_max, b, a)
    if keeps_nan:
        return np.where(np.isnan(a) | np.isnan(b), np.nan, result)
    result = np.where(np.isnan(a), b, np.where(np.isnan(b), a, result))
    return np.where(np.isnan(result), result + 0.0, result)  # a sum makes NaN quiet


@rule("copysign")
def copy_sign(d: Decoder) -> Execute:
    """`b` with the sign of `a`."""
    type_ = d.type()
    read_a, read_b, write = d.src(1, type_), d.src(2, type_), d.dst(0, type_)
    sign = type_.held.type(_SIGN[type_.name])

    def run(cta: Any, on: Any) -> None:
        a, b = read_a(cta).view(type_.held), read_b(cta).view(type_.held)
        write(cta, on, (a & sign) | (b & ~sign))

    return run


@rule("testp")
def test_property(d: Decoder) -> Execute:
    """`testp.{finite,infinite,number,notanumber,normal,subnormal}`."""
    type_ = d.type()
    what = d.choice("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    read, write = d.src(1, type_), d.dst(0, TYPES["pred"])
    smallest = np.finfo(type_.seen).tiny
    tests: dict[str | None, Function] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & (np.abs(a) >= smallest),
        "subnormal": lambda a: (np.abs(a) < smallest) & (a != 0),
    }
    if what is None:
        d.error("expected a property")
    return lambda cta, on: write(cta, on, tests[what](read(cta)))

"""Integer and bit operations at every width against Python's unbounded integers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, f32, i1, i32

from tests.kernels.kernel_builder import NO_OVERFLOW, SIGNED, UNSIGNED, evaluate, rounding
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
)

WIDTHS = (1, 8, 16, 32, 64)
SIGNS = {"signed": SIGNED, "unsigned": UNSIGNED}


def pairs(width: int) -> tuple[list[int], list[int]]:
    """Pairs of interesting signed values: extremes, small ones, random ones; 64 of them."""
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    rng = np.random.default_rng(width)
    special = [low, high, 0, -1, 1, 2, -3, 7]
    both = [(a, b) for a, b in itertools.product(special, special)]
    both = [(wrapped(a, width), wrapped(b, width)) for a, b in both][:48]
    extra = rng.integers(low, high, size=(16, 2), endpoint=True).tolist()
    lhs, rhs = zip(*(both + [tuple(pair) for pair in extra]))
    return list(lhs), list(rhs)


def wrapped(value: int, width: int) -> int:
    """The signed reading of the low bits."""
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def reading(value: int, width: int, sign: str) -> int:
    """The signed or unsigned reading of a signed value."""
    return value if sign == "signed" else value & ((1 << width) - 1)


def check(op_class, width, expected_of, **properties) -> None:
    """Compares an op's results with `expected_of` on Python integers, modulo 2**width."""
    lhs, rhs = pairs(width)
    type_ = IntegerType(width)
    result = evaluate(op_class, [(type_, lhs), (type_, rhs)], type_, **properties)
    for a, b, got in zip(lhs, rhs, result.tolist()):
        expected = expected_of(a, b)
        if expected is not None:
            got = -int(got) if width == 1 else got
            assert got == wrapped(expected, width), (a, b)


@pytest.mark.parametrize("width", WIDTHS)
def test_arithmetic_wraps_around(width):
    check(ct.AddIOp, width, lambda a, b: a + b, overflow=NO_OVERFLOW)
    check(ct.SubIOp, width, lambda a, b: a - b, overflow=NO_OVERFLOW)
    check(ct.MulIOp, width, lambda a, b: a * b, overflow=NO_OVERFLOW)


@pytest.mark.parametrize("width", WIDTHS)
def test_bitwise_operations(width):
    check(ct.AndIOp, width, lambda a, b: a & b)
    check(ct.OrIOp, width, lambda a, b: a | b)
    check(ct.XOrIOp, width, lambda a, b: a ^ b)


@pytest.mark.parametrize("width", WIDTHS)
def test_high_half_is_unsigned(width):
    mask = (1 << width) - 1
    check(ct.MulhiIOp, width, lambda a, b: ((a & mask) * (b & mask)) >> width)


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("width", WIDTHS)
def test_max_min_and_remainder_by_signedness(width, sign):
    attribute = SIGNS[sign]

    def read(value: int) -> int:
        return reading(value, width, sign)

    check(ct.MaxIOp, width, lambda a, b: max(read(a), read(b)), signedness=attribute)
    check(ct.MinIOp, width, lambda a, b: min(read(a), read(b)), signedness=attribute)

    def rest(a: int, b: int) -> int:
        a, b = read(a), read(b)
        return (
            a
            if b == 0
            else int(math.copysign(abs(a) % abs(b), a))
            if abs(a) < 2**50
            else (abs(a) % abs(b) * (1 if a > 0 else -1))
        )

    check(ct.RemIOp, width, rest, signedness=attribute)


DIVISIONS = [
    (mode, sign)
    for mode in ("zero", "positive_inf", "negative_inf")
    for sign in SIGNS
    if (mode, sign) != ("negative_inf", "unsigned")  # not a legal combination
]


@pytest.mark.parametrize("mode, sign", DIVISIONS)
@pytest.mark.parametrize("width", WIDTHS)
def test_division_rounds_as_told(width, sign, mode):
    def quotient(a: int, b: int) -> int:
        a, b = reading(a, width, sign), reading(b, width, sign)
        if b == 0:
            return 0
        floor, ceiling = a // b, -(-a // b)
        truncated = floor if (a < 0) == (b < 0) else ceiling
        return {"zero": truncated, "positive_inf": ceiling, "negative_inf": floor}[mode]

    check(ct.DivIOp, width, quotient, signedness=SIGNS[sign], rounding=rounding(mode))


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("width", WIDTHS)
def test_shifts_read_the_amount_unsigned_and_stop_at_the_width(width, sign):
    mask = (1 << width) - 1

    def left(a: int, b: int) -> int:
        return (a & mask) << (b & mask) if (b & mask) < width else 0

    def right(a: int, b: int) -> int:
        return reading(a, width, sign) >> min(b & mask, width)

    check(ct.ShLIOp, width, left, overflow=NO_OVERFLOW)
    check(ct.ShRIOp, width, right, signedness=SIGNS[sign])


@pytest.mark.parametrize("width", WIDTHS)
def test_unary_operations(width):
    values, _ = pairs(width)
    type_ = IntegerType(width)
    negated = evaluate(ct.NegIOp, [(type_, values)], type_, overflow=NO_OVERFLOW).tolist()
    absolute = evaluate(ct.AbsIOp, [(type_, values)], type_).tolist()
    sign = -1 if width == 1 else 1
    assert [sign * int(x) for x in negated] == [wrapped(-value, width) for value in values]
    assert [sign * int(x) for x in absolute] == [wrapped(abs(value), width) for value in values]


@pytest.mark.parametrize("predicate", list(ComparisonPredicate))
@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("width", WIDTHS)
def test_comparison_by_signedness(width, sign, predicate):
    lhs, rhs = pairs(width)
    type_ = IntegerType(width)
    result = evaluate(
        ct.CmpIOp,
        [(type_, lhs), (type_, rhs)],
        i1,
        comparison_predicate=ComparisonPredicateAttr(predicate),
        signedness=SIGNS[sign],
    ).tolist()
    relation = {
        "equal": int.__eq__,
        "not_equal": int.__ne__,
        "less_than": int.__lt__,
        "less_than_or_equal": int.__le__,
        "greater_than": int.__gt__,
        "greater_than_or_equal": int.__ge__,
    }[predicate.value]
    for a, b, got in zip(lhs, rhs, result):
        assert got == relation(reading(a, width, sign), reading(b, width, sign)), (a, b)


def test_select_takes_by_element():
    result = evaluate(
        ct.SelectOp, [(i1, [1, 0, 1, 0]), (f32, [1, 2, 3, 4]), (f32, [5, 6, 7, 8])], f32
    )
    assert result.tolist() == [1, 6, 3, 8]


def test_extremes_do_not_warn_or_raise():
    low = [-(2**31)] * 2
    result = evaluate(
        ct.DivIOp,
        [(i32, low), (i32, [-1, 0])],
        i32,
        signedness=SIGNED,
        rounding=rounding("zero"),
    )
    assert result.tolist() == [-(2**31), 0]

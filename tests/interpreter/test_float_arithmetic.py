"""Float arithmetic: rounding against exact fractions, NaN and zero rules, comparisons."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import bf16, f16, f32, f64, i1

from tests.kernels.kernel_builder import UNIT, evaluate, rounding
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonOrdering,
    ComparisonOrderingAttr,
    ComparisonPredicate,
    ComparisonPredicateAttr,
)
from tileiras.interpreter.formats import float_format_of

DIRECTED = ("zero", "negative_inf", "positive_inf")
MODES = ("nearest_even", *DIRECTED)
FLOATS = {"f16": f16, "bf16": bf16, "f32": f32, "f64": f64}


def exactly_rounded(exact: Fraction, type_, mode: str) -> float:
    """The nearest value of the type by integer arithmetic on fractions alone."""
    fmt = float_format_of(type_)
    if exact == 0:
        return 0.0
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    step = Fraction(2) ** (max(exponent, fmt.emin) - fmt.precision + 1)
    whole, rest = divmod(exact, step)
    up = {
        "nearest_even": rest * 2 > step or (rest * 2 == step and whole % 2 == 1),
        "zero": exact < 0 and rest != 0,
        "negative_inf": False,
        "positive_inf": rest != 0,
    }[mode]
    rounded = (whole + up) * step
    top = Fraction(fmt.max_finite)
    if abs(rounded) > top:
        keeps = mode == "zero" or (mode == "negative_inf") == (exact > 0)
        keeps = keeps and mode != "nearest_even"
        return math.copysign(fmt.max_finite if keeps else math.inf, -1 if exact < 0 else 1)
    return float(rounded)


def operands(type_, seed: int, count: int = 64) -> np.ndarray:
    """Normal, subnormal, huge and simple values of both signs."""
    fmt = float_format_of(type_)
    rng = np.random.default_rng(seed)
    spread = min(-fmt.emin, 900)
    values = rng.normal(size=count) * 2.0 ** rng.integers(-spread, spread, size=count)
    values[: count // 4] = rng.normal(size=count // 4)
    values[count // 4 : count // 4 + 4] = [1.0, -1.0, 1.5, 2.0**fmt.emin]
    with np.errstate(all="ignore"):
        held = values.astype(fmt.dtype)
    return np.where(np.isfinite(held), held, held.dtype.type(3.0))


def check_rounding(op_class, type_, mode, exact_of, tiles) -> None:
    """Compares an op's result with the exact one, element by element."""
    result = evaluate(
        op_class, [(type_, tile) for tile in tiles], type_, rounding_mode=rounding(mode)
    )
    for index, inputs in enumerate(zip(*tiles)):
        exact = exact_of(*(Fraction(float(value)) for value in inputs))
        expected = exactly_rounded(exact, type_, mode)
        assert float(result[index]) == expected, (inputs, float(result[index]), expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize(
    "op_class, exact_of",
    [
        (ct.AddFOp, lambda a, b: a + b),
        (ct.SubFOp, lambda a, b: a - b),
        (ct.MulFOp, lambda a, b: a * b),
        (ct.DivFOp, lambda a, b: a / b),
    ],
    ids=["addf", "subf", "mulf", "divf"],
)
def test_binary_op_rounds_the_exact_result_once(op_class, exact_of, name, mode):
    type_ = FLOATS[name]
    lhs, rhs = operands(type_, 1), operands(type_, 2)
    rhs = np.where(rhs == 0, rhs.dtype.type(1), rhs)
    check_rounding(op_class, type_, mode, exact_of, (lhs, rhs))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FLOATS)
def test_fma_rounds_the_exact_result_once(name, mode):
    type_ = FLOATS[name]
    lhs, rhs, acc = (operands(type_, seed) for seed in (3, 4, 5))
    with np.errstate(all="ignore"):
        cancelling = -(lhs * rhs)
    acc[::2] = np.where(np.isfinite(cancelling), cancelling, acc)[::2]
    check_rounding(ct.FmaOp, type_, mode, lambda a, b, c: a * b + c, (lhs, rhs, acc))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FLOATS)
def test_sqrt_is_on_the_right_side_of_the_exact_root(name, mode):
    type_ = FLOATS[name]
    source = np.abs(operands(type_, 6))
    result = evaluate(ct.SqrtOp, [(type_, source)], type_, rounding_mode=rounding(mode))
    fmt = float_format_of(type_)
    for value, root in zip(source, result):
        exact, got = Fraction(float(value)), Fraction(float(root))
        above = Fraction(float(np.nextafter(fmt.dtype.type(root), fmt.dtype.type(np.inf))))
        below = Fraction(float(np.nextafter(fmt.dtype.type(root), fmt.dtype.type(0))))
        match mode:
            case "positive_inf":
                assert below**2 < exact <= got**2 or exact == 0
            case "nearest_even":
                assert ((got + below) / 2) ** 2 <= exact <= ((got + above) / 2) ** 2
            case _:
                assert got**2 <= exact < above**2


def test_exact_zero_sum_is_negative_only_toward_negative_infinity():
    one = np.array([1.0, -1.0], np.float32)
    for mode in MODES:
        result = evaluate(ct.AddFOp, [(f32, one), (f32, -one)], f32, rounding_mode=rounding(mode))
        assert list(np.signbit(result)) == [mode == "negative_inf"] * 2


def test_flush_to_zero_flushes_operands_and_results_and_keeps_signs():
    tiny = np.float32(2.0**-130)
    lhs = np.array([tiny, -tiny, 2.0**-100, 1.0], np.float32)
    rhs = np.array([1.0, 1.0, -(2.0**-40), 2.0], np.float32)
    kept = evaluate(ct.MulFOp, [(f32, lhs), (f32, rhs)], f32, rounding_mode=rounding())
    flushed = evaluate(
        ct.MulFOp, [(f32, lhs), (f32, rhs)], f32, rounding_mode=rounding(), flush_to_zero=UNIT
    )
    np.testing.assert_array_equal(kept, lhs * rhs)
    assert kept[0] != 0 and kept[2] != 0
    np.testing.assert_array_equal(flushed, np.array([0, 0, 0, 2], np.float32))
    assert list(np.signbit(flushed)) == [False, True, True, False]


def test_division_by_zero_and_special_values_follow_ieee():
    lhs = np.array([1.0, -1.0, 0.0, np.inf, np.nan, 5.0], np.float32)
    rhs = np.array([0.0, 0.0, 0.0, np.inf, 1.0, np.inf], np.float32)
    for mode in MODES:
        result = evaluate(ct.DivFOp, [(f32, lhs), (f32, rhs)], f32, rounding_mode=rounding(mode))
        np.testing.assert_array_equal(result, [np.inf, -np.inf, np.nan, np.nan, np.nan, 0.0])


@pytest.mark.parametrize("name", FLOATS)
def test_max_and_min_ignore_nan_unless_told_to_propagate(name):
    type_ = FLOATS[name]
    nan = np.nan
    lhs = np.array([1, nan, 3, nan, 0.0, -0.0, -5, 2])
    rhs = np.array([2, 1, nan, nan, -0.0, 0.0, 4, 2])
    pair = [(type_, lhs), (type_, rhs)]
    top = evaluate(ct.MaxFOp, pair, type_)
    low = evaluate(ct.MinFOp, pair, type_)
    np.testing.assert_array_equal(top.astype(float), [2, 1, 3, nan, 0, 0, 4, 2])
    np.testing.assert_array_equal(low.astype(float), [1, 1, 3, nan, 0, 0, -5, 2])
    assert not np.signbit(top[4:6].astype(float)).any()
    assert np.signbit(low[4:6].astype(float)).all()
    strict = evaluate(ct.MaxFOp, pair, type_, propagate_nan=UNIT)
    np.testing.assert_array_equal(strict.astype(float), [2, nan, nan, nan, 0, 0, 4, 2])
    strict = evaluate(ct.MinFOp, pair, type_, propagate_nan=UNIT)
    np.testing.assert_array_equal(strict.astype(float), [1, nan, nan, nan, 0, 0, -5, 2])


@pytest.mark.parametrize("name", FLOATS)
def test_sign_and_rounding_to_integers(name):
    type_ = FLOATS[name]
    source = np.array([1.5, -1.5, -0.0, 2.0, -0.25, 0.75, np.inf, -7.0])
    for op_class, expected in [
        (ct.AbsFOp, np.abs(source)),
        (ct.NegFOp, -source),
        (ct.CeilOp, np.ceil(source)),
        (ct.FloorOp, np.floor(source)),
    ]:
        result = evaluate(op_class, [(type_, source)], type_).astype(float)
        np.testing.assert_array_equal(result, expected)
        np.testing.assert_array_equal(np.signbit(result), np.signbit(expected))


def test_remainder_is_truncated_and_has_the_sign_of_the_dividend():
    lhs = np.array([5.5, -5.5, 5.5, -5.5, 1e30, 3.0, 4.0, 1.0])
    rhs = np.array([2.0, 2.0, -2.0, -2.0, 7.0, np.inf, 0.0, 1.0])
    for type_, dtype in ((f32, np.float32), (f64, np.float64)):
        a, b = lhs.astype(dtype), rhs.astype(dtype)
        result = evaluate(ct.RemFOp, [(type_, a), (type_, b)], type_)
        for x, y, got in zip(a.tolist(), b.tolist(), result.tolist()):
            if y == 0:
                assert math.isnan(got)
            elif math.isinf(y):
                assert got == x
            else:
                assert got == float(math.fmod(x, y))


RELATIONS = {
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "less_than": lambda a, b: a < b,
    "less_than_or_equal": lambda a, b: a <= b,
    "greater_than": lambda a, b: a > b,
    "greater_than_or_equal": lambda a, b: a >= b,
}


@pytest.mark.parametrize("predicate", RELATIONS)
def test_compare_answers_nan_by_its_ordering(predicate):
    lhs = [1.0, 2.0, 2.0, math.nan, 1.0, math.nan, -0.0, math.inf]
    rhs = [2.0, 1.0, 2.0, 1.0, math.nan, math.nan, 0.0, math.inf]
    for ordering in ComparisonOrdering:
        result = evaluate(
            ct.CmpFOp,
            [(f32, lhs), (f32, rhs)],
            i1,
            comparison_predicate=ComparisonPredicateAttr(ComparisonPredicate(predicate)),
            comparison_ordering=ComparisonOrderingAttr(ordering),
        )
        expected = [
            ordering is ComparisonOrdering.UNORDERED
            if math.isnan(a) or math.isnan(b)
            else RELATIONS[predicate](a, b)
            for a, b in zip(lhs, rhs)
        ]
        assert result.tolist() == expected


def test_bfloat16_arithmetic_stays_bfloat16():
    values = np.array([1.0078125, 3.0], ml_dtypes.bfloat16)
    result = evaluate(ct.AddFOp, [(bf16, values), (bf16, values)], bf16, rounding_mode=rounding())
    assert result.dtype == ml_dtypes.bfloat16


def test_f64_fma_sees_what_lies_just_beside_a_tie():
    """The exact result is 2**54 + 6 - 2**-59; rounding the low parts first would make it a tie."""
    lhs, rhs, acc = 1 + 2.0**-30, 2 - 2.0**-29, 2.0**54 + 4
    operands_ = [(f64, [lhs, -lhs]), (f64, [rhs, rhs]), (f64, [acc, -acc])]
    result = evaluate(ct.FmaOp, operands_, f64, rounding_mode=rounding())
    assert result.tolist() == [acc, -acc]

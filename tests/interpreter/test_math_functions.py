"""Transcendental functions against Python's math module, within an ulp of the format."""

from __future__ import annotations

import math

import numpy as np
import pytest
from xdsl.dialects.builtin import bf16, f16, f32, f64, i32

from tests.kernels.kernel_builder import UNIT, evaluate, rounding
from tileiras.dialects import cuda_tile as ct
from tileiras.interpreter.formats import float_format_of

FULL = {"rounding_mode": rounding("full")}
POINTS = [0.5, 1.0, 1.25, 2.0, 0.125, 3.0, 0.75, 4.0]

UNARY = {
    "cos": (ct.CosOp, math.cos, {}),
    "cosh": (ct.CosHOp, math.cosh, {}),
    "exp": (ct.ExpOp, math.exp, FULL),
    "exp2": (ct.Exp2Op, lambda x: 2.0**x, {}),
    "log": (ct.LogOp, math.log, {}),
    "log2": (ct.Log2Op, math.log2, {}),
    "rsqrt": (ct.RsqrtOp, lambda x: 1 / math.sqrt(x), {}),
    "sin": (ct.SinOp, math.sin, {}),
    "sinh": (ct.SinHOp, math.sinh, {}),
    "tan": (ct.TanOp, math.tan, {}),
    "tanh": (ct.TanHOp, math.tanh, FULL),
}


def assert_within_an_ulp(result, expected, type_) -> None:
    """Every element is the nearest value of the format or its neighbour."""
    precision = float_format_of(type_).precision
    for got, want in zip(result.astype(float).tolist(), expected):
        step = 2.0 ** (math.floor(math.log2(abs(want))) - precision + 1) if want else 1e-12
        assert abs(got - want) <= step, (got, want)


@pytest.mark.parametrize("type_", [f16, bf16, f32, f64], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary_function(name, type_):
    op_class, function, properties = UNARY[name]
    result = evaluate(op_class, [(type_, POINTS)], type_, **properties)
    assert_within_an_ulp(result, [function(x) for x in POINTS], type_)


@pytest.mark.parametrize("type_", [f16, bf16, f32, f64], ids=str)
def test_binary_functions(type_):
    other = [2.0, -1.5, 0.5, 3.0, 1.0, -2.0, 0.25, 1.5]
    pair = [(type_, POINTS), (type_, other)]
    power = evaluate(ct.FPowFOp, pair, type_)
    assert_within_an_ulp(power, [x**y for x, y in zip(POINTS, other)], type_)
    angle = evaluate(ct.Atan2Op, pair, type_)
    assert_within_an_ulp(angle, [math.atan2(x, y) for x, y in zip(POINTS, other)], type_)


def test_integer_power_takes_negative_exponents():
    exponents = [2, -1, 0, 3, 1, -2, 5, -3]
    result = evaluate(ct.FPowIOp, [(f32, POINTS), (i32, exponents)], f32)
    assert_within_an_ulp(result, [x**n for x, n in zip(POINTS, exponents)], f32)


def test_special_values():
    source = np.array([np.inf, -np.inf, np.nan, 0.0], np.float32)
    assert evaluate(ct.ExpOp, [(f32, source)], f32, **FULL).tolist()[:2] == [math.inf, 0.0]
    logs = evaluate(ct.LogOp, [(f32, source)], f32)
    np.testing.assert_array_equal(logs, [np.inf, np.nan, np.nan, -np.inf])
    assert np.isnan(evaluate(ct.SqrtOp, [(f32, [-1.0])], f32, rounding_mode=rounding()))[0]


def test_flush_to_zero_of_exp2_and_rsqrt():
    result = evaluate(ct.Exp2Op, [(f32, [-130.0, 1.0])], f32, flush_to_zero=UNIT)
    assert result.tolist() == [0.0, 2.0]
    assert evaluate(ct.Exp2Op, [(f32, [-130.0])], f32).tolist() == [2.0**-130]
    tiny = evaluate(ct.RsqrtOp, [(f32, [2.0**-140])], f32, flush_to_zero=UNIT)
    assert tiny.tolist() == [math.inf]

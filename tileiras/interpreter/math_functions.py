"""Transcendental functions: computed in float64, rounded once to the result's format.

f64 results are numpy's own (within an ulp or two). `approx` and `full` are taken as correctly
rounded; whoever compares must allow the error that the specification grants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tileiras.dialects.cuda_tile import math as ct
from tileiras.dialects.cuda_tile.attributes import RoundingMode
from tileiras.interpreter.float_arithmetic import result_float_format, square_root
from tileiras.interpreter.formats import Array, int_format_of
from tileiras.interpreter.rounding import flush_subnormals, round_to
from tileiras.interpreter.state import PureRule


def _via_float64(compute: Callable[..., Array]) -> PureRule:
    """A rule that computes in float64 and honours `flush_to_zero` where the op has it."""

    def rule(op: Any, *operands: Array) -> Array:
        flushes = getattr(op, "flush_to_zero", None) is not None
        if flushes:
            operands = tuple(map(flush_subnormals, operands))
        wide = compute(*(operand.astype(np.float64) for operand in operands))
        result = round_to(wide, result_float_format(op), RoundingMode.NEAREST_EVEN)
        return flush_subnormals(result) if flushes else result

    return rule


def _power_of_integer(op: Any, base: Array, exponent: Array) -> Array:
    """The exponent is signed; a true i1 is -1."""
    signed = int_format_of(op.exponent.type.element_type).signed(exponent)
    return _via_float64(np.power)(op, base, signed)


def _sqrt_rule(op: ct.SqrtOp, source: Array) -> Array:
    flushes = op.flush_to_zero is not None
    if flushes:
        source = flush_subnormals(source)
    root = square_root(source, result_float_format(op), op.rounding_mode.data)
    return flush_subnormals(root) if flushes else root


RULES: dict[type[Operation], PureRule] = {
    ct.Atan2Op: _via_float64(np.arctan2),
    ct.CosOp: _via_float64(np.cos),
    ct.CosHOp: _via_float64(np.cosh),
    ct.ExpOp: _via_float64(np.exp),
    ct.Exp2Op: _via_float64(np.exp2),
    ct.FPowFOp: _via_float64(np.power),
    ct.FPowIOp: _power_of_integer,
    ct.LogOp: _via_float64(np.log),
    ct.Log2Op: _via_float64(np.log2),
    ct.RsqrtOp: _via_float64(lambda source: 1.0 / np.sqrt(source)),
    ct.SinOp: _via_float64(np.sin),
    ct.SinHOp: _via_float64(np.sinh),
    ct.SqrtOp: _sqrt_rule,
    ct.TanOp: _via_float64(np.tan),
    ct.TanHOp: _via_float64(np.tanh),
}
"""Mathematical functions by class."""

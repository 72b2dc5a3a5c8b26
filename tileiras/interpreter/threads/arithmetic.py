"""Arithmetic, conversions and comparisons of the llvm dialect, in all threads and lanes at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tileiras.dialects.llvm import arithmetic as ll
from tileiras.interpreter.threads.state import Lockstep, Rule
from tileiras.interpreter.threads.values import (
    Value,
    element_bits,
    from_bytes,
    from_float,
    masked,
    signed,
    to_bytes,
    to_float,
    unsigned,
)


def integers(compute: Callable[..., Any]) -> Rule:
    """A rule on patterns; the last argument of `compute` is the width of an element."""

    def rule(run: Lockstep, op: Operation) -> Value:
        type_ = op.results[0].type
        result = compute(*run.operands(op.operands), element_bits(type_))
        return masked(np.asarray(result).astype(np.uint64), type_)

    return rule


def signed_integers(compute: Callable[..., Any]) -> Rule:
    """A rule on two's complement numbers."""

    def rule(run: Lockstep, op: Operation) -> Value:
        type_ = op.results[0].type
        numbers = [signed(value, element_bits(type_)) for value in run.operands(op.operands)]
        return unsigned(compute(*numbers), type_)

    return rule


def floats(compute: Callable[..., Any]) -> Rule:
    """A rule on floats of the result's type, rounded once."""

    def rule(run: Lockstep, op: Operation) -> Value:
        type_ = op.results[0].type
        numbers = [to_float(value, type_) for value in run.operands(op.operands)]
        return from_float(compute(*numbers), type_)

    return rule


def _shift(compute: Callable[[Value, Value, int], Any]) -> Rule:
    """Distances of the width or more, whose result is poison, count as one less."""

    def shifted(lhs: Value, rhs: Value, width: int) -> Any:
        return compute(lhs, np.minimum(rhs, np.uint64(width - 1)), width)

    return integers(shifted)


def _truncating_divide(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    safe = np.where(rhs == 0, 1, rhs)
    sizes = (np.abs(x.astype(np.int64)).view(np.uint64) for x in (lhs, safe))
    size = np.floor_divide(*sizes).view(np.int64)
    return np.where((lhs < 0) != (safe < 0), -size, size).astype(lhs.dtype)


def _arithmetic_shift(lhs: Value, rhs: Value, width: int) -> Value:
    return (signed(lhs, width) >> rhs.astype(np.int64)).view(np.uint64)


def _negated(run: Lockstep, op: ll.FNegOp) -> Value:
    sign = np.uint64(1 << (element_bits(op.results[0].type) - 1))
    return run.operands(op.operands)[0] ^ sign


def _converted(convert: Callable[[Value, Any, Any], Value]) -> Rule:
    """A cast; `convert` takes a value, its type, and the result's."""

    def rule(run: Lockstep, op: Operation) -> Value:
        (operand,) = op.operands
        return convert(run.values[operand], operand.type, op.results[0].type)

    return rule


def _sign_extended(value: Value, source: Any, target: Any) -> Value:
    return unsigned(signed(value, element_bits(source)), target)


def _float_of_float(value: Value, source: Any, target: Any) -> Value:
    return from_float(to_float(value, source), target)


def _float_of_signed(value: Value, source: Any, target: Any) -> Value:
    return from_float(signed(value, element_bits(source)), target)


def _float_of_unsigned(value: Value, source: Any, target: Any) -> Value:
    return from_float(value, target)


def _integer_of_float(value: Value, source: Any, target: Any) -> Value:
    return unsigned(np.trunc(to_float(value, source).astype(np.float64)), target)


def _same_number(value: Value, source: Any, target: Any) -> Value:
    return masked(value, target)


def _same_bytes(value: Value, source: Any, target: Any) -> Value:
    return from_bytes(to_bytes(value, source), target)


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _compare_integers(run: Lockstep, op: ll.ICmpOp) -> Value:
    lhs, rhs = run.operands(op.operands)
    predicate = op.predicate.data
    if predicate[0] == "s":
        width = element_bits(op.operands[0].type)
        lhs, rhs = signed(lhs, width), signed(rhs, width)
    compare = _COMPARISONS[predicate if predicate in ("eq", "ne") else predicate[1:]]
    return compare(lhs, rhs).astype(np.uint64)


def _compare_floats(run: Lockstep, op: ll.FCmpOp) -> Value:
    lhs, rhs = (to_float(value, op.operands[0].type) for value in run.operands(op.operands))
    predicate = op.predicate.data
    unordered = np.isnan(lhs) | np.isnan(rhs)
    if predicate in ("ord", "uno"):
        return (unordered if predicate == "uno" else ~unordered).astype(np.uint64)
    answer = _COMPARISONS[predicate[1:]](lhs, rhs)
    result = answer | unordered if predicate[0] == "u" else answer & ~unordered
    return result.astype(np.uint64)


def _select(run: Lockstep, op: ll.SelectOp) -> Value:
    condition, lhs, rhs = run.operands(op.operands)
    if condition.ndim < lhs.ndim:
        condition = condition[:, None]
    return np.where(condition != 0, lhs, rhs)


RULES: dict[type[Operation], Rule] = {
    ll.AddOp: integers(lambda a, b, w: a + b),
    ll.SubOp: integers(lambda a, b, w: a - b),
    ll.MulOp: integers(lambda a, b, w: a * b),
    ll.AndOp: integers(lambda a, b, w: a & b),
    ll.OrOp: integers(lambda a, b, w: a | b),
    ll.XOrOp: integers(lambda a, b, w: a ^ b),
    ll.UDivOp: integers(lambda a, b, w: a // np.maximum(b, np.uint64(1))),
    ll.URemOp: integers(lambda a, b, w: a % np.maximum(b, np.uint64(1))),
    ll.SDivOp: signed_integers(_truncating_divide),
    ll.SRemOp: signed_integers(lambda a, b: a - _truncating_divide(a, b) * b),
    ll.ShlOp: _shift(lambda a, b, w: a << b),
    ll.LShrOp: _shift(lambda a, b, w: a >> b),
    ll.AShrOp: _shift(_arithmetic_shift),
    ll.FAddOp: floats(np.add),
    ll.FSubOp: floats(np.subtract),
    ll.FMulOp: floats(np.multiply),
    ll.FDivOp: floats(np.divide),
    ll.FNegOp: _negated,
    ll.TruncOp: _converted(_same_number),
    ll.ZExtOp: _converted(_same_number),
    ll.SExtOp: _converted(_sign_extended),
    ll.FPTruncOp: _converted(_float_of_float),
    ll.FPExtOp: _converted(_float_of_float),
    ll.FPToSIOp: _converted(_integer_of_float),
    ll.FPToUIOp: _converted(_integer_of_float),
    ll.SIToFPOp: _converted(_float_of_signed),
    ll.UIToFPOp: _converted(_float_of_unsigned),
    ll.BitcastOp: _converted(_same_bytes),
    ll.IntToPtrOp: _converted(_same_number),
    ll.PtrToIntOp: _converted(_same_number),
    ll.AddrSpaceCastOp: _converted(_same_number),
    ll.ICmpOp: _compare_integers,
    ll.FCmpOp: _compare_floats,
    ll.SelectOp: _select,
}
"""Operations on numbers."""

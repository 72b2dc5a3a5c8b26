"""Folds of integer operations: constants and identities, all exact in two's complement.

A fold gives the value or constant that the result of an operation is, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import SSAValue

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    RoundingMode,
    Signedness,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.element_types import FLOAT_FORMATS
from tileiras.passes.canonicalization.constants import (
    integer_splat,
    integer_width,
    splat_signed,
    splat_unsigned,
)

Folded = SSAValue | DenseAttr | None
Fold = Callable[[Any], Folded]


def _read(value: SSAValue, signedness: Signedness) -> int | None:
    return splat_signed(value) if signedness is Signedness.SIGNED else splat_unsigned(value)


def _binary(op: Any, evaluate: Callable[[int, int], int | None]) -> DenseAttr | None:
    """Evaluates an operation whose result depends on the low bits alone."""
    left, right = splat_unsigned(op.operands[0]), splat_unsigned(op.operands[1])
    if left is None or right is None:
        return None
    number = evaluate(left, right)
    return None if number is None else integer_splat(op.results[0].type, number)


def _fold_addi(op: Any) -> Folded:
    if splat_unsigned(op.rhs) == 0:
        return op.lhs
    return _binary(op, lambda left, right: left + right)


def _fold_subi(op: Any) -> Folded:
    if splat_unsigned(op.rhs) == 0:
        return op.lhs
    if op.lhs is op.rhs:
        return integer_splat(op.result.type, 0)
    return _binary(op, lambda left, right: left - right)


def _fold_muli(op: Any) -> Folded:
    right = splat_unsigned(op.rhs)
    if right == 1:
        return op.lhs
    if right == 0:
        return op.rhs
    return _binary(op, lambda left, right: left * right)


def _fold_mulhii(op: Any) -> Folded:
    width = integer_width(op.result.type) or 0
    return _binary(op, lambda left, right: (left * right) >> width)


def divide(left: int, right: int, rounding: RoundingMode) -> int:
    """Integer division, rounded down, up or towards zero. `right` is not zero."""
    floor = left // right
    if rounding is RoundingMode.NEGATIVE_INF or left % right == 0:
        return floor
    if rounding is RoundingMode.POSITIVE_INF:
        return floor + 1
    return floor + 1 if (left < 0) != (right < 0) else floor


def _fold_divi(op: Any) -> Folded:
    sign = op.signedness.data
    right = _read(op.rhs, sign)
    if right is None or right == 0:
        return None
    if right == 1:
        return op.lhs
    left = _read(op.lhs, sign)
    width = integer_width(op.result.type) or 0
    if left is None or (sign is Signedness.SIGNED and right == -1 and left == -1 << (width - 1)):
        return None
    return integer_splat(op.result.type, divide(left, right, op.rounding.data))


def _fold_remi(op: Any) -> Folded:
    sign = op.signedness.data
    left, right = _read(op.lhs, sign), _read(op.rhs, sign)
    if right is None or right == 0:
        return None
    if right == 1:
        return integer_splat(op.result.type, 0)
    if left is None:
        return None
    return integer_splat(op.result.type, left - right * divide(left, right, RoundingMode.ZERO))


def _all_ones(value: SSAValue) -> bool:
    width = integer_width(value.type) or 0
    return splat_unsigned(value) == (1 << width) - 1


def _fold_andi(op: Any) -> Folded:
    if op.lhs is op.rhs or _all_ones(op.rhs):
        return op.lhs
    if splat_unsigned(op.rhs) == 0:
        return op.rhs
    return _binary(op, lambda left, right: left & right)


def _fold_ori(op: Any) -> Folded:
    if op.lhs is op.rhs or splat_unsigned(op.rhs) == 0:
        return op.lhs
    if _all_ones(op.rhs):
        return op.rhs
    return _binary(op, lambda left, right: left | right)


def _fold_xori(op: Any) -> Folded:
    if splat_unsigned(op.rhs) == 0:
        return op.lhs
    if op.lhs is op.rhs:
        return integer_splat(op.result.type, 0)
    return _binary(op, lambda left, right: left ^ right)


def _fold_shift(op: Any) -> Folded:
    amount = splat_unsigned(op.rhs)
    if amount == 0:
        return op.lhs
    width = integer_width(op.result.type) or 0
    if amount is None or amount >= width:
        return None
    if isinstance(op, ct.ShLIOp):
        return _binary(op, lambda left, right: left << right)
    left = _read(op.lhs, op.signedness.data)
    return None if left is None else integer_splat(op.result.type, left >> amount)


def _fold_extremum(op: Any) -> Folded:
    if op.lhs is op.rhs:
        return op.lhs
    left, right = _read(op.lhs, op.signedness.data), _read(op.rhs, op.signedness.data)
    if left is None or right is None:
        return None
    takes_left = left >= right if isinstance(op, ct.MaxIOp) else left <= right
    return op.lhs if takes_left else op.rhs


COMPARISONS: dict[ComparisonPredicate, Callable[[int, int], bool]] = {
    ComparisonPredicate.EQUAL: lambda left, right: left == right,
    ComparisonPredicate.NOT_EQUAL: lambda left, right: left != right,
    ComparisonPredicate.LESS_THAN: lambda left, right: left < right,
    ComparisonPredicate.LESS_THAN_OR_EQUAL: lambda left, right: left <= right,
    ComparisonPredicate.GREATER_THAN: lambda left, right: left > right,
    ComparisonPredicate.GREATER_THAN_OR_EQUAL: lambda left, right: left >= right,
}


def _fold_cmpi(op: Any) -> Folded:
    compare = COMPARISONS[op.comparison_predicate.data]
    if op.lhs is op.rhs:
        return integer_splat(op.result.type, int(compare(0, 0)))
    left, right = _read(op.lhs, op.signedness.data), _read(op.rhs, op.signedness.data)
    if left is None or right is None:
        return None
    return integer_splat(op.result.type, int(compare(left, right)))


def _fold_negi(op: Any) -> Folded:
    number = splat_unsigned(op.source)
    return None if number is None else integer_splat(op.result.type, -number)


def _fold_absi(op: Any) -> Folded:
    number = splat_signed(op.source)
    return None if number is None else integer_splat(op.result.type, abs(number))


def _fold_exti(op: Any) -> Folded:
    number = _read(op.source, op.signedness.data)
    return None if number is None else integer_splat(op.result.type, number)


def _fold_trunci(op: Any) -> Folded:
    number = splat_unsigned(op.source)
    if number is not None:
        return integer_splat(op.result.type, number)
    maker = op.source.owner
    if isinstance(maker, ct.ExtIOp) and maker.source.type == op.result.type:
        return maker.source
    return None


def _fold_itof(op: Any) -> Folded:
    """Exact: rounds to nearest even, and does not fold what is out of range."""
    number = _read(op.source, op.signedness.data)
    type = op.result.type
    form = FLOAT_FORMATS.get(type.element_type.__class__)
    if number is None or form is None:
        return None
    from fractions import Fraction

    from tileiras.dialects.cuda_tile.text.floats import encode_float

    bits = encode_float(number < 0, Fraction(abs(number)), form)
    return None if bits is None else DenseAttr(type, bits.to_bytes(form.storage_bytes, "little"))


INTEGER_FOLDS: dict[type, Fold] = {
    ct.AddIOp: _fold_addi,
    ct.SubIOp: _fold_subi,
    ct.MulIOp: _fold_muli,
    ct.MulhiIOp: _fold_mulhii,
    ct.DivIOp: _fold_divi,
    ct.RemIOp: _fold_remi,
    ct.AndIOp: _fold_andi,
    ct.OrIOp: _fold_ori,
    ct.XOrIOp: _fold_xori,
    ct.ShLIOp: _fold_shift,
    ct.ShRIOp: _fold_shift,
    ct.MaxIOp: _fold_extremum,
    ct.MinIOp: _fold_extremum,
    ct.CmpIOp: _fold_cmpi,
    ct.NegIOp: _fold_negi,
    ct.AbsIOp: _fold_absi,
    ct.ExtIOp: _fold_exti,
    ct.TruncIOp: _fold_trunci,
    ct.IToFOp: _fold_itof,
}

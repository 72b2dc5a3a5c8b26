"""Integer and bit operations of every width: wrap-around, both signednesses.

What the specification leaves undefined is fixed so that runs are repeatable: division by zero
gives 0 and leaves the dividend as remainder; a shift by the width or more gives 0, or the sign.
Overflow flags (`no_signed_wrap`...) are promises and change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tileiras.dialects.cuda_tile import arithmetic as ct
from tileiras.dialects.cuda_tile import bitwise
from tileiras.dialects.cuda_tile.attributes import RoundingMode, Signedness
from tileiras.interpreter.float_arithmetic import COMPARE
from tileiras.interpreter.formats import Array, IntFormat, int_format_of
from tileiras.interpreter.state import PureRule

_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF_BITS = np.uint64(32)


def is_signed(op: Any) -> bool:
    """Whether the op's `signedness` is signed."""
    return op.signedness.data is Signedness.SIGNED


def _format(op: Operation) -> IntFormat:
    return int_format_of(op.operands[0].type.element_type)  # pyright: ignore


def _wrapping(compute: Callable[..., Array]) -> PureRule:
    """A rule for an operation whose low bits do not depend on the signedness."""

    def rule(op: Operation, *operands: Array) -> Array:
        fmt = _format(op)
        return fmt.wrap(compute(*map(fmt.signed, operands)))

    return rule


def _by_signedness(compute: Callable[[Array, Array], Array]) -> PureRule:
    def rule(op: Operation, lhs: Array, rhs: Array) -> Array:
        fmt = _format(op)
        return fmt.wrap(compute(fmt.read(lhs, is_signed(op)), fmt.read(rhs, is_signed(op))))

    return rule


def divide(lhs: Array, rhs: Array, mode: RoundingMode) -> Array:
    """The quotient of integers of one numpy type, rounded by `mode`; 0 where `rhs` is 0."""
    divisor = np.where(rhs == 0, rhs.dtype.type(1), rhs)
    quotient = lhs // divisor
    has_rest = (lhs - quotient * divisor) != 0
    match mode:
        case RoundingMode.POSITIVE_INF:
            quotient = quotient + has_rest
        case RoundingMode.ZERO:
            quotient = quotient + (has_rest & ((lhs < 0) != (divisor < 0)))
    return np.where(rhs == 0, rhs.dtype.type(0), quotient)


def remainder(lhs: Array, rhs: Array) -> Array:
    """`lhs - trunc(lhs / rhs) * rhs`; `lhs` where `rhs` is 0."""
    return lhs - divide(lhs, rhs, RoundingMode.ZERO) * rhs


def high_half(lhs: Array, rhs: Array, bits: int) -> Array:
    """The upper `bits` bits of the unsigned product."""
    a, b = lhs.astype(np.uint64), rhs.astype(np.uint64)
    if bits < 64:
        return (a * b) >> np.uint64(bits)
    a_low, a_high = a & _LOW_HALF, a >> _HALF_BITS
    b_low, b_high = b & _LOW_HALF, b >> _HALF_BITS
    middle = a_high * b_low + ((a_low * b_low) >> _HALF_BITS)
    other = a_low * b_high + (middle & _LOW_HALF)
    return a_high * b_high + (middle >> _HALF_BITS) + (other >> _HALF_BITS)


def _mulhi_rule(op: Operation, lhs: Array, rhs: Array) -> Array:
    fmt = _format(op)
    return fmt.wrap(high_half(fmt.unsigned(lhs), fmt.unsigned(rhs), fmt.bits))


def _divide_rule(op: ct.DivIOp, lhs: Array, rhs: Array) -> Array:
    fmt = _format(op)
    lhs, rhs = fmt.read(lhs, is_signed(op)), fmt.read(rhs, is_signed(op))
    return fmt.wrap(divide(lhs, rhs, op.rounding.data))


def _compare_rule(op: ct.CmpIOp, lhs: Array, rhs: Array) -> Array:
    fmt = _format(op)
    lhs, rhs = fmt.read(lhs, is_signed(op)), fmt.read(rhs, is_signed(op))
    return COMPARE[op.comparison_predicate.data](lhs, rhs)


def _shift_left_rule(op: bitwise.ShLIOp, lhs: Array, rhs: Array) -> Array:
    fmt = _format(op)
    value, amount = fmt.unsigned(lhs), fmt.unsigned(rhs)
    is_inside = amount < fmt.bits
    shifted = value << np.where(is_inside, amount, amount.dtype.type(0))
    return fmt.wrap(np.where(is_inside, shifted, value.dtype.type(0)))


def _shift_right_rule(op: bitwise.ShRIOp, lhs: Array, rhs: Array) -> Array:
    fmt = _format(op)
    value, amount = fmt.read(lhs, is_signed(op)), fmt.unsigned(rhs)
    clamped = np.minimum(amount, amount.dtype.type(fmt.bits - 1)).astype(value.dtype)
    shifted = value >> clamped
    if is_signed(op):
        return fmt.wrap(shifted)
    return fmt.wrap(np.where(amount < fmt.bits, shifted, value.dtype.type(0)))


def _select_rule(op: ct.SelectOp, cond: Array, if_true: Array, if_false: Array) -> Array:
    return np.where(cond, if_true, if_false)


RULES: dict[type[Operation], PureRule] = {
    ct.AbsIOp: _wrapping(np.abs),
    ct.AddIOp: _wrapping(np.add),
    ct.CmpIOp: _compare_rule,
    ct.DivIOp: _divide_rule,
    ct.MaxIOp: _by_signedness(np.maximum),
    ct.MinIOp: _by_signedness(np.minimum),
    ct.MulIOp: _wrapping(np.multiply),
    ct.MulhiIOp: _mulhi_rule,
    ct.NegIOp: _wrapping(np.negative),
    ct.RemIOp: _by_signedness(remainder),
    ct.SelectOp: _select_rule,
    ct.SubIOp: _wrapping(np.subtract),
    bitwise.AndIOp: _wrapping(np.bitwise_and),
    bitwise.OrIOp: _wrapping(np.bitwise_or),
    bitwise.ShLIOp: _shift_left_rule,
    bitwise.ShRIOp: _shift_right_rule,
    bitwise.XOrIOp: _wrapping(np.bitwise_xor),
}
"""Integer and bit operations by class."""

"""How many iterations loops have at most, where that is known: those over a window of keys.

    for %j in [max(128 * %b - 127, 0) / 128, min(%b + 1, %n)) has at most 2

A bound is a sum of numbers times constants. Divisions keep it where they divide the factors, and
a minimum is at most either of its operands. What is left when the bounds of both ends are
subtracted is a constant, or the length is not known. Numbers that wrap are not thought of: nothing
but the order of work depends on the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from xdsl.ir import OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import RoundingMode
from tileiras.dialects.cuda_tile.constants import DenseAttr

MOST_BOUNDS = 8
"""Policy: bounds of a value that are looked at."""


@dataclass(frozen=True)
class Bound:
    """`constant` and the sum of values times factors."""

    constant: int = 0
    factors: Mapping[SSAValue, int] = field(default_factory=dict[SSAValue, int])

    def plus(self, other: Bound, times: int = 1) -> Bound:
        """The sum with so many times another bound."""
        factors = dict(self.factors)
        for value, factor in other.factors.items():
            factors[value] = factors.get(value, 0) + times * factor
        left = {value: factor for value, factor in factors.items() if factor}
        return Bound(self.constant + times * other.constant, left)

    def divided(self, by: int, *, is_up: bool) -> Bound | None:
        """The quotient, if all factors can be divided."""
        if any(factor % by for factor in self.factors.values()):
            return None
        quotient = -(-self.constant // by) if is_up else self.constant // by
        return Bound(quotient, {value: factor // by for value, factor in self.factors.items()})


def most_iterations(func: aa.FuncOp) -> int | None:
    """How many iterations all loops with products of a kernel have together at most."""
    loops = [op for op in func.walk() if isinstance(op, aa.ForOp)]
    loops = [loop for loop in loops if any(isinstance(op, aa.ProductOp) for op in loop.walk())]
    lengths = [_longest(loop) for loop in loops]
    known = [length for length in lengths if length is not None]
    return sum(known) if loops and len(known) == len(loops) else None


def _longest(loop: aa.ForOp) -> int | None:
    """How many iterations a loop has at most."""
    step = _constant(loop.step)
    if step is None or step < 1:
        return None
    ends = [
        upper.plus(lower, -1)
        for upper in _bounds(loop.upper_bound, is_upper=True)
        for lower in _bounds(loop.lower_bound, is_upper=False)
    ]
    known = [max(0, end.constant) for end in ends if not end.factors]
    return -(-min(known) // step) if known else None


def _constant(value: SSAValue) -> int | None:
    """The number that an integer is, if it is a constant."""
    if not isinstance(value, OpResult) or not isinstance(value.op, aa.ConstantOp):
        return None
    constant = value.op.value
    return int.from_bytes(constant.raw.data, "little", signed=True) if _is_one(constant) else None


def _is_one(constant: DenseAttr) -> bool:
    return not constant.type.shape


def _bounds(value: SSAValue, *, is_upper: bool) -> list[Bound]:
    """What an integer is at most, or at least: each by itself."""
    itself = Bound(0, {value: 1})
    number = _constant(value)
    if number is not None:
        return [Bound(number)]
    if not isinstance(value, OpResult):
        return [itself]
    match value.op:
        case aa.AddIOp() as op:
            found = _pairs(op.lhs, op.rhs, is_upper, is_upper, lambda a, b: a.plus(b))
        case aa.SubIOp() as op:
            found = _pairs(op.lhs, op.rhs, is_upper, not is_upper, lambda a, b: a.plus(b, -1))
        case aa.MulIOp() as op:
            found = _times(op, is_upper)
        case aa.DivIOp() as op:
            found = _quotients(op, is_upper)
        case aa.MinIOp() as op if is_upper:
            found = [*_bounds(op.lhs, is_upper=True), *_bounds(op.rhs, is_upper=True)]
        case aa.MaxIOp() as op if not is_upper:
            found = [*_bounds(op.lhs, is_upper=False), *_bounds(op.rhs, is_upper=False)]
        case _:
            found = []
    return found[:MOST_BOUNDS] or [itself]


def _pairs(
    lhs: SSAValue,
    rhs: SSAValue,
    is_upper_lhs: bool,
    is_upper_rhs: bool,
    combined: Callable[[Bound, Bound], Bound],
) -> list[Bound]:
    """Each bound of one value with each of another."""
    lefts, rights = _bounds(lhs, is_upper=is_upper_lhs), _bounds(rhs, is_upper=is_upper_rhs)
    return [combined(left, right) for left in lefts for right in rights]


def _times(op: aa.MulIOp, is_upper: bool) -> list[Bound]:
    """Bounds of a product with a constant."""
    for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        factor = _constant(other)
        if factor is not None:
            side = is_upper if factor > 0 else not is_upper
            return [Bound().plus(bound, factor) for bound in _bounds(value, is_upper=side)]
    return []


def _quotients(op: aa.DivIOp, is_upper: bool) -> list[Bound]:
    """Bounds of a quotient by a constant that divides what is not constant."""
    by = _constant(op.rhs)
    if by is None or by < 1:
        return []
    is_up = op.rounding.data is RoundingMode.POSITIVE_INF
    quotients: Iterable[Bound | None] = (
        bound.divided(by, is_up=is_up or (op.rounding.data is RoundingMode.ZERO and is_upper))
        for bound in _bounds(op.lhs, is_upper=is_upper)
    )
    return [quotient for quotient in quotients if quotient is not None]

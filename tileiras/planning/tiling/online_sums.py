"""What the values of a loop that computes softmax in one pass mean: maxima, powers, sums.

    %m2 = max(%m, max(%s) * c)         a maximum of a row, of all tiles so far
    %p  = exp2(%s * c - %m2)           powers below it, of one tile
    %f  = exp2(%m - %m2)               what sums below the maximum before are scaled by
    %l2 = %l * %f + sum(%p)            a sum below the maximum, of all tiles so far
    %o2 = %o * %f + %p @ %v            another one

Since 2^(a - b) * 2^(b - c) = 2^(a - c), two iterations give what one with both tiles side by side
gives. Sums that are not scaled (`%o2 = %o + %a @ %b`) are so, too. Any other use of what a loop
carries is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa

Factor = SSAValue | bytes
"""A scalar, or the bytes of a constant."""


class CannotJoinError(Exception):
    """Two iterations would give something else; never leaves `joined_iterations`."""


class Kind(Enum):
    """What a value is, as far as iterations are concerned."""

    FIXED = auto()
    """The same in all iterations."""
    TILE = auto()
    """Elements of one tile, nothing carried in them."""
    MAXIMUM = auto()
    """The maximum of one tile, of what is fixed, or of both."""
    TOP = auto()
    """That, and of all tiles before: a carried maximum."""
    BELOW = auto()
    """Something, and carried maxima times `before` and `after`."""
    POWER = auto()
    """Elements of one tile times a power of `after` times the new maximum."""
    PART = auto()
    """A sum over one tile; of powers if there is `after`."""
    FADE = auto()
    """The power by which a sum below the maximum before becomes one below the new one."""
    SUM = auto()
    """A carried sum."""
    SCALED = auto()
    """A carried sum below the new maximum."""
    NEXT = auto()
    """The same with one tile more: what is carried next."""


@dataclass(frozen=True)
class Term:
    """A product of fixed numbers, with a sign: the factor of a maximum."""

    sign: int
    factors: tuple[Factor, ...] = ()

    def times(self, factor: Factor) -> Term:
        """With one factor more; factors have no order."""
        return Term(self.sign, tuple(sorted((*self.factors, factor), key=_order)))

    def negated(self) -> Term:
        """With the other sign."""
        return Term(-self.sign, self.factors)


@dataclass(frozen=True)
class Meaning:
    """What a value is. `carried`: the position of a sum; `base`: the function of powers."""

    kind: Kind
    before: Term | None = None
    after: Term | None = None
    has_rest: bool = False
    base: type[Operation] | None = None
    carried: int = -1


FIXED = Meaning(Kind.FIXED)
TILE = Meaning(Kind.TILE)
MAXIMUM = Meaning(Kind.MAXIMUM)
TOP = Meaning(Kind.TOP)
BEFORE = Meaning(Kind.BELOW, before=Term(1))
"""The maximum that an iteration gets."""
AFTER = Meaning(Kind.BELOW, after=Term(1))
"""The maximum that it hands on."""
_PLAIN = (Kind.FIXED, Kind.TILE)


def negated(meaning: Meaning) -> Meaning:
    """Of the value times -1."""
    if meaning.kind in _PLAIN:
        return meaning
    if meaning.kind is not Kind.BELOW:
        raise CannotJoinError("what is negated is neither of a tile nor below a maximum")
    before = meaning.before.negated() if meaning.before is not None else None
    after = meaning.after.negated() if meaning.after is not None else None
    return Meaning(Kind.BELOW, before, after, meaning.has_rest)


def added(lhs: Meaning, rhs: Meaning) -> Meaning:
    """Of a sum of two values."""
    kinds = {lhs.kind, rhs.kind}
    if kinds <= set(_PLAIN):
        return TILE if Kind.TILE in kinds else FIXED
    if kinds <= {Kind.BELOW, *_PLAIN}:
        return _added_below(lhs, rhs)
    if lhs.kind is Kind.PART:
        lhs, rhs = rhs, lhs
    if rhs.kind is not Kind.PART:
        raise CannotJoinError("what is added is no sum over a tile")
    is_scaled = lhs.kind is Kind.SCALED and (lhs.after, lhs.base) == (rhs.after, rhs.base)
    is_plain = lhs.kind is Kind.SUM and rhs.after is None
    if not is_scaled and not is_plain:
        raise CannotJoinError("a sum is not scaled as its powers are")
    return Meaning(Kind.NEXT, carried=lhs.carried)


def _added_below(lhs: Meaning, rhs: Meaning) -> Meaning:
    """Of a sum with maxima in it: each maximum in one of the two."""
    both = [meaning for meaning in (lhs, rhs) if meaning.kind is Kind.BELOW]
    befores = [meaning.before for meaning in both if meaning.before is not None]
    afters = [meaning.after for meaning in both if meaning.after is not None]
    if len(befores) > 1 or len(afters) > 1:
        raise CannotJoinError("a maximum is added twice")
    has_rest = len(both) < 2 or any(meaning.has_rest for meaning in both)
    before, after = (terms[0] if terms else None for terms in (befores, afters))
    return Meaning(Kind.BELOW, before, after, has_rest)


def multiplied(lhs: Meaning, rhs: Meaning) -> Meaning:
    """Of a product of two values; maxima are multiplied by `Meaning`s of their own."""
    if lhs.kind in (Kind.FADE, Kind.FIXED, Kind.TILE):
        lhs, rhs = rhs, lhs
    kinds = (lhs.kind, rhs.kind)
    if lhs.kind in _PLAIN and rhs.kind in _PLAIN:
        return TILE if Kind.TILE in kinds else FIXED
    if kinds == (Kind.SUM, Kind.FADE):
        return Meaning(Kind.SCALED, after=rhs.after, base=rhs.base, carried=lhs.carried)
    if lhs.kind is Kind.POWER and rhs.kind in _PLAIN:
        return lhs
    if lhs.kind is Kind.PART and rhs.kind is Kind.FIXED:
        return lhs
    raise CannotJoinError("a factor of what is carried")


def scaled(meaning: Meaning, factor: Factor) -> Meaning:
    """Of a value with maxima in it, times a fixed number."""
    before = meaning.before.times(factor) if meaning.before is not None else None
    after = meaning.after.times(factor) if meaning.after is not None else None
    return Meaning(Kind.BELOW, before, after, meaning.has_rest)


def largest(lhs: Meaning, rhs: Meaning) -> Meaning:
    """Of the maximum of two values."""
    kinds = {lhs.kind, rhs.kind}
    if kinds <= {Kind.MAXIMUM, Kind.FIXED}:
        return MAXIMUM if Kind.MAXIMUM in kinds else FIXED
    if any(meaning.kind is Kind.BELOW and meaning != BEFORE for meaning in (lhs, rhs)):
        raise CannotJoinError("a maximum of what is below another one")
    if kinds <= {Kind.TOP, Kind.BELOW, Kind.MAXIMUM, Kind.FIXED}:
        return TOP
    if kinds == {Kind.TILE} or kinds == {Kind.TILE, Kind.FIXED}:
        return TILE
    raise CannotJoinError("a maximum of sums or powers")


def power(meaning: Meaning, base: type[Operation]) -> Meaning:
    """Of a power of a value."""
    if meaning.kind in _PLAIN:
        return meaning
    if meaning.kind is not Kind.BELOW or meaning.after is None or meaning.after.sign > 0:
        raise CannotJoinError("a power that is not below the new maximum")
    if meaning.before is None and meaning.has_rest:
        return Meaning(Kind.POWER, after=meaning.after, base=base)
    if meaning.before == meaning.after.negated() and not meaning.has_rest:
        return Meaning(Kind.FADE, after=meaning.after, base=base)
    raise CannotJoinError("a power of both maxima and something else")


def summed(meanings: Sequence[Meaning]) -> Meaning:
    """Of a sum along the tile, of a product of values of which at most one is a power."""
    powers = [meaning for meaning in meanings if meaning.kind is Kind.POWER]
    others = [meaning for meaning in meanings if meaning.kind in _PLAIN]
    if len(powers) > 1 or len(powers) + len(others) < len(meanings):
        raise CannotJoinError("a sum of what is no power")
    if not powers:
        return Meaning(Kind.PART)
    return Meaning(Kind.PART, after=powers[0].after, base=powers[0].base)


def fixed_scalar(value: SSAValue) -> Factor | None:
    """The number that all elements of a tile are: a scalar, or a constant's bytes."""
    while isinstance(value, OpResult):
        op = value.op
        if isinstance(op, aa.ConstantOp):
            return op.value.raw.data if op.value.is_splat else None
        if not isinstance(op, aa.SplatOp | aa.BroadcastOp | aa.ReshapeOp):
            break
        value = op.source
    return None if isinstance(value.type, TensorType) else value


def _order(factor: Factor) -> tuple[bool, bytes, int]:
    """An order of factors, for which only equality counts."""
    return (True, factor, 0) if isinstance(factor, bytes) else (False, b"", id(factor))


__all__ = [
    "AFTER",
    "BEFORE",
    "FIXED",
    "MAXIMUM",
    "TILE",
    "CannotJoinError",
    "Factor",
    "Kind",
    "Meaning",
    "Term",
    "added",
    "fixed_scalar",
    "largest",
    "multiplied",
    "negated",
    "power",
    "scaled",
    "summed",
]

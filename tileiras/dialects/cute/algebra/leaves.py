"""The leaves of shapes and strides: static integers, dynamic integers, and basis elements.

A static integer is a Python int. `Dynamic` is a polynomial in values known at run time. `Basis` is
an integer combination of the unit vectors `E<i>`, `E<i,j>` .. of a coordinate space, which is what
the strides of TMA tensors are: such a layout maps coordinates to coordinates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd

from tileiras.dialects.cute.algebra.errors import AlgebraError

Monomial = tuple[str, ...]
Path = tuple[int, ...]
UNKNOWN = "?"
"""The name of a value of which nothing is known, not even that it equals itself elsewhere."""

_UNKNOWN_TEXT = re.compile(r"\?(?:\{div=(\d+)\})?")


@dataclass(frozen=True)
class Dynamic:
    """An integer known at run time: a polynomial, `((("M", "N"), 2), ((), 1))` is `2*M*N+1`.

    Sums and products are exact. The symbol `?` is a different value wherever it occurs.
    """

    terms: tuple[tuple[Monomial, int], ...]

    @classmethod
    def symbol(cls, name: str, divisibility: int = 1) -> Dynamic:
        """The value `name`, or `divisibility` times an unknown for `?`."""
        return cls((((name,), divisibility),))

    @property
    def is_known(self) -> bool:
        """Whether the value is a polynomial in named symbols only."""
        return all(UNKNOWN not in monomial for monomial, _ in self.terms)

    @property
    def divisibility(self) -> int:
        """The largest integer that divides the value whatever its symbols are."""
        return gcd(*(coefficient for _, coefficient in self.terms))

    def __add__(self, other: object) -> Dynamic | int:
        """The sum with an int or another dynamic value."""
        match other:
            case int():
                return _collected([*self.terms, ((), other)])
            case Dynamic():
                if not (self.is_known or other.is_known):
                    return Dynamic.symbol(UNKNOWN, gcd(self.divisibility, other.divisibility))
                return _collected([*self.terms, *other.terms])
            case _:
                return NotImplemented

    def __mul__(self, other: object) -> Dynamic | int:
        """The product with an int or another dynamic value."""
        match other:
            case int():
                return _collected((monomial, c * other) for monomial, c in self.terms)
            case Dynamic():
                return _collected(
                    (tuple(sorted(left + right)), a * b)
                    for left, a in self.terms
                    for right, b in other.terms
                )
            case _:
                return NotImplemented

    __radd__ = __add__
    __rmul__ = __mul__

    def divided_by(self, divisor: int) -> Dynamic | int:
        """The exact quotient; AlgebraError unless `divisor` is known to divide the value."""
        if divisor < 1 or self.divisibility % divisor:
            raise AlgebraError(f"{self} is not known to be divisible by {divisor}")
        return _collected((monomial, c // divisor) for monomial, c in self.terms)

    def __str__(self) -> str:
        if not self.is_known:
            factor = self.divisibility
            return UNKNOWN if factor == 1 else f"{UNKNOWN}{{div={factor}}}"
        return "+".join(_term_text(monomial, c) for monomial, c in self.terms).replace("+-", "-")


@dataclass(frozen=True)
class Basis:
    """A combination of unit vectors of a coordinate space: `1@1@0` is `E<0,1>`, 1 in mode 1 of
    mode 0.

    `terms` are (path from the outside, coefficient), sorted, none zero. Adding 0 changes nothing.
    """

    terms: tuple[tuple[Path, int | Dynamic], ...]

    @classmethod
    def unit(cls, *path: int) -> Basis:
        """`E<path>`."""
        return cls(((path, 1),))

    def __add__(self, other: object) -> Basis:
        """The sum with another combination, or with 0."""
        if isinstance(other, int) and other == 0:
            return self
        if not isinstance(other, Basis):
            raise AlgebraError(f"a coordinate {self} and a number {other} have no sum")
        terms: dict[Path, int | Dynamic] = dict(self.terms)
        for path, coefficient in other.terms:
            terms[path] = terms.get(path, 0) + coefficient
        return Basis(tuple(sorted((p, c) for p, c in terms.items() if c != 0)))

    def __mul__(self, other: object) -> Basis | int:
        """The product with a number."""
        if isinstance(other, Basis):
            raise AlgebraError(f"two coordinates have no product, found {self} and {other}")
        if not isinstance(other, (int, Dynamic)):
            return NotImplemented
        if other == 0:
            return 0
        return Basis(tuple((path, c * other) for path, c in self.terms))

    __radd__ = __add__
    __rmul__ = __mul__

    def __str__(self) -> str:
        return "+".join(
            str(c) + "".join(f"@{mode}" for mode in reversed(path)) for path, c in self.terms
        )


Leaf = int | Dynamic | Basis


def equal_leaves(left: Leaf, right: Leaf) -> bool:
    """Whether two leaves are known to be the same number: `?` never is."""
    for leaf in (left, right):
        if isinstance(leaf, Dynamic) and not leaf.is_known:
            return False
        if isinstance(leaf, Basis) and any(
            isinstance(c, Dynamic) and not c.is_known for _, c in leaf.terms
        ):
            return False
    return left == right


def divisor_of(leaf: Leaf) -> int:
    """The largest integer that is known to divide a leaf; 0 for 0, AlgebraError for coordinates."""
    if isinstance(leaf, Basis):
        raise AlgebraError(f"a coordinate {leaf} has no divisor")
    return leaf.divisibility if isinstance(leaf, Dynamic) else abs(leaf)


def ceil_div(leaf: Leaf, divisor: int) -> int | Dynamic:
    """The quotient, rounded up; of a dynamic value `?`, unless it is known to be divisible."""
    if isinstance(leaf, int):
        return -(-leaf // divisor)
    if divisor_of(leaf) % divisor == 0 and isinstance(leaf, Dynamic):
        return leaf.divided_by(divisor)
    return Dynamic.symbol(UNKNOWN)


def static(leaf: Leaf, purpose: str) -> int:
    """The leaf as an int; AlgebraError, with what it is needed for, unless it is static."""
    if isinstance(leaf, int):
        return leaf
    raise AlgebraError(f"{purpose} must be static, found {leaf}")


def leaf_of_text(text: str) -> Leaf:
    """The leaf that a text stands for: `8`, `-1`, `?`, `?{div=8}`, `M`, `2@1@0`, `1@0+3@1`.

    Raises AlgebraError for anything else.
    """
    if "@" in text:
        total: Leaf = 0
        for part in text.split("+"):
            head, *modes = part.split("@")
            if not modes or not all(mode.isdecimal() for mode in modes):
                raise AlgebraError(f"'{text}' is no basis element, expected such as '1@0'")
            path = tuple(int(mode) for mode in reversed(modes))
            total = Basis.unit(*path) * leaf_of_text(head) + total
        return total
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    unknown = _UNKNOWN_TEXT.fullmatch(text)
    if unknown is not None:
        return Dynamic.symbol(UNKNOWN, int(unknown[1] or 1))
    if re.fullmatch(r"[A-Za-z]\w*", text):
        return Dynamic.symbol(text)
    raise AlgebraError(f"'{text}' is neither an integer, nor '?', a name or a basis element")


def _collected(terms: Iterable[tuple[Monomial, int]]) -> Dynamic | int:
    """The polynomial with equal monomials added, an int if it is constant."""
    sums: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        sums[monomial] = sums.get(monomial, 0) + coefficient
    left = sorted((m, c) for m, c in sums.items() if c and m)
    constant = sums.get((), 0)
    if not left:
        return constant
    return Dynamic(tuple(left) + ((((), constant),) if constant else ()))


def _term_text(monomial: Monomial, coefficient: int) -> str:
    factors = "*".join(monomial)
    if not factors:
        return str(coefficient)
    return factors if coefficient == 1 else f"{coefficient}*{factors}"

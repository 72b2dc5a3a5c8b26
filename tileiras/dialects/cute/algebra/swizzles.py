"""Swizzles, and layouts composed with them.

`Swizzle<B,M,S>` adds, bit by bit, B bits of an index from bit M + S on to those from bit M on
(S < 0: from bit M on to those from M - S on). It is its own inverse.
"""

from __future__ import annotations

from dataclasses import dataclass

from tileiras.dialects.cute.algebra.composition import composition
from tileiras.dialects.cute.algebra.coordinates import Coordinate, crd2idx
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.int_tuples import IntTuple
from tileiras.dialects.cute.algebra.layout import Layout, Tiler
from tileiras.dialects.cute.algebra.leaves import Leaf, static


@dataclass(frozen=True)
class Swizzle:
    """`S<bits,base,shift>`; AlgebraError unless bits, base >= 0 and |shift| >= bits."""

    bits: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        if min(self.bits, self.base) < 0 or abs(self.shift) < self.bits:
            raise AlgebraError(
                f"{self} needs bits and base from 0 on, and a shift of at least bits"
            )

    def __call__(self, index: int) -> int:
        """The swizzled index."""
        mask = (1 << self.bits) - 1
        if self.shift >= 0:
            return index ^ (index >> self.shift & mask << self.base)
        return index ^ (index & mask << self.base) << -self.shift

    @property
    def reach(self) -> int:
        """Indices from a multiple of this on are permuted among themselves."""
        return 1 << (self.base + self.bits + abs(self.shift)) if self.bits else 1

    def recast(self, old_bits: int, new_bits: int) -> Swizzle:
        """The same swizzle of addresses, for elements of another width (powers of two).

        AlgebraError if it moves parts of the new elements.
        """
        base = self.base + old_bits.bit_length() - new_bits.bit_length()
        if base < 0:
            raise AlgebraError(f"{self} of {old_bits}-bit elements moves parts of {new_bits} bits")
        return Swizzle(self.bits, base, self.shift)

    def __str__(self) -> str:
        return f"S<{self.bits},{self.base},{self.shift}>"


@dataclass(frozen=True)
class ComposedLayout:
    """`inner o offset o outer`: the coordinate c has the index `inner(offset + outer(c))`.

    Most often the inner function is a swizzle and the offset 0.
    """

    inner: Swizzle | Layout
    offset: Leaf
    outer: Layout

    @property
    def shape(self) -> IntTuple:
        """The shape of the outer layout, whose coordinates these are."""
        return self.outer.shape

    @property
    def static_size(self) -> int:
        """The number of coordinates."""
        return self.outer.static_size

    def __call__(self, coordinate: Coordinate) -> int:
        """The index of a coordinate; AlgebraError if it is not static."""
        return self._composed(crd2idx(coordinate, self.outer))

    def _composed(self, index: Leaf) -> int:
        """The index for one of the outer layout."""
        inside = static(self.offset + index, "an index that is composed")
        return static(self.inner(inside), "an index that is composed")

    @property
    def indices(self) -> list[int]:
        """The index of every coordinate, in order."""
        return [self._composed(index) for index in self.outer.indices]

    @property
    def cosize(self) -> int:
        """One more than the largest index."""
        return 1 + max(self.indices)

    def after(self, tiler: Tiler) -> ComposedLayout:
        """The composition with a layout on the right: the outer layout's with it."""
        return ComposedLayout(self.inner, self.offset, composition(self.outer, tiler))

    def __str__(self) -> str:
        return f"{self.inner} o {self.offset} o {self.outer}"


AnyLayout = Layout | ComposedLayout


def swizzled(swizzle: Swizzle, layout: Layout) -> ComposedLayout:
    """`swizzle o 0 o layout`."""
    return ComposedLayout(swizzle, 0, layout)

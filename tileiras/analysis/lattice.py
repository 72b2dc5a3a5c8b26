"""What is known about the elements of an integer or pointer tile.

All facts are about bit patterns of a fixed width, so they hold under wraparound unless stated
otherwise. Run lengths and divisors are powers of two; runs start at multiples of their length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX_DIVISOR = 1 << 30
"""Policy: divisors beyond this are not told apart: no access or allocation needs them."""


@dataclass(frozen=True, slots=True)
class ValueFacts:
    """Facts about one tile, tensor view or view; build them with `make_facts`.

    Example: `iota + 16 * x` of shape 64 has contiguity (64,), divisibility (16,), constancy (1,),
    element_divisor 1. Runs of 32 of it start at multiples of `run_divisor(0, 32) == 16`.

    `shape`            of the tile; () for a scalar and for views
    `width`            bits of an element; 64 for pointers and views; 0 for everything else
    `step`             what one step of a contiguous run adds: 1, or the pointee's bytes
    `element_divisor`  divides every element (pointers and views: bytes of the address)
    `contiguity[d]`    along dim d, aligned runs of this length are `first, first + step, ...`
    `divisibility[d]`  divides every element whose index along dim d is a multiple of contiguity[d]
    `constancy[d]`     along dim d, aligned runs of this length hold equal elements
    `lower`, `upper`   inclusive bounds of every element read as signed; an i1 is 0 or 1; None is
                       no knowledge
    """

    shape: tuple[int, ...]
    width: int
    step: int
    element_divisor: int
    contiguity: tuple[int, ...]
    divisibility: tuple[int, ...]
    constancy: tuple[int, ...]
    lower: int | None
    upper: int | None

    @property
    def divisor(self) -> int:
        """Divides the elements that start a run along every dim; for a scalar, the value itself."""
        return max(self.element_divisor, *self.divisibility, 1)

    @property
    def constant(self) -> int | None:
        """The value that all elements have, if known (signed; 0 or 1 for i1)."""
        return self.lower if self.lower is not None and self.lower == self.upper else None

    @property
    def rank(self) -> int:
        """Number of dims."""
        return len(self.shape)

    def range(self) -> tuple[int, int]:
        """The bounds, with those of the type where nothing better is known."""
        low, high = type_range(self.width)
        return (
            low if self.lower is None else self.lower,
            high if self.upper is None else self.upper,
        )

    def run_divisor(self, dim: int, run: int) -> int:
        """Divides every element whose index along `dim` is a multiple of `run`."""
        if run >= self.contiguity[dim]:
            return self.divisibility[dim]
        return max(self.element_divisor, min(self.divisibility[dim], run * self.step))

    def aligned_run(self, dim: int) -> int:
        """The longest contiguous run along `dim` whose first element is a multiple of the run.

        Such a run (1 if there is none longer) cannot wrap around anywhere but at its ends.
        """
        return min(self.contiguity[dim], max(1, self.divisibility[dim] // self.step))

    def axis(self, dim: int, limit: int) -> tuple[int, int, int]:
        """Contiguity, divisibility and constancy along `dim` when runs get cut to `limit`."""
        run = min(self.contiguity[dim], limit)
        return run, self.run_divisor(dim, run), min(self.constancy[dim], limit)


Axis = tuple[int, int, int]
"""Contiguity, divisibility and constancy along one dim."""


def type_range(width: int) -> tuple[int, int]:
    """Smallest and largest value of a signed integer of this width; (0, 1) for i1."""
    if width <= 1:
        return 0, 1
    return -(1 << (width - 1)), (1 << (width - 1)) - 1


def largest_divisor(width: int) -> int:
    """The divisor of zero."""
    return min(MAX_DIVISOR, 1 << width)


def divisor_of(value: int, width: int) -> int:
    """The largest power of two that divides a number, capped."""
    cap = largest_divisor(width)
    return cap if value == 0 else min(cap, value & -value)


def power_of_two_in(value: int) -> int:
    """The largest power of two that divides a positive number."""
    return value & -value


def make_facts(
    shape: Sequence[int],
    width: int,
    axes: Sequence[Axis] = (),
    *,
    element_divisor: int = 1,
    bounds: tuple[int | None, int | None] = (None, None),
    step: int = 1,
) -> ValueFacts:
    """Facts in normal form: each says at least what the others imply.

    Without `axes`, all elements may differ. Bounds that no value of the type satisfies, or that
    exclude each other, are dropped: they come from code that never runs.
    """
    shape = tuple(shape)
    low, high = type_range(width)
    lower, upper = bounds
    lower = None if lower is None or lower <= low or lower > high else lower
    upper = None if upper is None or upper >= high or upper < low else upper
    if width == 1:  # one bit: a bound at an end of the type's range is a constant
        lower, upper = (1, 1) if lower == 1 else (0, 0) if upper == 0 else (None, None)
    if lower is not None and upper is not None and lower > upper:
        lower = upper = None
    if lower is None and upper == low:
        lower = low
    if upper is None and lower == high:
        upper = high
    if lower is not None and lower == upper:
        divisor = divisor_of(lower, width)
        ones = (1,) * len(shape)
        divisors = (divisor,) * len(shape)
        return ValueFacts(shape, width, step, divisor, ones, divisors, shape, lower, upper)
    return _normal(shape, width, axes, element_divisor, step, lower, upper)


def _normal(
    shape: tuple[int, ...],
    width: int,
    axes: Sequence[Axis],
    element_divisor: int,
    step: int,
    lower: int | None,
    upper: int | None,
) -> ValueFacts:
    """Facts of a tile that is not a known constant."""
    if not axes:
        axes = [(1, 1, 1)] * len(shape)
    cap = largest_divisor(width)
    element = min(element_divisor, cap)
    for run, divisor, _ in axes:
        element = max(element, min(divisor, cap) if run == 1 else min(divisor, step, cap))
    return ValueFacts(
        shape,
        width,
        step,
        element,
        tuple([run for run, _, _ in axes]),
        tuple([max(element, min(divisor, cap)) for _, divisor, _ in axes]),
        tuple([constancy for _, _, constancy in axes]),
        lower,
        upper,
    )


def constant_facts(shape: Sequence[int], width: int, value: int) -> ValueFacts:
    """A tile whose elements all are `value` (taken modulo 2**width)."""
    value = wrap(value, width)
    return make_facts(shape, width, bounds=(value, value)) if width else make_facts(shape, width)


def wrap(value: int, width: int) -> int:
    """The value that a signed integer of this width holds (0 or 1 for i1)."""
    if width <= 1:
        return value & 1
    half = 1 << (width - 1)
    return ((value + half) & ((1 << width) - 1)) - half


def wrap_bounds(
    low: int, high: int, width: int, wraps: bool = True
) -> tuple[int | None, int | None]:
    """Bounds of a result computed in integers, once it is stored in `width` bits.

    With `wraps` False the program promises that the result fits.
    """
    least, most = type_range(width)
    if not wraps:
        return max(low, least), min(high, most)
    if (low - least) >> width == (high - least) >> width:
        return wrap(low, width), wrap(high, width)
    return None, None


def join(left: ValueFacts, right: ValueFacts) -> ValueFacts:
    """What holds whichever of two tiles of one type is meant."""
    if left is right or left == right:
        return left
    axes = [
        join_axis(left, right, dim, min(left.contiguity[dim], right.contiguity[dim]))
        for dim in range(left.rank)
    ]
    return make_facts(
        left.shape,
        left.width,
        axes,
        element_divisor=min(left.element_divisor, right.element_divisor),
        bounds=hull(left, right),
        step=left.step,
    )


def join_axis(left: ValueFacts, right: ValueFacts, dim: int, run: int) -> Axis:
    """One dim of a join, in runs of at most `run`."""
    return (
        run,
        min(left.run_divisor(dim, run), right.run_divisor(dim, run)),
        min(left.constancy[dim], right.constancy[dim]),
    )


def hull(left: ValueFacts, right: ValueFacts) -> tuple[int | None, int | None]:
    """Bounds that hold for both."""
    (low_l, high_l), (low_r, high_r) = left.range(), right.range()
    return min(low_l, low_r), max(high_l, high_r)


def widen(old: ValueFacts, new: ValueFacts) -> ValueFacts:
    """The join of what a loop carried before and carries now, with bounds that moved given up."""
    both = join(old, new)
    lower = both.lower if both.lower == old.lower else None
    upper = both.upper if both.upper == old.upper else None
    axes = list(zip(both.contiguity, both.divisibility, both.constancy))
    return make_facts(
        both.shape,
        both.width,
        axes,
        element_divisor=both.element_divisor,
        bounds=(lower, upper),
        step=both.step,
    )

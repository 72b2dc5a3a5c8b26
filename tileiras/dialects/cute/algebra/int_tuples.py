"""Hierarchical tuples of integers: the shapes, strides and coordinates of CuTe.

An int-tuple is a leaf or a tuple of int-tuples, `(8, (2, 4))`. Mode i of a leaf is the leaf itself,
for i = 0 only.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.leaves import Leaf, equal_leaves, static

IntTuple = Leaf | tuple["IntTuple", ...]


def modes(value: IntTuple) -> tuple[IntTuple, ...]:
    """The top-level modes: `(8,(2,4))` has 8 and (2,4), 8 has itself."""
    return value if isinstance(value, tuple) else (value,)


def rank(value: IntTuple) -> int:
    """The number of top-level modes, 1 for a leaf."""
    return len(modes(value))


def depth(value: IntTuple) -> int:
    """How deep tuples are nested: 0 for a leaf, 2 for `(8,(2,4))`."""
    if not isinstance(value, tuple):
        return 0
    return 1 + max((depth(mode) for mode in value), default=0)


def leaves(value: IntTuple) -> Iterator[Leaf]:
    """All leaves from left to right."""
    if isinstance(value, tuple):
        for mode in value:
            yield from leaves(mode)
    else:
        yield value


def product(value: IntTuple) -> Leaf:
    """The product of all leaves: the size of a shape."""
    total: Leaf = 1
    for leaf in leaves(value):
        total = total * leaf
    return total


def static_product(value: IntTuple, purpose: str) -> int:
    """The product of all leaves as an int; AlgebraError if it is dynamic."""
    return static(product(value), purpose)


def is_static(value: IntTuple) -> bool:
    """Whether all leaves are ints."""
    return all(isinstance(leaf, int) for leaf in leaves(value))


def is_congruent(left: IntTuple, right: IntTuple) -> bool:
    """Whether both are nested in the same way."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(is_congruent, left, right))
    return not isinstance(left, tuple) and not isinstance(right, tuple)


def is_weakly_congruent(left: IntTuple, right: IntTuple) -> bool:
    """Whether `right` is nested as `left` or deeper: every coordinate of `left` fits `right`."""
    if not isinstance(left, tuple):
        return True
    return (
        isinstance(right, tuple)
        and len(left) == len(right)
        and all(map(is_weakly_congruent, left, right))
    )


def is_compatible(left: IntTuple, right: IntTuple) -> bool:
    """Whether any coordinate of the shape `left` is one of `right`: 24 is with (3,(2,4)).

    Sizes are equal, and `right` refines the nesting of `left`.
    """
    if not isinstance(left, tuple):
        return equal_leaves(left, product(right))
    return (
        isinstance(right, tuple)
        and len(left) == len(right)
        and all(map(is_compatible, left, right))
    )


def compact_strides(shape: IntTuple, first: Leaf = 1) -> IntTuple:
    """The strides of a dense layout, first mode fastest: (2,(3,4)) gives (1,(2,6))."""
    if not isinstance(shape, tuple):
        return first
    strides: list[IntTuple] = []
    for mode in shape:
        strides.append(compact_strides(mode, first))
        first = first * product(mode)
    return tuple(strides)


def compact_strides_last_fastest(shape: IntTuple, first: Leaf = 1) -> IntTuple:
    """The strides of a dense layout, last mode fastest: (2,(3,4)) gives (12,(4,1))."""
    if not isinstance(shape, tuple):
        return first
    strides: list[IntTuple] = []
    for mode in reversed(shape):
        strides.insert(0, compact_strides_last_fastest(mode, first))
        first = first * product(mode)
    return tuple(strides)


def regrouped(flat: Iterator[Leaf], profile: IntTuple) -> IntTuple:
    """Leaves taken from `flat`, nested as `profile`."""
    if isinstance(profile, tuple):
        return tuple(regrouped(flat, mode) for mode in profile)
    return next(flat)


def shape_div(shape: IntTuple, divisor: int) -> IntTuple:
    """`shape` with the first `divisor` elements as one: ((4,3), 2) -> (2,3), ((4,3), 6) -> (1,2).

    AlgebraError unless each mode divides the divisor, or the rest of the divisor it.
    """
    if isinstance(shape, tuple):
        result: list[IntTuple] = []
        for mode in shape:
            result.append(shape_div(mode, divisor))
            divisor = -(-divisor // static_product(mode, "a shape that is divided"))
        return tuple(result)
    extent = static(shape, "a shape that is divided")
    if extent % divisor and divisor % extent:
        raise AlgebraError(f"of {extent} and {divisor}, neither divides the other")
    return -(-extent // divisor)


def text_of(value: IntTuple) -> str:
    """CuTe's notation: `(8,(2,4))`, a tuple of one mode `(8)`."""
    if isinstance(value, tuple):
        return "(" + ",".join(text_of(mode) for mode in value) + ")"
    return str(value)

"""Columns of tensor memory: which sums and left operands lie where, and how many they take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import Attribute, Operation

from tileiras.codegen.atoms.tcgen05 import allocated_columns
from tileiras.dialects import nv_tileaa as aa
from tileiras.planning.mma.tcgen05 import Accumulator, Tcgen05Dot


def columns_of(
    dots: Sequence[Tcgen05Dot], buffers: int
) -> tuple[dict[Accumulator, Accumulator], dict[Operation, int], int]:
    """The sums with their places, the columns of left operands by product, and where both end."""
    places, column = _places(dots, buffers)
    left, end = _left_places(dots, column)
    return places, left, end


def least_columns(dots: Sequence[Tcgen05Dot]) -> int:
    """Columns that a CTA allocates at least where consumers compute a left operand, else 0."""
    if all(planned.lhs is not None for planned in dots):
        return 0
    _, _, end = columns_of(dots, 1)
    return allocated_columns(end)


def _places(dots: Sequence[Tcgen05Dot], buffers: int) -> tuple[dict[Accumulator, Accumulator], int]:
    """The sums with their columns, of which those that come repeatedly have several; the end.

    Sums of iterations of one loop have the places of those of a loop before, where these are alike.
    """
    places: dict[Accumulator, Accumulator] = {}
    taken: dict[tuple[Operation, Attribute], list[Accumulator]] = {}
    column = 0
    for planned in dots:
        own, type = planned.accumulator, planned.dot.result.type
        if own in places:
            continue
        if own.is_of_iteration:
            here = taken.setdefault((own.loop, type), [])
            place = _place_of_other_loop(taken, own, type, len(here))
            if place is not None:
                places[own] = replace(place, loop=own.loop, dot=own.dot)
                here.append(places[own])
                continue
        is_repeated = own.is_of_iteration or _is_repeated(own.loop)
        count = buffers if is_repeated and not own.is_scaled else 1
        places[own] = replace(own, column=column, columns=planned.tmem_columns, buffers=count)
        if own.is_of_iteration:
            taken[own.loop, type].append(places[own])
        column += count * planned.tmem_columns
    return places, column


def _place_of_other_loop(
    taken: dict[tuple[Operation, Attribute], list[Accumulator]],
    own: Accumulator,
    type: Attribute,
    number: int,
) -> Accumulator | None:
    """The place of sum `number` of a type in a loop that is not around that of `own`."""
    for (loop, other), places in taken.items():
        is_apart = not loop.is_ancestor(own.loop) and not own.loop.is_ancestor(loop)
        if other == type and is_apart and number < len(places):
            return places[number]
    return None


def _left_places(dots: Sequence[Tcgen05Dot], column: int) -> tuple[dict[Operation, int], int]:
    """Columns, from `column` on, of left operands that consumers compute; the end.

    Those of different loops share columns, as sums do: the first of each loop, and so on.
    """
    places: dict[Operation, int] = {}
    numbers: dict[Operation | None, int] = {}
    known: dict[tuple[int, Attribute], int] = {}
    for planned in dots:
        if planned.lhs is not None:
            continue
        loop = planned.dot.parent_op()
        numbers[loop] = numbers.get(loop, 0) + 1
        key = (numbers[loop], planned.dot.lhs.type)
        if key not in known:
            known[key] = column
            column += planned.left_columns
        places[planned.dot] = known[key]
    return places, column


def _is_repeated(loop: Operation) -> bool:
    """Whether a loop runs several times in a tile block."""
    parent = loop.parent_op()
    while parent is not None and not isinstance(parent, aa.ForOp | aa.LoopOp):
        parent = parent.parent_op()
    return parent is not None

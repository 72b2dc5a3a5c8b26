"""Columns of tensor memory: which sums and left operands lie where, and how many they take.

Where they are too many, a left operand that consumers compute lies in the columns of a sum that
they have loaded before in the same iteration, a block of 128 rows in those of the same rows:

    S  [0, 128) [128, 256)     P  [0, 64) [128, 192)     O  [256, 384) [384, 512)

Each warp reaches its own lanes alone, and has loaded these before it stores, if no other warp loads
more columns of them: `lanes_are_private`. The next product into the sum is issued behind the one
that reads the left operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import Attribute, Operation

from tileiras.codegen.atoms.tcgen05 import allocated_columns
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout.tmem import BLOCK_ROWS, TMEM_COLUMNS
from tileiras.planning.mma.tcgen05 import Accumulator, Tcgen05Dot
from tileiras.planning.model.dots import PlannedDot


def columns_of(
    dots: Sequence[Tcgen05Dot], buffers: int, *, in_place: bool = False
) -> tuple[dict[Accumulator, Accumulator], dict[Operation, int], int]:
    """The sums with their places, the columns of left operands by product, and where both end.

    `in_place`: left operands lie in sums, where there is one for each.
    """
    places, column = _places(dots, buffers)
    left, end = _left_places(dots, column, places if in_place else {})
    return places, left, end


def lanes_are_private(dots: Sequence[Tcgen05Dot], warpgroups: int) -> bool:
    """Whether no two warps of the consumers load from, and store to, the same lanes of a block."""
    return all(planned.rows >= BLOCK_ROWS * warpgroups for planned in dots)


def row_blocks(dots: Sequence[Tcgen05Dot], warpgroups: int) -> int:
    """Blocks of rows that a warpgroup of the consumers has each, and that take turns; 1 for none.

    While the tensor core multiplies for one, threads compute the left operand of another.
    """
    are_computed = any(planned.lhs is None for planned in dots)
    if not are_computed or any(planned.rows != BLOCK_ROWS * warpgroups for planned in dots):
        return 1
    return warpgroups


def holding_sum(planned: Tcgen05Dot, dots: Sequence[Tcgen05Dot]) -> Accumulator | None:
    """The sum in whose columns a left operand lies; None if it has columns of its own."""
    if planned.lhs is not None:
        return None
    for other in dots:
        own = other.accumulator
        if own.column <= planned.left_column < own.column + own.columns:
            return own
    return None


def scales_in_turn(dots: Sequence[Tcgen05Dot]) -> list[int]:
    """How far behind those of the first one the scales of each product begin, of products with one
    left operand that are issued in turn, step by step; 0 of all others.
    """
    found: list[int] = []
    for number, planned in enumerate(dots):
        before = dots[number - 1] if number else None
        if before is None or not _has_left_operand_of(planned, before):
            found.append(0)
        else:
            found.append(found[-1] + before.right_scale_columns)
    return found


def _has_left_operand_of(planned: Tcgen05Dot, before: Tcgen05Dot) -> bool:
    """Whether a product has the left operand of the one before, with its scales, in one block."""
    if not planned.scales or not before.scales or planned.lhs is None or before.lhs is None:
        return False
    is_same = planned.lhs.load is before.lhs.load and planned.kind == before.kind
    is_beside = planned.dot.parent_block() is before.dot.parent_block()
    return is_same and is_beside and planned.scales[0].load is before.scales[0].load


def is_read_apart(planned: PlannedDot, dots: Sequence[PlannedDot]) -> bool:
    """Whether a sum is loaded behind its loop and needed by nothing that needs another sum of it,
    so that no thread holds both.
    """
    if not isinstance(planned, Tcgen05Dot) or not _is_loaded_behind(planned.accumulator):
        return False
    own = _needed_by(planned.accumulator)
    return all(
        isinstance(other, Tcgen05Dot)
        and _is_loaded_behind(other.accumulator)
        and not own & _needed_by(other.accumulator)
        for other in dots
        if other is not planned
    )


def _is_loaded_behind(own: Accumulator) -> bool:
    return not own.is_of_iteration and not own.is_scaled


def _needed_by(own: Accumulator) -> set[Operation]:
    """What reads a sum behind its loop, or anything that is made of it."""
    pending, found = [own.loop.results[own.position]], set[Operation]()
    while pending:
        for use in pending.pop().uses:
            if use.operation not in found:
                found.add(use.operation)
                pending += use.operation.results
    return found


def least_columns(dots: Sequence[Tcgen05Dot]) -> int:
    """Columns that a CTA allocates at least where consumers compute a left operand, else 0."""
    if all(planned.lhs is not None for planned in dots):
        return 0
    _, _, end = columns_of(dots, 1)
    if end > TMEM_COLUMNS:
        _, _, end = columns_of(dots, 1, in_place=True)
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
        is_repeated = own.is_of_iteration or aa.loop_around(own.loop) is not None
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


def _left_places(
    dots: Sequence[Tcgen05Dot], column: int, places: dict[Accumulator, Accumulator]
) -> tuple[dict[Operation, int], int]:
    """Columns, from `column` on, of left operands that consumers compute; the end.

    Those of different loops share columns, as sums do: the first of each loop, and so on. Those
    for which one of the sums of `places` has room lie there.
    """
    held: set[Accumulator] = set()
    left: dict[Operation, int] = {}
    numbers: dict[Operation | None, int] = {}
    known: dict[tuple[int, Attribute], int] = {}
    for planned in dots:
        if planned.lhs is not None:
            continue
        loop = planned.dot.parent_op()
        host = _host(planned, dots)
        if host is not None and host not in held and (place := places.get(host)) is not None:
            held.add(host)
            left[planned.dot] = place.column
            continue
        numbers[loop] = numbers.get(loop, 0) + 1
        key = (numbers[loop], planned.dot.lhs.type)
        if key not in known:
            known[key] = column
            column += planned.left_columns
        left[planned.dot] = known[key]
    return left, column


def _host(planned: Tcgen05Dot, dots: Sequence[Tcgen05Dot]) -> Accumulator | None:
    """The sum of an iteration that is loaded before a left operand is stored, and has room."""
    for other in dots:
        if other is planned:
            return None
        is_of_loop = other.dot.parent_op() is planned.dot.parent_op()
        has_room = other.rows == planned.rows and other.tmem_columns >= planned.left_columns
        if is_of_loop and has_room and other.accumulator.is_of_iteration:
            return other.accumulator
    return None

"""Bodies of reductions that choose one of two elements: whether both orders choose the same.

    %bigger = cmpf greater_than %a0, %b0       %same = cmpf equal %a0, %b0
    %first = cmpi less_than %a1, %b1           %takes_a = %bigger or (%same and %first)
    yield select(%takes_a, %a0, %b0), select(%takes_a, %a1, %b1)

Such a body sees its operands through comparisons alone, so all that matters is how each pair
compares. There are few cases: they are all tried, each in both orders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from itertools import product
from typing import TypeAlias

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    i1,
)
from xdsl.ir import Block, Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonOrdering,
    ComparisonPredicate,
    Signedness,
)

NUMBERS = (Float16Type, BFloat16Type, Float32Type, Float64Type, IntegerType)
"""What one instruction finds the larger one of."""
MOST_PAIRS = 3
"""Policy: operands of a body for which all cases are tried (6 of a pair of floats)."""


class Relation(Enum):
    """How the elements of a pair compare."""

    LESS = auto()
    EQUAL = auto()
    GREATER = auto()
    FIRST_NAN = auto()
    SECOND_NAN = auto()
    BOTH_NAN = auto()


_ORDERS = (Relation.LESS, Relation.EQUAL, Relation.GREATER)
_TURNED = {
    Relation.LESS: Relation.GREATER,
    Relation.GREATER: Relation.LESS,
    Relation.FIRST_NAN: Relation.SECOND_NAN,
    Relation.SECOND_NAN: Relation.FIRST_NAN,
}
_ALIKE = (Relation.EQUAL, Relation.BOTH_NAN)
_HOLDS = {
    ComparisonPredicate.EQUAL: (Relation.EQUAL,),
    ComparisonPredicate.NOT_EQUAL: (Relation.LESS, Relation.GREATER),
    ComparisonPredicate.LESS_THAN: (Relation.LESS,),
    ComparisonPredicate.LESS_THAN_OR_EQUAL: (Relation.LESS, Relation.EQUAL),
    ComparisonPredicate.GREATER_THAN: (Relation.GREATER,),
    ComparisonPredicate.GREATER_THAN_OR_EQUAL: (Relation.GREATER, Relation.EQUAL),
}


@dataclass(frozen=True)
class _Element:
    """One element of a pair: the first or the second."""

    pair: int
    second: bool


_Known: TypeAlias = _Element | bool
_Case: TypeAlias = tuple[Relation, ...]


def chooses_alike(block: Block) -> bool:
    """Whether a body yields one element of each pair, and the same one if they change places.

    Where all pairs compare equal, and one is of integers, either may be yielded: an element with
    the same number is the same element. Without a number zeros of both signs would be told apart.
    """
    count = len(block.args) // 2
    has_number = any(isinstance(arg.type, IntegerType) for arg in block.args)
    if count > MOST_PAIRS or not _are_compared_one_way(block):
        return False
    for case in product(*(_cases(block.args[2 * pair].type) for pair in range(count))):
        turned = tuple(_TURNED.get(relation, relation) for relation in case)
        chosen, other = _chosen(block, case), _chosen(block, turned)
        if chosen is None or other is None:
            return False
        may_stay = has_number and all(relation in _ALIKE for relation in case)
        stays = any(a.second == b.second for a, b in zip(chosen, other, strict=True))
        if stays and not may_stay:
            return False
    return True


def extreme_with_place(block: Block) -> str | None:
    """What a body on pairs of numbers and places finds: the largest number, the first with it.

    `maxnum` or `minnum` of floats, where a number wins over a NaN; `smax`, `smin`, `umax` or `umin`
    of integers. Of equal numbers, or NaNs, the least place wins. None for other bodies.
    """
    types = [arg.type for arg in block.args[::2]]
    if len(types) != 2 or not isinstance(types[1], IntegerType):
        return None
    if not isinstance(types[0], NUMBERS) or not _are_compared_one_way(block):
        return None
    largest = _chosen(block, (Relation.GREATER, Relation.GREATER))
    if largest is None:
        return None
    is_largest = not largest[0].second
    for case in product(*map(_cases, types)):
        found = _chosen(block, case)
        if found is None or found[0].second != found[1].second:
            return None
        wanted = _takes_second(case, is_largest)
        if wanted is not None and found[0].second != wanted:
            return None
    word = "max" if is_largest else "min"
    if not isinstance(types[0], IntegerType):
        return f"{word}num"
    signs = [op.signedness.data for op in block.ops if isinstance(op, aa.CmpIOp)]
    return f"{'u' if Signedness.UNSIGNED in signs else 's'}{word}"


def _takes_second(case: _Case, is_largest: bool) -> bool | None:
    """Whether the second element has the extreme number, or the lower place; None if both do."""
    number, place = case
    if number in _ALIKE:
        return None if place is Relation.EQUAL else place is Relation.GREATER
    if number in (Relation.FIRST_NAN, Relation.SECOND_NAN):
        return number is Relation.FIRST_NAN
    return (number is Relation.LESS) == is_largest


def _cases(type: object) -> tuple[Relation, ...]:
    """The ways in which two elements of a type compare."""
    return _ORDERS if isinstance(type, IntegerType) else tuple(Relation)


def _are_compared_one_way(block: Block) -> bool:
    """Whether integers are compared with a sign, or all without."""
    signs = {op.signedness.data for op in block.ops if isinstance(op, aa.CmpIOp)}
    return len(signs) <= 1


def _chosen(block: Block, case: _Case) -> list[_Element] | None:
    """What the body yields in a case: an element of each pair; None for anything else."""
    known: dict[SSAValue, _Known] = {}
    for number, arg in enumerate(block.args):
        known[arg] = _Element(number // 2, bool(number % 2))
    for op in block.ops:
        if isinstance(op, aa.YieldOp):
            found = [known.get(operand) for operand in op.operands]
            return list(_elements(found)) if len(list(_elements(found))) == len(found) else None
        result = _evaluate(op, known, case)
        if result is None:
            return None
        known[op.results[0]] = result
    return None


def _elements(found: list[_Known | None]) -> Iterator[_Element]:
    """Those that are elements of the pair of their own number."""
    for number, value in enumerate(found):
        if isinstance(value, _Element) and value.pair == number:
            yield value


def _evaluate(op: Operation, known: Mapping[SSAValue, _Known], case: _Case) -> _Known | None:
    """The result of an operation in a case; None if it is not one of those that choose."""
    args = [known.get(operand) for operand in op.operands]
    match op, args:
        case aa.ConstantOp(), [] if op.result.type == i1:
            return bool(op.value.raw.data[0] & 1)
        case aa.CmpFOp() | aa.CmpIOp(), [_Element() as lhs, _Element() as rhs]:
            return _compare(op, lhs, rhs, case)
        case aa.AndIOp(), [bool() as lhs, bool() as rhs]:
            return lhs and rhs
        case aa.OrIOp(), [bool() as lhs, bool() as rhs]:
            return lhs or rhs
        case aa.XOrIOp(), [bool() as lhs, bool() as rhs]:
            return lhs != rhs
        case aa.SelectOp(), [bool() as condition, lhs, rhs]:
            return lhs if condition else rhs
        case _:
            return None


def _compare(op: aa.CmpFOp | aa.CmpIOp, lhs: _Element, rhs: _Element, case: _Case) -> bool | None:
    """What a comparison of elements of one pair answers."""
    if lhs.pair != rhs.pair:
        return None
    relation = case[lhs.pair]
    if lhs.second == rhs.second:
        nan = Relation.SECOND_NAN if lhs.second else Relation.FIRST_NAN
        relation = relation if relation in (nan, Relation.BOTH_NAN) else Relation.EQUAL
    elif lhs.second:
        relation = _TURNED.get(relation, relation)
    if relation not in _ORDERS:
        is_float = isinstance(op, aa.CmpFOp)
        return is_float and op.comparison_ordering.data is ComparisonOrdering.UNORDERED
    return relation in _HOLDS[op.comparison_predicate.data]

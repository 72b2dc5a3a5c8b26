"""What the predicates of `assume` demand of the value (Tile IR specification, "assume")."""

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Attribute, Operation

from tileiras.dialects.cuda_tile.attributes import (
    AssumePredicateAttr,
    BoundedAttr,
    DivByAttr,
    SameElementsAttr,
)
from tileiras.dialects.cuda_tile.checks import fail, show
from tileiras.dialects.cuda_tile.element_names import element_text
from tileiras.dialects.cuda_tile.element_types import (
    INTEGER,
    INTEGER_OR_POINTER,
    ElementClass,
    bit_width,
)
from tileiras.dialects.cuda_tile.types import TensorViewType, TileType

MAX_DIVISOR = 1 << 62


def check_predicate(op: Operation, predicate: AssumePredicateAttr, type: Attribute) -> None:
    """Checks a predicate against the type of the value that it speaks of."""
    match predicate:
        case DivByAttr():
            _check_div_by(op, predicate, type)
        case SameElementsAttr():
            _check_same_elements(op, predicate, type)
        case BoundedAttr():
            _check_bounded(op, predicate, type)
        case _:
            fail(op, f"has unknown predicate {predicate.name}")


def _tile_of(op: Operation, predicate: str, type: Attribute, elements: ElementClass) -> TileType:
    if not isinstance(type, TileType):
        fail(op, f"value of {predicate} has type {show(type)}, expected a tile")
    if type.element_type not in elements:
        found = element_text(type.element_type)
        fail(op, f"value of {predicate} has element type {found}, expected {elements.words}")
    return type


def _check_div_by(op: Operation, predicate: DivByAttr, type: Attribute) -> None:
    divisor = predicate.divisor.data
    if divisor < 1 or divisor & (divisor - 1) or divisor > MAX_DIVISOR:
        fail(op, f"has divisor {divisor}, expected a power of two of at most 2^62")
    every, along = predicate.every, predicate.along
    grouped = isinstance(every, IntAttr)
    if grouped != isinstance(along, IntAttr):
        fail(op, "div_by has only one of every and along, expected both or neither")
    if isinstance(type, TensorViewType):
        if grouped:
            fail(op, "div_by of a tensor_view has every and along, expected neither")
        return
    tile = _tile_of(op, "div_by", type, INTEGER_OR_POINTER)
    if not (isinstance(every, IntAttr) and isinstance(along, IntAttr)):
        return
    if not tile.rank:
        fail(op, "div_by of a scalar has every and along, expected neither")
    if not 0 <= along.data < tile.rank:
        fail(op, f"div_by has along {along.data}, expected 0 <= along < {tile.rank} (the rank)")
    size = tile.shape[along.data]
    if not 0 <= every.data <= size:
        fail(op, f"div_by has every {every.data}, expected 0 <= every <= {size} (the size)")


def _check_same_elements(op: Operation, predicate: SameElementsAttr, type: Attribute) -> None:
    tile = _tile_of(op, "same_elements", type, INTEGER_OR_POINTER)
    groups = predicate.values.data
    if len(groups) != tile.rank:
        expected = f"{tile.rank} (the rank of the value)"
        fail(op, f"same_elements has {len(groups)} elements, expected {expected}")
    for dim, (group, size) in enumerate(zip(groups, tile.shape)):
        if not 0 <= group <= size:
            fail(op, f"same_elements has {group} in dim {dim}, expected 0 to {size} (the size)")


def _check_bounded(op: Operation, predicate: BoundedAttr, type: Attribute) -> None:
    tile = _tile_of(op, "bounded", type, INTEGER)
    limit = 1 << (bit_width(tile.element_type) - 1)
    bounds = [bound.data for bound in (predicate.lb, predicate.ub) if isinstance(bound, IntAttr)]
    for bound in bounds:
        if not -limit <= bound < limit:
            text = element_text(tile.element_type)
            fail(op, f"has bound {bound}, expected {-limit} to {limit - 1} (the range of {text})")
    if len(bounds) == 2 and bounds[0] > bounds[1]:
        fail(op, f"has bounds {bounds[0]} and {bounds[1]}, expected the lower one first")

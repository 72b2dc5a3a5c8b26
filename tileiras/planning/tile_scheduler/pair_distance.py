"""How far apart two tiles of a loop over tiles shall be, so that they have an operand in common.

    for %t in [%p, %n) step %s {               tiles %t and %t + 1: other rows, whose groups are
      %i = row of %t; %j = column of %t          looked up
      %g = load %groups[%i]                    tiles %t and %t + 8: the same rows, and with them the
      for %k { load %A[%i, %k]                   same group
               load %B[%g, %k, %j] } }

Rows are mostly taken a few at a time, by a remainder of a constant. Tiles so far apart are of one
row. It is found by trying: the indices of tiles are computed for some numbers of tiles and sizes of
arrays. Other sizes may bring other tiles, which kernels find out while they run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import ComparisonPredicate, RoundingMode
from tileiras.planning.critical_sections import constant_scalar
from tileiras.planning.operands.tma import is_by_tma
from tileiras.planning.tile_scheduler.joinable import product_loop

MOST_APART = 64
"""Policy: rows that are taken at a time."""
PAIRS = 64
"""Policy: pairs of tiles that are tried."""
SIZE = 8192
"""Policy: the size of arrays that is tried."""
USUAL_SHARE = 0.9
"""Policy: of pairs that have an operand in common, so that it is worth it."""
_WRAP = 1 << 32


@dataclass(frozen=True)
class PairDistance:
    """The distance, and the loads that mostly bring the same tile for both then."""

    tiles: int
    common: tuple[aa.TiledLoadOp, ...] = ()


NEIGHBOURS = PairDistance(1)


def pair_distance(loop: aa.ForOp) -> PairDistance:
    """The distance between two tiles that a CTA computes at once.

    That of neighbours, unless all that they could have in common is looked up, and others have
    something in common for certain.
    """
    products = product_loop(loop.body.block)
    if products is None:
        return NEIGHBOURS
    loads = [op for op in products.body.block.ops if isinstance(op, aa.TiledLoadOp)]
    loads = [load for load in loads if is_by_tma(load)]
    indices = {load: _outer_indices(load, products) for load in loads}
    slices = {load: _made_from(values, loop) for load, values in indices.items()}
    if not any(map(_looks_up, slices.values())):
        return NEIGHBOURS
    certain = {load: values for load, values in indices.items() if not _looks_up(slices[load])}
    if any(_share(values, loop, 1) >= USUAL_SHARE for values in certain.values()):
        return NEIGHBOURS
    makers = dict.fromkeys(op for made in slices.values() for op in made)
    for distance in _candidates(list(makers)):
        common = [
            load
            for load, values in certain.items()
            if _share(values, loop, distance) >= USUAL_SHARE
        ]
        if common:
            return PairDistance(distance, tuple(common))
    return NEIGHBOURS


def _outer_indices(load: aa.TiledLoadOp, products: aa.ForOp) -> list[SSAValue]:
    """The indices of a load that are the same in all iterations of a loop over K."""
    return [index for index in load.indices if not products.is_ancestor(index.owner)]


def _made_from(values: Sequence[SSAValue], loop: aa.ForOp) -> list[Operation]:
    """What an iteration of a loop over tiles makes values from."""
    found: dict[Operation, None] = {}
    pending = list(values)
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, Operation) and owner not in found and loop.is_ancestor(owner):
            found[owner] = None
            pending += owner.operands
    return list(found)


def _looks_up(made: Sequence[Operation]) -> bool:
    return any(isinstance(op, aa.LoadOp | aa.TiledLoadOp) for op in made)


def _candidates(makers: Sequence[Operation]) -> list[int]:
    """Constants that numbers of tiles are divided by: powers of two."""
    found: set[int] = set()
    for op in makers:
        if isinstance(op, aa.RemIOp | aa.DivIOp | aa.MinIOp):
            found.update(constant_scalar(value) or 0 for value in op.operands)
    powers = (2**bit for bit in range(1, MOST_APART.bit_length()))
    return [power for power in powers if power in found]


def _share(values: Sequence[SSAValue], loop: aa.ForOp, distance: int) -> float:
    """How many of some pairs of tiles have the same indices."""
    equal = 0
    for pair in range(PAIRS):
        first = pair // distance * 2 * distance + pair % distance
        tiles = [_Tile(loop, number) for number in (first, first + distance)]
        one, other = ([tile.value(value) for value in values] for tile in tiles)
        if None in one or None in other:
            return 0.0
        equal += one == other
    return equal / PAIRS


@dataclass
class _Tile:
    """The scalars of a tile of a number."""

    loop: aa.ForOp
    number: int
    known: dict[SSAValue, int | None] = field(default_factory=dict[SSAValue, int | None])

    def value(self, value: SSAValue) -> int | None:
        """What a scalar is, None if that cannot be said."""
        if value not in self.known:
            self.known[value] = self._computed(value)
        return self.known[value]

    def _computed(self, value: SSAValue) -> int | None:
        if not isinstance(value.type, IntegerType):
            return None
        if value is self.loop.body.block.args[0]:
            return self.number
        if isinstance(value, BlockArgument):
            return SIZE if isinstance(value.block.parent_op(), aa.FuncOp) else None
        if not isinstance(value, OpResult):
            return None
        if isinstance(value.op, aa.ConstantOp):
            return _signed(constant_scalar(value))
        if isinstance(value.op, aa.GetNumProgramsOp):
            return SIZE
        operands = [self.value(operand) for operand in value.op.operands]
        if isinstance(value.op, aa.SelectOp):
            condition, yes, no = operands
            return None if condition is None else yes if condition else no
        known = [operand for operand in operands if operand is not None]
        return _scalar(value.op, known) if len(known) == len(operands) else None


def _scalar(op: Operation, operands: list[int]) -> int | None:
    """The result of an operation on scalars."""
    match op:
        case aa.AddIOp():
            return operands[0] + operands[1]
        case aa.SubIOp():
            return operands[0] - operands[1]
        case aa.MulIOp():
            return operands[0] * operands[1]
        case aa.MinIOp():
            return min(operands)
        case aa.MaxIOp():
            return max(operands)
        case aa.AndIOp():
            return operands[0] & operands[1]
        case aa.OrIOp():
            return operands[0] | operands[1]
        case aa.XOrIOp():
            return operands[0] ^ operands[1]
        case aa.ShRIOp():
            return operands[0] >> operands[1] if 0 <= operands[1] < _WRAP.bit_length() else None
        case aa.ExtIOp() | aa.TruncIOp():
            return operands[0]
        case aa.CmpIOp():
            return _compared(op, *operands)
        case aa.DivIOp() | aa.RemIOp() if operands[1]:
            return _divided(op, *operands)
        case _:
            return None


def _compared(op: aa.CmpIOp, lhs: int, rhs: int) -> int:
    match op.comparison_predicate.data:
        case ComparisonPredicate.EQUAL:
            return int(lhs == rhs)
        case ComparisonPredicate.NOT_EQUAL:
            return int(lhs != rhs)
        case ComparisonPredicate.LESS_THAN:
            return int(lhs < rhs)
        case ComparisonPredicate.LESS_THAN_OR_EQUAL:
            return int(lhs <= rhs)
        case ComparisonPredicate.GREATER_THAN:
            return int(lhs > rhs)
        case ComparisonPredicate.GREATER_THAN_OR_EQUAL:
            return int(lhs >= rhs)


def _divided(op: aa.DivIOp | aa.RemIOp, lhs: int, rhs: int) -> int:
    """A quotient, or what remains of one that is rounded towards zero."""
    quotient = abs(lhs) // abs(rhs) * (1 if (lhs < 0) == (rhs < 0) else -1)
    if isinstance(op, aa.RemIOp):
        return lhs - quotient * rhs
    match op.rounding.data:
        case RoundingMode.NEGATIVE_INF:
            return lhs // rhs
        case RoundingMode.POSITIVE_INF:
            return -(-lhs // rhs)
        case _:
            return quotient


def _signed(constant: int | None) -> int | None:
    """A constant of 32 bits with its sign."""
    if constant is None or constant < _WRAP // 2:
        return constant
    return constant - _WRAP if constant < _WRAP else constant

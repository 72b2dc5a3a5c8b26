"""Whether tile blocks take different times, and whether their numbers alone say which.

    for %k in [0, %number + 1) { dot }                       known: a triangle of tiles
    %n = load lengths[%number];  for %j in [0, %n) { dot }   loaded: nobody knows before
    if %number > %n { return };  for %k in [0, %d) { dot }   the same under a condition

What a grid is best at: whoever has ended takes the next tile block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

from xdsl.ir import Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa


class Lengths(Enum):
    """What is known of the lengths of tile blocks' loops, from the least to the most."""

    LOADED = "loaded"
    KNOWN = "known"
    EVEN = "even"


def lengths_of(func: aa.FuncOp) -> Lengths:
    """How long the loops with products of a kernel of one tile a block are.

    A branch that is not taken is a loop without iterations. Kernels that return early are to be
    given with the rest under the opposite condition.
    """
    found = [_kind(value) for value in _deciding(func)]
    return next((kind for kind in Lengths if kind in found), Lengths.EVEN)


def _deciding(func: aa.FuncOp) -> Iterator[SSAValue]:
    """The bounds of loops with products, and the conditions that they are under."""
    for loop in func.walk():
        if not isinstance(loop, aa.ForOp) or not _multiplies(loop):
            continue
        yield from (loop.lower_bound, loop.upper_bound, loop.step)
        around = loop.parent_op()
        while around is not None:
            if isinstance(around, aa.IfOp):
                yield around.condition
            around = around.parent_op()


def _multiplies(loop: aa.ForOp) -> bool:
    return any(isinstance(op, aa.ProductOp) for op in loop.walk())


def _kind(value: SSAValue) -> Lengths:
    """What a value depends on: what tile blocks load by their numbers, these, or neither."""
    makers = _makers([value])
    loads = (op for op in makers if isinstance(op, aa.TiledLoadOp | aa.LoadOp))
    if any(_has_number(_makers(load.operands)) for load in loads):
        return Lengths.LOADED
    return Lengths.KNOWN if _has_number(makers) else Lengths.EVEN


def _has_number(makers: dict[Operation, None]) -> bool:
    return any(isinstance(op, aa.GetProgramIdOp) for op in makers)


def _makers(values: Iterable[SSAValue]) -> dict[Operation, None]:
    """All that values are made from; what makes results inside of an operation counts, too."""
    found: dict[Operation, None] = {}
    pending = list(values)
    while pending:
        op = pending.pop().owner
        if not isinstance(op, Operation) or op in found:
            continue
        for inner in op.walk():
            found[inner] = None
            pending += inner.operands
    return found

"""Persistent kernels: their tile blocks divide work, however many of them there are."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.nesting import enclosing

MOST_VALUES = 16
"""Policy: values looked at between a loop and the size of the grid."""


def is_persistent(func: aa.FuncOp) -> bool:
    """Whether some loop of the kernel goes on by the number of tile blocks."""
    return any(walks_over_blocks(op) for op in func.walk() if isinstance(op, aa.ForOp | aa.LoopOp))


def walks_over_blocks(loop: aa.ForOp | aa.LoopOp) -> bool:
    """Whether the counter goes on by the number of tile blocks: one block does what many could.

    The counter of a loop without bounds is any value that it hands on.
    """
    if isinstance(loop, aa.ForOp):
        return loop.takes_over is not None or _counts_blocks([loop.step])
    handed_on = (
        value
        for op in loop.walk()
        if isinstance(op, aa.ContinueOp) and enclosing(op, aa.ForOp, aa.LoopOp) is loop
        for value in op.operands
    )
    return any(_counts_blocks([value]) for value in handed_on)


def _counts_blocks(values: Iterable[SSAValue]) -> bool:
    """Whether one of the values is made of the number of tile blocks."""
    pending = list(values)
    for _ in range(MOST_VALUES):
        if not pending:
            return False
        value = pending.pop()
        if not isinstance(value, OpResult):
            continue
        if isinstance(value.op, aa.GetNumProgramsOp):
            return True
        pending += value.op.operands
    return False

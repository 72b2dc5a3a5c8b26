"""Loops over the parts of a tile that was too large for registers, which CTAs may divide.

    for %part in [0, 4) { %s = for %i .. { %x = load %a[%i, 4 * %pid + %part]; .. }
                          store (reduce %s), %out[4 * %pid + %part] }

What `tileas-slicing` makes of a kernel of large tiles, of which a grid may have few.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import i32
from xdsl.ir import Operation
from xdsl.traits import Pure

from tileiras.dialects import nv_tileaa as aa
from tileiras.planning.critical_sections import constant_scalar
from tileiras.planning.memory_order import follows_write
from tileiras.planning.tile_scheduler.communication import may_communicate

_NOT_TWICE = (aa.AllocaOp, aa.PrintOp, aa.AssertOp)


@dataclass(frozen=True)
class PartLoop:
    """Such a loop, and how many parts it goes through, from 0 on by 1."""

    loop: aa.ForOp
    parts: int


def find_part_loop(func: aa.FuncOp) -> PartLoop | None:
    """The loop of a kernel whose iterations CTAs may divide, None if there is none.

    The kernel does nothing else; nothing is handed on from one iteration to the next, no token
    either, so they may come in any order. In each one a loop reads tiles: there is enough to do.
    """
    loops = [op for op in func.body.block.ops if op.regions]
    if len(loops) != 1 or not isinstance(loop := loops[0], aa.ForOp) or loop.results:
        return None
    parts = _parts(loop)
    operations = list(func.walk())
    if parts < 2 or any(isinstance(op, (*_NOT_TWICE, aa.ProductOp)) for op in operations):
        return None
    if any(map(may_communicate, operations)):
        return None
    others = [op for op in func.body.block.ops if op is not loop]
    if not all(op.has_trait(Pure) or isinstance(op, aa.ReturnOp) for op in others):
        return None
    loads = [op for op in loop.walk() if isinstance(op, aa.TiledLoadOp | aa.LoadOp)]
    if not any(_stands_in_loop(load, loop) for load in loads) or any(map(follows_write, loads)):
        return None
    return PartLoop(loop, parts)


def _parts(loop: aa.ForOp) -> int:
    """Iterations of a loop from 0 on by 1; 0 where that is not known, or it counts otherwise."""
    bounds = [constant_scalar(v) for v in (loop.lower_bound, loop.upper_bound, loop.step)]
    lower, upper, step = bounds
    if lower != 0 or step != 1 or upper is None or loop.step.type != i32:
        return 0
    return upper


def _stands_in_loop(op: Operation, outer: aa.ForOp) -> bool:
    """Whether a loop around an operation stands within the outer one."""
    parent = op.parent_op()
    while parent is not None and parent is not outer:
        if isinstance(parent, aa.ForOp):
            return True
        parent = parent.parent_op()
    return False

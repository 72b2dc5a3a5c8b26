"""Views that are the same in every iteration are made once, in front of the loop."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, OpResult, SSAValue

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.effects import is_speculatable
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.dialects.cuda_tile.views import MakeViewOp
from tileiras.ir_pass import CompileContext, IrPass


@dataclass(frozen=True)
class HoistViewsPass(IrPass):
    """Moves views out of loops, with the scalar arithmetic that computes their sizes.

    CUDA Tile C++ makes a view where it is accessed. A tensor map of TMA, however, must not change
    while copies are on their way, so a kernel has them for what is known in front of its loops.

    Before   for %k in (..) { %n = muli %a, %b;  %v = make_tensor_view %p, shape = [%n], .. }
    After    %n = muli %a, %b;  %v = make_tensor_view %p, shape = [%n], ..;  for %k in (..) { .. }
    Requires nothing; best in canonical form, before cse: equal views of several loops meet then.
    Leaves   views in branches, views of what the loop computes or carries, and those whose sizes
             come from operations that must not run where they did not run before
    """

    name = "hoist-views"
    title = "Hoist views out of loops"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Rewrites the module in place."""
        hoist_views(op)


def hoist_views(root: Operation) -> None:
    """Goes through all loops, inner ones first: a view moves out of as many as it can."""
    loops = [op for op in root.walk(region_first=True) if isinstance(op, ct.ForOp | ct.LoopOp)]
    for loop in loops:
        around, body = loop.parent_block(), loop.body.block
        if around is None:
            continue
        views = [op for op in body.ops if isinstance(op, ct.MakeTensorViewOp | MakeViewOp)]
        for view in views:
            for op in _what_moves(view, body) or ():
                op.detach()
                around.insert_op_before(op, loop)


def _what_moves(view: Operation, body: Block) -> list[Operation] | None:
    """The view behind the operations of the body that it needs; None if one of them must stay."""
    needed: dict[Operation, None] = {}
    pending: list[SSAValue] = list(view.operands)
    while pending:
        value = pending.pop()
        if not isinstance(value, OpResult):
            if value.owner is body:
                return None
            continue
        op = value.op
        if op.parent_block() is not body or op in needed:
            continue
        if not _may_move(op):
            return None
        needed[op] = None
        pending += op.operands
    return [*(op for op in body.ops if op in needed), view]


def _may_move(op: Operation) -> bool:
    """Whether the operation computes scalars or a view, and may run where it did not before."""
    if op.regions or not is_speculatable(op):
        return False
    return all(not isinstance(out.type, TileType) or not out.type.shape for out in op.results)


__all__ = ["HoistViewsPass", "hoist_views"]

"""The pass `insert-barriers`: threads meet where token order holds between what several do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from tileiras.analysis.memory_hazards import find_hazards
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.rewriting import erase_op


@dataclass(frozen=True)
class InsertBarriersPass(IrPass):
    """Puts a barrier wherever token order demands that the threads of a tile block meet.

    Before   %s = tiled_store %x, %v;  %y = tiled_load %v token = %s
    After    %s = tiled_store %x, %v;  barrier;  %y = tiled_load %v token = %s
    Requires nv_tileaa that no other pass of it changes any more
    Leaves   accesses that tokens do not order, that one thread makes for all, or between which
             there is a barrier anyway; barriers of an earlier run are placed anew
    """

    name = "insert-barriers"
    title: ClassVar[str] = "Insert barriers for token order"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Does so in all functions of the module."""
        for func in op.body.ops:
            if isinstance(func, aa.FuncOp):
                insert_barriers(func)


def insert_barriers(func: aa.FuncOp) -> None:
    """Puts a barrier before every operation that the hazard analysis names."""
    for op in [op for op in func.walk() if isinstance(op, aa.BarrierOp)]:
        erase_op(op)
    for op in find_hazards(func).before:
        block = op.parent_block()
        if block is not None:
            block.insert_op_before(aa.BarrierOp.create(location=op.location), op)

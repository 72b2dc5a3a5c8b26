"""Puts the operations of a loop of one stage into the order of its schedule."""

from __future__ import annotations

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, OpResult

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.schedule import (
    PUT_OFF,
    erase_schedule,
    op_schedule,
    operands_of,
)
from tileiras.planning.schedule.written import is_copy, read_order


def reorder(loop: aa.ForOp) -> bool:
    """Moves the operations of a loop's body, each behind what it needs; whether any moved.

    Loads that are copies go in front of the first reader of their tile, as what costs nothing does.
    """
    block = loop.body.block
    before = list(block.ops)
    order = [op for op, _ in read_order(loop) if not is_copy(op)]
    for op in order:
        if (found := op_schedule(op)) is not None and found.has("late"):
            op.attributes[PUT_OFF] = UnitAttr()
    erase_schedule(loop)
    if order == [op for op in before if op in order]:
        return False
    placed: dict[Operation, None] = {}

    def place(op: Operation) -> None:
        if op in placed or op.parent_block() is not block:
            return
        for operand in operands_of(op):
            if isinstance(operand, OpResult):
                place(operand.op)
        placed[op] = None

    for op in [*order, *before]:
        place(op)
    for op in placed:
        op.detach()
        block.add_op(op)
    return True

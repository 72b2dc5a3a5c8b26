"""Operands of a product that a pipeline brings: which tiles come, and whether they may."""

from __future__ import annotations

from dataclasses import dataclass

from tileiras.dialects import nv_tileaa as aa
from tileiras.planning.operands.tma import OperandLoad, SharedOperand, root_load, shared_or_why_not
from tileiras.planning.resources.stage_groups import is_for_products


@dataclass(frozen=True)
class StagedOperands:
    """The operands of a product in stages of pipelines; `lhs` None: it comes from registers."""

    lhs: SharedOperand | None
    rhs: SharedOperand


def staged_operands(op: aa.ProductOp) -> StagedOperands | None:
    """The operands in stages; None where the right one cannot come, or the left one in no way."""
    found = staged_or_why_not(op)
    return None if isinstance(found, str) else found


def staged_or_why_not(op: aa.ProductOp) -> StagedOperands | str:
    """The operands in stages, or why one of them cannot come."""
    lhs, rhs = shared_or_why_not(op.lhs), shared_or_why_not(op.rhs)
    left_load = root_load(op.lhs)
    is_left_here = left_load is not None and _is_read_here(left_load, op)
    is_left_free = not is_left_here or (left_load is not None and is_for_products(left_load))
    if isinstance(left_load, aa.LoadOp) and not is_left_free:
        lhs = left_load = None
    if isinstance(rhs, str):
        return f"the right operand {rhs}"
    if not _is_of_loop(op):
        return "the product stands in no loop over K"
    if not is_for_products(rhs.load):
        return "the tile of the right operand has other readers than products"
    # What arrives in a stage is used up in the same iteration.
    if rhs.load.parent_block() is not op.parent_block():
        return "the right operand is not loaded in the loop of the product"
    if left_load is None:
        return StagedOperands(None if isinstance(lhs, str) else lhs, rhs)
    if isinstance(lhs, str):
        return f"the left operand {lhs}"
    if lhs is not None and not is_left_free:
        return "the tile of the left operand has other readers than products"
    return StagedOperands(lhs, rhs)


def _is_read_here(load: OperandLoad, op: aa.ProductOp) -> bool:
    """Whether a load stands beside the product, not outside its loop."""
    return load.parent_block() is op.parent_block()


def _is_of_loop(op: aa.ProductOp) -> bool:
    """Whether the product stands in the body of a loop, or was peeled off one beside it."""
    block = op.parent_block()
    around = op.parent_op()
    while isinstance(around, aa.IfOp):
        around = around.parent_op()
    if isinstance(around, aa.ForOp) or block is None:
        return block is not None
    loops = [other for other in block.ops if isinstance(other, aa.ForOp)]
    return any(isinstance(inner, aa.ProductOp) for loop in loops for inner in loop.body.block.ops)

"""The condition of a loop over K that has iterations only where a tile exists."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import Pure

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import ComparisonPredicate


def guard_of(products: aa.ForOp) -> SSAValue | None:
    """The condition without which a loop over K that was opened has no iterations."""
    select = products.upper_bound.owner
    if not isinstance(select, aa.SelectOp):
        return None
    condition, _, otherwise = select.operands
    guards = any(
        isinstance(use.operation, aa.IfOp) and use.operation.parent_op() is products.parent_op()
        for use in condition.uses
    )
    return condition if otherwise is products.lower_bound and guards else None


def is_of_the_first(guard: SSAValue) -> bool:
    """Whether a guard holds for the first so many tile blocks, or rows or columns of them: a number
    of the tile block's is less than one that all have. A triangle or a band of tiles compares, or
    subtracts, two numbers of a tile block.
    """
    compare = guard.owner
    while isinstance(compare, aa.XOrIOp):  # the guard of what returns early
        compare = compare.operands[0].owner
    if not isinstance(compare, aa.CmpIOp) or isinstance(guard.type, TensorType):
        return False
    how = compare.comparison_predicate.data
    if how in (ComparisonPredicate.EQUAL, ComparisonPredicate.NOT_EQUAL):
        return False
    makers = made_from(guard)
    if makers is None:
        return False
    numbers: set[SSAValue] = set()
    for op in makers:
        own = [value in numbers for value in op.operands]
        if (op is compare or isinstance(op, aa.SubIOp)) and all(own):
            return False
        if isinstance(op, aa.GetProgramIdOp) or any(own):
            numbers.update(op.results)
    return guard in numbers


def made_from(value: SSAValue) -> list[Operation] | None:
    """What a condition is made from in its block, in order; None if not by arithmetic alone."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent_block()
    wanted: dict[Operation, None] = {}
    pending = [value]
    while pending:
        op = pending.pop().owner
        if isinstance(op, Block) or op in wanted or op.parent_block() is not block:
            continue
        if op.regions or not op.has_trait(Pure):
            return None
        wanted[op] = None
        pending += op.operands
    return [op for op in block.ops if op in wanted] if block is not None else []

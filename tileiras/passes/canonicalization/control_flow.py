"""Simplifications of ifs and loops: known conditions, known trip counts, unused results."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Operation, Region

from tileiras.dialects import cuda_tile as ct
from tileiras.passes.canonicalization.constants import (
    integer_width,
    splat_signed,
    splat_unsigned,
)
from tileiras.passes.canonicalization.editor import Editor
from tileiras.passes.canonicalization.simplifications import Simplification


def simplify_if(op: Any, editor: Editor) -> bool:
    """Takes the branch of a known condition, turns a negated one round, drops what is unused."""
    condition = splat_unsigned(op.condition)
    if condition is not None:
        _take_branch(op, op.then_region if condition else op.else_region, editor)
        return True
    return _swap_negated(op, editor) or _drop_unused_results(op, editor) or _drop_else(op)


def _take_branch(op: Any, region: Region, editor: Editor) -> None:
    if not region.blocks:
        editor.erase(op)
        return
    terminator = editor.inline_before(op, region, ())
    if isinstance(terminator, ct.YieldOp):
        values = list(terminator.operands)
        editor.erase(terminator)
        editor.replace(op, values)
        return
    # The branch leaves the block: nothing after it runs.
    editor.erase_after(terminator)


def _swap_negated(op: Any, editor: Editor) -> bool:
    maker = op.condition.owner
    if not isinstance(maker, ct.XOrIOp) or splat_unsigned(maker.rhs) != 1:
        return False
    if not op.else_region.blocks:
        return False
    then_block, else_block = op.then_region.blocks[0], op.else_region.blocks[0]
    op.then_region.detach_block(then_block)
    op.else_region.detach_block(else_block)
    op.then_region.add_block(else_block)
    op.else_region.add_block(then_block)
    op.operands = [maker.lhs]
    editor.revisit(op)
    editor.revisit(maker)
    return True


def _drop_unused_results(op: Any, editor: Editor) -> bool:
    used = [index for index, result in enumerate(op.results) if result.first_use is not None]
    if len(used) == len(op.results):
        return False
    yields = []
    for region in op.regions:
        last = region.blocks[0].last_op
        if isinstance(last, ct.YieldOp):
            yields.append(last)
    for last in yields:
        dropped = [value for index, value in enumerate(last.operands) if index not in used]
        last.operands = [last.operands[index] for index in used]
        for value in dropped:
            if isinstance(value.owner, Operation):
                editor.revisit(value.owner)
    regions = [op.detach_region(region) for region in list(op.regions)]
    new = ct.IfOp.create(
        operands=[op.condition],
        result_types=[op.results[index].type for index in used],
        regions=regions,
    )
    editor.insert_before(op, new)
    for position, index in enumerate(used):
        editor.revisit_users(op.results[index])
        op.results[index].replace_all_uses_with(new.results[position])
    editor.erase(op)
    return True


def _drop_else(op: Any) -> bool:
    if op.results or not op.else_region.blocks:
        return False
    block = op.else_region.blocks[0]
    if not isinstance(block.first_op, ct.YieldOp):
        return False
    op.else_region.detach_block(block)
    block.erase()
    return True


def simplify_for(op: Any, editor: Editor) -> bool:
    """A loop that never runs gives its initial values; one that runs once is its body."""
    trips = known_trip_count(op)
    if trips == 0:
        editor.replace(op, list(op.init_values))
        return True
    if trips != 1 or _continues_early(op.body):
        return False
    terminator = editor.inline_before(op, op.body, (op.lower_bound, *op.init_values))
    values = list(terminator.operands)
    editor.erase(terminator)
    editor.replace(op, values)
    return True


def known_trip_count(op: Any) -> int | None:
    """How often a loop with constant bounds runs; None if that is not known.

    A step that is not positive is undefined, and an induction variable that overflows may be.
    """
    read = splat_unsigned if op.unsigned_cmp is not None else splat_signed
    lower, upper, step = read(op.lower_bound), read(op.upper_bound), splat_signed(op.step)
    if lower is None or upper is None:
        return None
    if lower >= upper:
        return 0
    width = integer_width(op.lower_bound.type) or 0
    limit = 1 << (width - (op.unsigned_cmp is None))
    if step is None or step <= 0 or upper + step > limit:
        return None
    return -((lower - upper) // step)


def _continues_early(region: Region) -> bool:
    """Whether an if in a loop's body ends in `continue`, or leaves the program."""
    pending = [op for op in region.blocks[0].ops if isinstance(op, ct.IfOp)]
    while pending:
        op = pending.pop()
        for inner in op.regions:
            for block in inner.blocks:
                if not isinstance(block.last_op, ct.YieldOp):
                    return True
                pending.extend(child for child in block.ops if isinstance(child, ct.IfOp))
    return not isinstance(region.blocks[0].last_op, ct.ContinueOp)


CONTROL_FLOW: dict[type, Simplification] = {ct.IfOp: simplify_if, ct.ForOp: simplify_for}

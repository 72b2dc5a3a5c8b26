"""Loops that count to a bound become `for`, as all that follows knows it."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    IntegerOverflow,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.cuda_tile.effects import is_pure
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.canonicalization.canonicalize import canonicalize
from tileiras.passes.canonicalization.constants import splat_signed
from tileiras.passes.cuda_tile.loop_tests import (
    ask_first,
    count_up,
    first_if,
    is_outside,
    leaves_loop,
    number_before,
    only_break,
)
from tileiras.passes.rewriting import erase_op

_BREAKS_WHERE = {
    ComparisonPredicate.LESS_THAN: False,
    ComparisonPredicate.GREATER_THAN_OR_EQUAL: True,
}
"""Whether the loop is left where `counter PREDICATE bound` holds."""
_TURNED = {
    ComparisonPredicate.GREATER_THAN: ComparisonPredicate.LESS_THAN,
    ComparisonPredicate.LESS_THAN_OR_EQUAL: ComparisonPredicate.GREATER_THAN_OR_EQUAL,
}
"""What `bound PREDICATE counter` says of `counter` and `bound`."""


@dataclass(frozen=True)
class UpliftWhileToForPass(IrPass):
    """Turns loops that count to a bound, and end there and nowhere else, into `for`.

    Before   loop iter_values(%i = %a, %s = %z) { if %i < %n {} else { break %i, %s }; ...;
               %j = addi %i, 1; continue %j, %t }
    After    for %i in (%a to %n, step 1) iter_values(%s = %z) { ...; continue %t }
    Also     loops that ask behind the first iteration, and that count down to 0 (`loop_tests.py`)
    Requires canonical form.
    Leaves   loops with another break or a return, whose step is not 1 (or may overflow), whose
             bound changes, that do something before they ask for it (but at their very end), or
             whose counter is wanted behind them where the step is not 1
    """

    name = "uplift-while-to-for"
    title = "Turn loops that count into for"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Rewrites the module in place."""
        changed = False
        for loop in [inner for inner in op.walk() if isinstance(inner, ct.LoopOp)]:
            changed = ask_first(loop) or changed
            loop = count_up(loop)
            count = _count(loop)
            if count is not None:
                _rebuild(loop, count)
                changed = True
        if changed:
            canonicalize(op)


@dataclass(frozen=True)
class _Count:
    """How a loop counts: which carried value, to what, by what, and the `if` that leaves it."""

    number: int
    bound: SSAValue
    early: tuple[Operation, ...]
    """Operations of the body that the bound is made by, and that go in front of the loop."""
    step: int
    is_signed: bool
    leaves: ct.IfOp
    last: ct.BreakOp


def _count(loop: ct.LoopOp) -> _Count | None:
    """How a loop counts; None if it does not."""
    leaves = first_if(loop.body.block)
    last = only_break(leaves) if leaves is not None else None
    if leaves is None or last is None:
        return None
    ends = [op for op in loop.walk() if isinstance(op, ct.ReturnOp | ct.BreakOp)]
    if any(op is not last and leaves_loop(op, loop) for op in ends):
        return None
    comparison = leaves.condition.owner
    if not isinstance(comparison, ct.CmpIOp) or comparison.parent_block() is not loop.body.block:
        return None
    predicate = comparison.comparison_predicate.data
    counter, bound = comparison.lhs, comparison.rhs
    if predicate in _TURNED:
        predicate, counter, bound = _TURNED[predicate], bound, counter
    in_then = last.parent_block() is leaves.then_region.blocks.first
    early: dict[Operation, None] = {}
    if _BREAKS_WHERE.get(predicate) is not in_then or not _is_invariant(bound, loop, early):
        return None
    if not isinstance(counter, BlockArgument) or counter.block is not loop.body.block:
        return None
    step = _step(loop, counter, comparison.signedness)
    if step is None or not all(_is_known(value, loop) for value in last.operands):
        return None
    ends_used = (
        value for value, result in zip(last.operands, loop.results, strict=True) if result.first_use
    )
    if step > 1 and any(value is counter for value in ends_used):
        return None
    is_signed = comparison.signedness.data == Signedness.SIGNED
    return _Count(counter.index, bound, tuple(early), step, is_signed, leaves, last)


def _is_invariant(value: SSAValue, loop: ct.LoopOp, early: dict[Operation, None]) -> bool:
    """Whether a value is the same in all iterations; `early` gets what makes it in the body."""
    if is_outside(value, loop):
        return True
    op = value.owner
    if not isinstance(op, Operation) or op.parent_block() is not loop.body.block:
        return False
    if op.regions or not is_pure(op):
        return False
    if not all(_is_invariant(operand, loop, early) for operand in op.operands):
        return False
    early[op] = None
    return True


def _is_known(value: SSAValue, loop: ct.LoopOp) -> bool:
    """Whether a result of the loop is a carried value, or one from outside."""
    is_carried = isinstance(value, BlockArgument) and value.block is loop.body.block
    return is_carried or is_outside(value, loop)


def _step(loop: ct.LoopOp, counter: BlockArgument, signedness: SignednessAttr) -> int | None:
    """What every `continue` adds to the counter; None if not all add the same, or too much.

    One more than what is below the bound does not overflow; of more the addition must promise it.
    """
    promises = (IntegerOverflow.NO_SIGNED_WRAP, IntegerOverflow.NO_WRAP)
    if signedness.data != Signedness.SIGNED:
        promises = (IntegerOverflow.NO_UNSIGNED_WRAP, IntegerOverflow.NO_WRAP)
    steps: dict[int, None] = {}
    for op in loop.walk():
        if not isinstance(op, ct.ContinueOp) or not leaves_loop(op, loop):
            continue
        added = op.operands[counter.index]
        if not isinstance(added, OpResult) or not isinstance(added.op, ct.AddIOp):
            return None
        sides = (added.op.lhs, added.op.rhs)
        if counter not in sides:
            return None
        step = sides[1] if sides[0] is counter else sides[0]
        number = splat_signed(step)
        if number is None or number < 1:
            return None
        if number > 1 and added.op.overflow.data not in promises:
            return None
        steps[number] = None
    return next(iter(steps)) if len(steps) == 1 else None


def _rebuild(loop: ct.LoopOp, count: _Count) -> None:
    """Puts the `for` in the loop's place."""
    around, old = loop.parent_block(), loop.body.block
    if around is None:
        return
    for op in count.early:
        op.detach()
        around.insert_op_before(op, loop)
    counter = old.args[count.number]
    others = [arg for arg in old.args if arg is not counter]
    wanted = list(count.last.operands)
    erase_op(count.leaves)
    for op in loop.walk():
        if isinstance(op, ct.ContinueOp) and leaves_loop(op, loop):
            op.operands = [v for n, v in enumerate(op.operands) if n != count.number]
    block = Block(arg_types=[counter.type, *(arg.type for arg in others)])
    for before, after in zip([counter, *others], block.args, strict=True):
        after.name_hint = before.name_hint
        before.replace_all_uses_with(after)
    for op in list(old.ops):
        op.detach()
        block.add_op(op)
    step = number_before(loop, counter.type, count.step)
    made = ct.ForOp.create(
        operands=[loop.init_values[count.number], count.bound, step]
        + [value for n, value in enumerate(loop.init_values) if n != count.number],
        result_types=[arg.type for arg in others],
        properties={} if count.is_signed else {"unsignedCmp": UnitAttr()},
        regions=[Region(block)],
        location=loop.location,
    )
    around.insert_op_before(made, loop)
    finals: dict[SSAValue, SSAValue] = dict(zip(others, made.results, strict=True))
    for result, value in zip(loop.results, wanted, strict=True):
        if value is counter and result.first_use:
            finals[counter] = finals.get(counter) or _end(loop, count)
        result.replace_all_uses_with(finals.get(value, value))
    erase_op(loop)


def _end(loop: ct.LoopOp, count: _Count) -> SSAValue:
    """The counter behind a loop in steps of 1: the bound, or where it began beyond it."""
    signedness = Signedness.SIGNED if count.is_signed else Signedness.UNSIGNED
    first = loop.init_values[count.number]
    made = ct.MaxIOp.create(
        operands=[first, count.bound],
        result_types=[first.type],
        properties={"signedness": SignednessAttr(signedness)},
        location=loop.location,
    )
    block = loop.parent_block()
    if block is not None:
        block.insert_op_before(made, loop)
    return made.results[0]

"""Loops whose test stands elsewhere, or counts down, get one that `uplift-while-to-for` knows.

loop (%i = 0) { ..; %j = addi %i, 1; if (%j * 64 >= %n) { break %j }; continue %j }
  -> %e = max(1, ceildiv(%n, 64));  loop (%i = 0) { if %i < %e {} else { break %i }; .. }

loop (%c = %n) { if %c > 0 {} else { break }; ..; %d = subi %c, 64; continue %d }
  -> %e = ceildiv(%n, 64);  loop (%c = %n, %i = 0) { if %i < %e {} else { break }; .. }
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
    IntegerOverflow,
    IntegerOverflowAttr,
    RoundingMode,
    RoundingModeAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.cuda_tile.effects import is_pure
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.errors import InternalError, required
from tileiras.passes.canonicalization.constants import integer_splat, splat_signed
from tileiras.passes.rewriting import erase_op, replace_op_by

_TURNED = {
    ComparisonPredicate.LESS_THAN: ComparisonPredicate.GREATER_THAN,
    ComparisonPredicate.LESS_THAN_OR_EQUAL: ComparisonPredicate.GREATER_THAN_OR_EQUAL,
    ComparisonPredicate.GREATER_THAN: ComparisonPredicate.LESS_THAN,
    ComparisonPredicate.GREATER_THAN_OR_EQUAL: ComparisonPredicate.LESS_THAN_OR_EQUAL,
}
"""What `b PREDICATE a` says of a and b."""
_NEGATED = {
    ComparisonPredicate.LESS_THAN: ComparisonPredicate.GREATER_THAN_OR_EQUAL,
    ComparisonPredicate.LESS_THAN_OR_EQUAL: ComparisonPredicate.GREATER_THAN,
    ComparisonPredicate.GREATER_THAN: ComparisonPredicate.LESS_THAN_OR_EQUAL,
    ComparisonPredicate.GREATER_THAN_OR_EQUAL: ComparisonPredicate.LESS_THAN,
}
"""What holds where a predicate does not."""
_SIGNED = SignednessAttr(Signedness.SIGNED)
_READS = ct.LoadViewTkoOp | ct.LoadPtrTkoOp


def ask_first(loop: ct.LoopOp) -> bool:
    """Moves the test of a loop from its end to its beginning, if it counts; whether it did.

    The number of iterations is exact as long as `scale * counter` does not overflow. It would only
    where the bound is beyond the last multiple of the scale, a power of two, that there is: no
    multiple ends the loop then, which reads and computes for ever.
    """
    block = loop.body.block
    again = block.last_op
    leaves = again.prev_op if again is not None else None
    if not isinstance(again, ct.ContinueOp) or not isinstance(leaves, ct.IfOp):
        return False
    last = only_break(leaves)
    if last is None or tuple(last.operands) != tuple(again.operands):
        return False
    if any(op not in (last, again) and leaves_loop(op, loop) for op in _ends(loop)):
        return False
    found = _test(loop, leaves, last)
    if found is None or found[1] is not ComparisonPredicate.GREATER_THAN_OR_EQUAL:
        return False
    value, _, bound = found
    scale = 1
    if isinstance(value, OpResult) and isinstance(value.op, ct.MulIOp):
        scale = splat_signed(value.op.rhs) or 0
        value = value.op.lhs
    if scale < 1 or scale & (scale - 1) or not is_outside(bound, loop):
        return False
    if scale > 1 and not all(_only_reads(op) for op in loop.walk() if op is not loop):
        return False
    number = next((n for n, next_ in enumerate(again.operands) if next_ is value), None)
    if number is None or _added(value, block.args[number]) != 1:
        return False
    first = splat_signed(loop.init_values[number])
    if first is None or first < 0 or scale * (first + 1) >= _limit(value.type):
        return False
    if scale > 1:
        bound = _steps(loop, bound, scale)
    least = number_before(loop, bound.type, first + 1)
    end = _before(loop, ct.MaxIOp, [least, bound], {"signedness": _SIGNED})
    erase_op(leaves)
    _leave_from(loop, block.args[number], end, block.args)
    return True


def count_up(loop: ct.LoopOp) -> ct.LoopOp:
    """The loop, or one that counts its iterations beside a value that goes down to 0."""
    leaves = first_if(loop.body.block)
    last = only_break(leaves) if leaves is not None else None
    if leaves is None or last is None:
        return loop
    ends = [op for op in _ends(loop) if leaves_loop(op, loop)]
    if any(op is not last and not isinstance(op, ct.ContinueOp) for op in ends):
        return loop
    found = _test(loop, leaves, last)
    if found is None or found[1] is not ComparisonPredicate.LESS_THAN_OR_EQUAL:
        return loop
    counter, zero = _from_assumes(found[0]), splat_signed(found[2])
    if not isinstance(counter, BlockArgument) or counter.block is not loop.body.block or zero != 0:
        return loop
    results = [_from_assumes(value) for value in last.operands]
    if not all(is_outside(v, loop) or v in loop.body.block.args for v in results):
        return loop
    again = [op for op in ends if isinstance(op, ct.ContinueOp)]
    steps = {_subtracted(op.operands[counter.index], counter) for op in again}
    step = steps.pop() if len(steps) == 1 else None
    if step is None or step < 1:
        return loop
    end = _steps(loop, loop.init_values[counter.index], step)
    erase_op(leaves)
    number = _count_from_zero(loop, again)
    if number is None:
        loop, number = _with_count(loop, counter.type, again)
    _leave_from(loop, number, end, results)
    return loop


def _count_from_zero(loop: ct.LoopOp, again: list[ct.ContinueOp]) -> SSAValue | None:
    """A carried value that is the number of iterations before; None if there is none."""
    for arg, first in zip(loop.body.block.args, loop.init_values, strict=True):
        added = (_added(op.operands[arg.index], arg) for op in again)
        if splat_signed(first) == 0 and all(number == 1 for number in added):
            return arg
    return None


def _with_count(
    loop: ct.LoopOp, type: Attribute, again: list[ct.ContinueOp]
) -> tuple[ct.LoopOp, SSAValue]:
    """A loop in place of another that carries the number of iterations before, too."""
    zero, block = number_before(loop, type, 0), loop.body.block
    number = block.insert_arg(type, len(block.args))
    for op in again:
        overflow = {"overflow": IntegerOverflowAttr(IntegerOverflow.NONE)}
        more = _before(op, ct.AddIOp, [number, number_before(op, type, 1)], overflow)
        op.operands = [*op.operands, more]
    loop.body.detach_block(block)
    made = ct.LoopOp.create(
        operands=[*loop.init_values, zero],
        result_types=[result.type for result in loop.results],
        regions=[Region(block)],
        location=loop.location,
    )
    replace_op_by(loop, made)
    return made, number


def _test(
    loop: ct.LoopOp, leaves: ct.IfOp, last: ct.BreakOp
) -> tuple[SSAValue, ComparisonPredicate, SSAValue] | None:
    """A value, a relation and a bound from outside: the loop is left where the relation holds."""
    comparison = leaves.condition.owner
    if not isinstance(comparison, ct.CmpIOp) or comparison.signedness != _SIGNED:
        return None
    predicate = comparison.comparison_predicate.data
    value, bound = comparison.lhs, comparison.rhs
    if predicate not in _TURNED:
        return None
    if last.parent_block() is not leaves.then_region.blocks.first:
        predicate = _NEGATED[predicate]
    if is_outside(bound, loop):
        return value, predicate, bound
    return (bound, _TURNED[predicate], value) if is_outside(value, loop) else None


def _ends(loop: ct.LoopOp) -> list[Operation]:
    """What leaves a loop or goes on, be it this one or one inside it."""
    return [op for op in loop.walk() if isinstance(op, ct.ReturnOp | ct.BreakOp | ct.ContinueOp)]


def _limit(type: Attribute) -> int:
    """What integers of a type with a sign stay below."""
    element = type.element_type if isinstance(type, TileType) else type
    return 1 << (element.width.data - 1) if isinstance(element, IntegerType) else 0


def _only_reads(op: Operation) -> bool:
    """Whether nobody sees how often an operation was done."""
    if isinstance(op, ct.IfOp | ct.YieldOp | ct.ContinueOp | ct.BreakOp | _READS):
        return True
    return not op.regions and is_pure(op)


def _added(value: SSAValue, counter: SSAValue) -> int | None:
    """The constant that a value is more than a counter; None if it is not made so."""
    if not isinstance(value, OpResult) or not isinstance(value.op, ct.AddIOp):
        return None
    lhs, rhs = value.op.lhs, value.op.rhs
    if rhs is counter:
        return splat_signed(lhs)
    return splat_signed(rhs) if lhs is counter else None


def _subtracted(value: SSAValue, counter: SSAValue) -> int | None:
    """The constant that a value is less than a counter; None if it is not made so."""
    if not isinstance(value, OpResult):
        return None
    if isinstance(value.op, ct.SubIOp):
        return splat_signed(value.op.rhs) if _from_assumes(value.op.lhs) is counter else None
    if isinstance(value.op, ct.AddIOp) and _from_assumes(value.op.lhs) is counter:
        number = splat_signed(value.op.rhs)
        return None if number is None else -number
    return None


def _from_assumes(value: SSAValue) -> SSAValue:
    """The value of which things are assumed."""
    while isinstance(value, OpResult) and isinstance(value.op, ct.AssumeOp):
        value = value.op.value
    return value


def _leave_from(
    loop: ct.LoopOp, number: SSAValue, end: SSAValue, results: Sequence[SSAValue]
) -> None:
    """Lets a body begin by leaving the loop, with results, once a number is at its end."""
    place = loop.location
    properties = {
        "comparison_predicate": ComparisonPredicateAttr(ComparisonPredicate.LESS_THAN),
        "signedness": _SIGNED,
    }
    goes_on = ct.CmpIOp.create(
        operands=[number, end],
        result_types=[TileType(i1, ())],
        properties=properties,
        location=place,
    )
    stay, leave = Block(), Block()
    stay.add_op(ct.YieldOp.create(location=place))
    leave.add_op(ct.BreakOp.create(operands=results, location=place))
    regions = [Region(stay), Region(leave)]
    test = ct.IfOp.create(operands=goes_on.results, regions=regions, location=place)
    block = loop.body.block
    if block.first_op is None:
        raise InternalError("a loop has an empty body")
    block.insert_ops_before([goes_on, test], block.first_op)


def _steps(loop: ct.LoopOp, bound: SSAValue, step: int) -> SSAValue:
    """How many steps it is to a bound: a division upwards in front of the loop."""
    up = {"signedness": _SIGNED, "rounding": RoundingModeAttr(RoundingMode.POSITIVE_INF)}
    return _before(loop, ct.DivIOp, [bound, number_before(loop, bound.type, step)], up)


def number_before(op: Operation, type: Attribute, number: int) -> SSAValue:
    """A constant in front of an operation."""
    value = integer_splat(type, number)
    if value is None:
        raise InternalError("the counter of a loop has a type without constants")
    return _before(op, ct.ConstantOp, [], {"value": value}, type)


def _before(
    op: Operation,
    kind: type[Operation],
    operands: Sequence[SSAValue],
    properties: Mapping[str, Attribute],
    type: Attribute | None = None,
) -> SSAValue:
    """The result of a new operation in front of another; it has the operands' type."""
    made = kind.create(
        operands=operands,
        result_types=[type or operands[0].type],
        properties=dict(properties),
        location=op.location,
    )
    block = required(op.parent_block(), "an operation stands in no block")
    block.insert_op_before(made, op)
    return made.results[0]


def first_if(block: Block) -> ct.IfOp | None:
    """The `if` that a body begins with, behind operations without effects."""
    for op in block.ops:
        if isinstance(op, ct.IfOp):
            return op
        if op.regions or not is_pure(op):
            return None
    return None


def only_break(leaves: ct.IfOp) -> ct.BreakOp | None:
    """The break that one branch of an `if` consists of, where the other one is empty."""
    if leaves.results:
        return None
    ends = [block.first_op for region in leaves.regions for block in region.blocks]
    breaks = [op for op in ends if isinstance(op, ct.BreakOp)]
    if len(breaks) != 1 or not all(isinstance(op, ct.BreakOp | ct.YieldOp) for op in ends):
        return None
    return breaks[0]


def leaves_loop(op: Operation, loop: ct.LoopOp) -> bool:
    """Whether a break or return ends this loop, and not one inside of it."""
    if isinstance(op, ct.ReturnOp):
        return True
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, ct.LoopOp | ct.ForOp):
        parent = parent.parent_op()
    return parent is loop


def is_outside(value: SSAValue, loop: ct.LoopOp) -> bool:
    """Whether a value is made before the loop."""
    return not loop.is_ancestor(value.owner)

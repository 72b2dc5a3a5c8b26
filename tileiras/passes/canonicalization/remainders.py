"""Remainders with the sign of the divisor, as Python's `%` has them, where they are a mask.

    %r = remi %x, %d signed; %n = cmpi less_than %r, 0; %u = cmpi not_equal %r, 0
    %f = andi %n, %u; %s = addi %r, %d; %m = select %f, %s, %r     ->     %m = andi %x, %d - 1

for powers of two: the low bits of a two's complement number are its distance from the next lower
multiple.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import ComparisonPredicate, Signedness
from tileiras.passes.canonicalization.constants import integer_splat, splat_signed
from tileiras.passes.canonicalization.editor import Editor


def simplify_both_signs(op: ct.AndIOp, editor: Editor) -> bool:
    """`x < 0 and x != 0` is `x < 0`."""
    for first, second in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        source = _negative(first)
        if source is not None and _compared(second, ComparisonPredicate.NOT_EQUAL) is source:
            editor.replace(op, [first])
            return True
    return False


def simplify_floor_remainder(op: ct.SelectOp, editor: Editor) -> bool:
    """`r < 0 ? r + d : r`, where r is the remainder of x by d = 2^k, is the last k bits of x."""
    remainder, moved = op.val_if_false, op.val_if_true.owner
    made = remainder.owner
    if not isinstance(made, ct.RemIOp) or not isinstance(moved, ct.AddIOp):
        return False
    if made.signedness.data is not Signedness.SIGNED or _negative(op.cond) is not remainder:
        return False
    divisor = splat_signed(made.rhs)
    if moved.lhs is not remainder or divisor is None or splat_signed(moved.rhs) != divisor:
        return False
    if divisor <= 0 or divisor & (divisor - 1):
        return False
    mask = integer_splat(op.result.type, divisor - 1)
    if mask is None:
        return False
    operands = [made.lhs, editor.constant(op, mask)]
    new = ct.AndIOp.create(operands=operands, result_types=[op.result.type])
    editor.replace(op, editor.insert_before(op, new).results)
    return True


def _negative(condition: SSAValue) -> SSAValue | None:
    """What is asked to be less than zero."""
    op = condition.owner
    if not isinstance(op, ct.CmpIOp) or op.signedness.data is not Signedness.SIGNED:
        return None
    return _compared(condition, ComparisonPredicate.LESS_THAN)


def _compared(condition: SSAValue, predicate: ComparisonPredicate) -> SSAValue | None:
    """What is compared with zero in a way."""
    op = condition.owner
    if not isinstance(op, ct.CmpIOp) or op.comparison_predicate.data is not predicate:
        return None
    return op.lhs if splat_signed(op.rhs) == 0 else None

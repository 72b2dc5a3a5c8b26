"""Simplifications that make new operations, or change operands in place.

A simplification returns whether it changed anything; replaced operations are erased.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
    IntegerOverflow,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.cuda_tile.types import DYNAMIC
from tileiras.passes.canonicalization.constants import (
    constant_of,
    integer_splat,
    integer_width,
    splat_unsigned,
)
from tileiras.passes.canonicalization.editor import Editor
from tileiras.passes.canonicalization.powers import simplify_fpowf, simplify_fpowi
from tileiras.passes.canonicalization.product_sums import add_to_product, subtract_product
from tileiras.passes.canonicalization.remainders import (
    simplify_both_signs,
    simplify_floor_remainder,
)

Simplification = Callable[[Any, Editor], bool]

SWAPPED = {
    ComparisonPredicate.EQUAL: ComparisonPredicate.EQUAL,
    ComparisonPredicate.NOT_EQUAL: ComparisonPredicate.NOT_EQUAL,
    ComparisonPredicate.LESS_THAN: ComparisonPredicate.GREATER_THAN,
    ComparisonPredicate.LESS_THAN_OR_EQUAL: ComparisonPredicate.GREATER_THAN_OR_EQUAL,
    ComparisonPredicate.GREATER_THAN: ComparisonPredicate.LESS_THAN,
    ComparisonPredicate.GREATER_THAN_OR_EQUAL: ComparisonPredicate.LESS_THAN_OR_EQUAL,
}


def _set_operands(op: Operation, operands: list[SSAValue], editor: Editor) -> None:
    """Changes the operands of an operation, and looks again at what made the old ones."""
    old = list(op.operands)
    op.operands = operands
    editor.revisit(op)
    for value in old:
        if isinstance(value.owner, Operation):
            editor.revisit(value.owner)


def _constant_to_the_right(op: Any, editor: Editor) -> bool:
    left, right = op.operands
    if constant_of(left) is None or constant_of(right) is not None:
        return False
    _set_operands(op, [right, left], editor)
    if isinstance(op, ct.CmpIOp):
        predicate = SWAPPED[op.comparison_predicate.data]
        op.properties["comparison_predicate"] = ComparisonPredicateAttr(predicate)
    return True


def _simplify_addi(op: Any, editor: Editor) -> bool:
    """`(x + c1) + c2` is `x + (c1 + c2)`: addition wraps."""
    if _constant_to_the_right(op, editor):
        return True
    if add_to_product(op, editor):
        return True
    inner = op.lhs.owner
    if not isinstance(inner, ct.AddIOp) or op.overflow.data is not IntegerOverflow.NONE:
        return False
    first, second = splat_unsigned(inner.rhs), splat_unsigned(op.rhs)
    if first is None or second is None or inner.overflow.data is not IntegerOverflow.NONE:
        return False
    total = integer_splat(op.result.type, first + second)
    if total is None:
        return False
    _set_operands(op, [inner.lhs, editor.constant(op, total)], editor)
    return True


def _simplify_cmpi(op: Any, editor: Editor) -> bool:
    """A condition that was widened and is compared with zero is itself, or its negation.

    A `bool` of C++ is a byte, and conditions of loops and branches are integers there.
    """
    if _constant_to_the_right(op, editor):
        return True
    maker = op.lhs.owner
    if not isinstance(maker, ct.ExtIOp) or integer_width(maker.operands[0].type) != 1:
        return False
    if splat_unsigned(op.rhs) != 0:
        return False
    condition = maker.operands[0]
    match op.comparison_predicate.data:
        case ComparisonPredicate.NOT_EQUAL:
            editor.replace(op, [condition])
            return True
        case ComparisonPredicate.EQUAL:
            ones = integer_splat(condition.type, 1)
            if ones is None:
                return False
            operands = [condition, editor.constant(op, ones)]
            new = ct.XOrIOp.create(operands=operands, result_types=[condition.type])
            editor.replace(op, editor.insert_before(op, new).results)
            return True
        case _:
            return False


def _simplify_andi(op: Any, editor: Editor) -> bool:
    """Constants to the right; two questions about one sign."""
    return _constant_to_the_right(op, editor) or simplify_both_signs(op, editor)


def _simplify_addf(op: Any, editor: Editor) -> bool:
    """The product that an addition could take into an fma stands on the left."""
    if add_to_product(op, editor):
        return True
    left, right = op.lhs.owner, op.rhs.owner
    if isinstance(right, ct.MulFOp) and not isinstance(left, ct.MulFOp):
        _set_operands(op, [op.rhs, op.lhs], editor)
        return True
    return False


def _skip_inner(kind: type) -> Simplification:
    """`f(f(x))` is `f(x)` where only the outer result's type counts."""

    def simplify(op: Any, editor: Editor) -> bool:
        inner = op.operands[0].owner
        if not isinstance(inner, kind):
            return False
        _set_operands(op, [inner.operands[0]], editor)
        return True

    return simplify


def _simplify_absf(op: Any, editor: Editor) -> bool:
    """`|-x|` is `|x|`."""
    return _skip_inner(ct.NegFOp)(op, editor)


def _simplify_permute(op: Any, editor: Editor) -> bool:
    """Two permutations are one."""
    inner = op.source.owner
    if not isinstance(inner, ct.PermuteOp):
        return False
    first = tuple(inner.permutation.get_values())
    dims = [first[dim] for dim in op.permutation.get_values()]
    op.properties["permutation"] = DenseArrayBase.from_list(i32, dims)
    _set_operands(op, [inner.source], editor)
    return True


def _inverted(condition: SSAValue) -> SSAValue | None:
    """x if the condition is `x ^ true`."""
    maker = condition.owner
    if isinstance(maker, ct.XOrIOp) and splat_unsigned(maker.rhs) == 1:
        return maker.lhs
    return None


def _simplify_select(op: Any, editor: Editor) -> bool:
    """Turns a negated condition round, skips arms that cannot be taken, widens booleans."""
    if simplify_floor_remainder(op, editor):
        return True
    plain = _inverted(op.cond)
    if plain is not None:
        _set_operands(op, [plain, op.val_if_false, op.val_if_true], editor)
        return True
    for index in (1, 2):
        arm = op.operands[index].owner
        if isinstance(arm, ct.SelectOp) and arm.cond is op.cond:
            operands = list(op.operands)
            operands[index] = arm.operands[index]
            _set_operands(op, operands, editor)
            return True
    arms = splat_unsigned(op.val_if_true), splat_unsigned(op.val_if_false)
    width = integer_width(op.result.type)
    if arms == (1, 0) and width is not None and width > 1:
        new = ct.ExtIOp.create(
            operands=[op.cond],
            result_types=[op.result.type],
            properties={"signedness": SignednessAttr(Signedness.UNSIGNED)},
        )
        editor.replace(op, editor.insert_before(op, new).results)
        return True
    if arms == (0, 1) and width == 1:
        new = ct.XOrIOp.create(operands=[op.cond, op.val_if_false], result_types=[op.result.type])
        editor.replace(op, editor.insert_before(op, new).results)
        return True
    return False


def _simplify_join_tokens(op: Any, editor: Editor) -> bool:
    """Joins each token once, and none that waits for nothing."""
    distinct = list(dict.fromkeys(op.operands))
    waiting = [token for token in distinct if not isinstance(token.owner, ct.MakeTokenOp)]
    tokens = waiting or distinct[:1]
    if len(tokens) == 1:
        editor.replace(op, tokens)
        return True
    if len(tokens) < len(op.operands):
        _set_operands(op, tokens, editor)
        return True
    return False


def _simplify_get_tensor_shape(op: Any, editor: Editor) -> bool:
    """Sizes that the type or the tensor's maker tells."""
    maker = op.src.owner
    dynamic = iter(maker.dynamic_shape if isinstance(maker, ct.MakeTensorViewOp) else ())
    changed = False
    for size, result in zip(op.src.type.shape, op.results):
        operand = next(dynamic, None) if size == DYNAMIC else None
        if result.first_use is None:
            continue
        if size != DYNAMIC:
            value = integer_splat(result.type, size)
            known = None if value is None else editor.constant(op, value)
        else:
            known = operand if operand is not None and operand.type == result.type else None
        if known is not None:
            editor.revisit_users(result)
            result.replace_all_uses_with(known)
            changed = True
    if changed:
        editor.revisit(op)
    return changed


SIMPLIFICATIONS: dict[type, Simplification] = {
    ct.AddIOp: _simplify_addi,
    ct.MulIOp: _constant_to_the_right,
    ct.MulhiIOp: _constant_to_the_right,
    ct.AndIOp: _simplify_andi,
    ct.OrIOp: _constant_to_the_right,
    ct.XOrIOp: _constant_to_the_right,
    ct.MaxIOp: _constant_to_the_right,
    ct.MinIOp: _constant_to_the_right,
    ct.CmpIOp: _simplify_cmpi,
    ct.AddFOp: _simplify_addf,
    ct.SubFOp: subtract_product,
    ct.FPowFOp: simplify_fpowf,
    ct.FPowIOp: simplify_fpowi,
    ct.AbsFOp: _simplify_absf,
    ct.ReshapeOp: _skip_inner(ct.ReshapeOp),
    ct.BroadcastOp: _skip_inner(ct.BroadcastOp),
    ct.BitcastOp: _skip_inner(ct.BitcastOp),
    ct.PtrToPtrOp: _skip_inner(ct.PtrToPtrOp),
    ct.PermuteOp: _simplify_permute,
    ct.SelectOp: _simplify_select,
    ct.JoinTokensOp: _simplify_join_tokens,
    ct.GetTensorShapeOp: _simplify_get_tensor_shape,
}

"""Folds of operations that move, pick or name elements: exact for every element type.

A fold gives the value or constant that the result of an operation is, or None.
"""

from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import ComparisonPredicate
from tileiras.dialects.cuda_tile.element_types import storage_bytes
from tileiras.passes.canonicalization.constants import (
    constant_of,
    integer_splat,
    integer_width,
    retyped,
    splat_bytes,
    splat_unsigned,
)
from tileiras.passes.canonicalization.integer_folds import Fold, Folded


def _fold_reshape(op: Any) -> Folded:
    if op.source.type == op.result.type:
        return op.source
    constant = constant_of(op.source)
    if constant is not None:
        return retyped(constant, op.result.type)
    maker = op.source.owner
    if isinstance(maker, ct.ReshapeOp) and maker.source.type == op.result.type:
        return maker.source
    return None


def _fold_splat_move(op: Any) -> Folded:
    """An operation that only moves elements: nothing to do, or a splat stays one."""
    source = op.operands[0]
    type = op.results[0].type
    if splat_bytes(source) is not None:
        constant = constant_of(source)
        return None if constant is None else retyped(constant, type)
    return source if source.type == type and not isinstance(op, ct.PermuteOp) else None


def _fold_permute(op: Any) -> Folded:
    dims = tuple(op.permutation.get_values())
    if dims == tuple(range(len(dims))):
        return op.source
    return _fold_splat_move(op)


def _fold_iota(op: Any) -> Folded:
    return integer_splat(op.result.type, 0) if op.result.type.num_elements == 1 else None


def _fold_offset(op: Any) -> Folded:
    return op.ptr if splat_unsigned(op.offset) == 0 else None


def _fold_assume(op: Any) -> Folded:
    """A constant says all that an assumption could; the same assumption twice says it once."""
    if constant_of(op.value) is not None:
        return op.value
    maker = op.value.owner
    while isinstance(maker, ct.AssumeOp):
        if maker.predicate == op.predicate:
            return op.value
        maker = maker.value.owner
    return None


def _fold_bitcast(op: Any) -> Folded:
    if op.source.type == op.result.type:
        return op.source
    constant = constant_of(op.source)
    if constant is not None:
        sizes = [storage_bytes(value.type.element_type) for value in (op.source, op.result)]
        narrow = integer_width(op.source.type) == 1 or integer_width(op.result.type) == 1
        return retyped(constant, op.result.type) if sizes[0] == sizes[1] and not narrow else None
    maker = op.source.owner
    if isinstance(maker, ct.BitcastOp) and maker.source.type == op.result.type:
        return maker.source
    return None


_INVERSES: dict[type, type] = {
    ct.PtrToIntOp: ct.IntToPtrOp,
    ct.IntToPtrOp: ct.PtrToIntOp,
    ct.PtrToPtrOp: ct.PtrToPtrOp,
    ct.NegFOp: ct.NegFOp,
}


def _fold_inverse(op: Any) -> Folded:
    """An operation that undoes the one before it."""
    if isinstance(op, ct.PtrToPtrOp) and op.source.type == op.result.type:
        return op.source
    maker = op.source.owner
    if not isinstance(maker, Operation) or not isinstance(maker, _INVERSES[type(op)]):
        return None
    return maker.operands[0] if maker.operands[0].type == op.result.type else None


def _fold_absf(op: Any) -> Folded:
    return op.source if isinstance(op.source.owner, ct.AbsFOp) else None


def _fold_select(op: Any) -> Folded:
    if op.val_if_true is op.val_if_false:
        return op.val_if_true
    condition = splat_unsigned(op.cond)
    if condition is not None:
        return op.val_if_true if condition else op.val_if_false
    if integer_width(op.result.type) == 1 and op.cond.type == op.result.type:
        arms = splat_unsigned(op.val_if_true), splat_unsigned(op.val_if_false)
        if arms == (1, 0):
            return op.cond
    maker = op.cond.owner
    if isinstance(maker, ct.CmpIOp) and {maker.lhs, maker.rhs} == {op.val_if_true, op.val_if_false}:
        match maker.comparison_predicate.data:
            case ComparisonPredicate.EQUAL:
                return op.val_if_false
            case ComparisonPredicate.NOT_EQUAL:
                return op.val_if_true
    return None


TILE_FOLDS: dict[type, Fold] = {
    ct.ReshapeOp: _fold_reshape,
    ct.BroadcastOp: _fold_splat_move,
    ct.ExtractOp: _fold_splat_move,
    ct.PermuteOp: _fold_permute,
    ct.IotaOp: _fold_iota,
    ct.OffsetOp: _fold_offset,
    ct.AssumeOp: _fold_assume,
    ct.BitcastOp: _fold_bitcast,
    ct.PtrToIntOp: _fold_inverse,
    ct.IntToPtrOp: _fold_inverse,
    ct.PtrToPtrOp: _fold_inverse,
    ct.NegFOp: _fold_inverse,
    ct.AbsFOp: _fold_absf,
    ct.SelectOp: _fold_select,
}

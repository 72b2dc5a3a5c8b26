"""Layouts on both sides of operations that only give the places of elements other names."""

from __future__ import annotations

from xdsl.ir import Operation

from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileaa.tensors import BroadcastOp, ExtractOp, PermuteOp, ReshapeOp
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.errors import InternalError


def source_layout(op: Operation, layout: LinearLayout) -> LinearLayout:
    """Where the source of a broadcast, reshape, permutation or slice lies if the result is in
    `layout`: of a slice, every thread holds its share of all slices, in registers.
    """
    match op:
        case ExtractOp():
            return layout.with_registers_for(shape_of(op.source))
        case BroadcastOp():
            pairs = zip(shape_of(op.source), shape_of(op.result), strict=True)
            for axis, (before, after) in enumerate(pairs):
                if before != after:
                    layout = layout.slice(axis, keep_dim=True)
            return layout
        case ReshapeOp():
            return layout.reshape(shape_of(op.source))
        case PermuteOp():
            order = _order(op)
            return layout.permute([order.index(dim) for dim in range(len(order))])
        case _:
            raise InternalError(f"'{op.name}' is computed, not rearranged")


def result_layout(op: Operation, layout: LinearLayout) -> LinearLayout:
    """Where the result of a reshape or permutation lies if the source is in `layout`."""
    match op:
        case ReshapeOp():
            return layout.reshape(shape_of(op.result))
        case PermuteOp():
            return layout.permute(_order(op))
        case _:
            raise InternalError(f"'{op.name}' is computed, not rearranged")


def _order(op: PermuteOp) -> list[int]:
    """The source's dims in the order of the result."""
    return [int(dim) for dim in op.permutation.get_values()]

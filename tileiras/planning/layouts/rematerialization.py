"""Which tensors are computed again rather than moved between threads."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.types import element_of

LAZY_OPS = (
    aa.ConstantOp,
    aa.SplatOp,
    aa.MakeRangeOp,
    aa.BroadcastOp,
    aa.ReshapeOp,
    aa.PermuteOp,
)
"""Operations whose results are made anew in every layout that is asked for."""
LAZY_CLASSES = frozenset[type](LAZY_OPS)

MAX_REMATERIALIZED_OPS = 12
"""Policy: index arithmetic up to so many operations is cheaper repeated than moved."""


def is_tensor(value: SSAValue) -> bool:
    """Whether the value is a tensor, hence needs a layout."""
    return value.type.__class__ is TensorType


def is_lazy(value: SSAValue) -> bool:
    """Whether the value is made where it is needed."""
    return value.owner.__class__ in LAZY_CLASSES


def is_cheap(value: SSAValue) -> bool:
    """Whether a tensor is cheaper to compute again than to move between threads."""
    return rematerialization_cost(value) <= MAX_REMATERIALIZED_OPS


def is_widened(value: SSAValue) -> bool:
    """Whether a tensor is made of integers of fewer bits: these move, and are extended there."""
    if not isinstance(value, OpResult) or not isinstance(value.op, aa.ExtIOp):
        return False
    return storage_bits(element_of(value.op.source)) < storage_bits(element_of(value))


def is_negated(value: SSAValue) -> bool:
    """Whether a tensor is another one with the other sign: that moves, and is negated there.

    Both may be wanted there, as both parts of a complex matrix are.
    """
    return isinstance(value, OpResult) and isinstance(value.op, aa.NegFOp)


def rematerialization_cost(value: SSAValue, limit: int = MAX_REMATERIALIZED_OPS) -> int:
    """Operations to repeat for making a value elsewhere; more than `limit` if it cannot be."""
    if not is_tensor(value):
        return 0
    if not isinstance(value, OpResult):
        return limit + 1
    op = value.op
    if isinstance(op, aa.ConstantOp | aa.SplatOp | aa.MakeRangeOp):
        return 0
    if not isinstance(op, (ElementwiseOp, *LAZY_OPS)):
        return limit + 1
    cost = 1
    for operand in op.operands:
        cost += rematerialization_cost(operand, limit - cost)
        if cost > limit:
            return limit + 1
    return cost

"""Accumulators that start from zero."""

from __future__ import annotations

from xdsl.ir import OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.constants import DenseAttr


def is_zero(value: SSAValue) -> bool:
    """Whether a tile is a constant of zeros."""
    if not isinstance(value, OpResult) or not isinstance(value.op, aa.ConstantOp):
        return False
    constant = value.op.value
    return isinstance(constant, DenseAttr) and not any(constant.raw.data)

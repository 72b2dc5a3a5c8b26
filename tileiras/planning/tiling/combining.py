"""Which reductions can be applied to whole tensors."""

from __future__ import annotations

from xdsl.dialects.builtin import FloatTF32Type, IntegerAttr

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.constants import FloatBitsAttr
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp


def can_combine(op: aa.ReduceOp) -> bool:
    """Whether the body can be applied to whole tensors: elementwise operations and constants."""
    body = list(op.body.block.ops)[:-1]
    plain = all(isinstance(inner, ElementwiseOp | aa.ConstantOp) for inner in body)
    numbers = (IntegerAttr, FloatBitsAttr)
    known = all(isinstance(identity, numbers) for identity in op.identities.data)
    elements = [value.type for value in op.body.block.args]
    return plain and known and not any(isinstance(type, FloatTF32Type) for type in elements)

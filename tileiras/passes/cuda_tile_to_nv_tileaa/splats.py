"""Tensors whose elements are all equal are kept as scalars for as long as possible."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Attribute, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.passes.cuda_tile_to_nv_tileaa.converter import Converter


def is_splat_constant(op: aa.ConstantOp) -> bool:
    """Whether the constant's data is one element (of a tensor, or a scalar)."""
    attr = op.value
    return (
        attr.type.num_elements == 1
        or len(attr.raw.data) < attr.type.num_elements
        or (_is_uniform(attr))
    )


def _is_uniform(attr: DenseAttr) -> bool:
    """Whether all elements written out have the same bytes."""
    size, rest = divmod(len(attr.raw.data), attr.type.num_elements)
    return (
        rest == 0 and size > 0 and attr.raw.data == attr.raw.data[:size] * (attr.type.num_elements)
    )


def splat(converter: Converter, scalar: SSAValue, type: TensorType) -> SSAValue:
    """A tensor of one scalar."""
    return converter.emit_value(aa.SplatOp, [scalar], type)


def scalar_of(converter: Converter, value: SSAValue) -> SSAValue | None:
    """The scalar that all elements of `value` equal, if it is known to be a splat."""
    if not isinstance(value.type, TensorType):
        return value
    if not isinstance(value, OpResult):
        return None
    owner = value.op
    if isinstance(owner, aa.SplatOp):
        return owner.source
    if isinstance(owner, aa.ConstantOp) and is_splat_constant(owner):
        attr = owner.value
        splat_bytes = attr.raw.data
        if len(splat_bytes) >= attr.type.num_elements > 1:
            splat_bytes = splat_bytes[: len(splat_bytes) // attr.type.num_elements]
        scalar = DenseAttr(TileType(attr.type.element_type), splat_bytes)
        return converter.emit_value(aa.ConstantOp, [], value.type.element_type, {"value": scalar})
    return None


def integer(converter: Converter, value: int, type: Attribute) -> SSAValue:
    """A scalar integer constant."""
    if not isinstance(type, IntegerType):
        raise TypeError(f"expected an integer type, got {type}")
    size = max(1, type.width.data // 8)
    raw = (value & ((1 << type.width.data) - 1)).to_bytes(size, "little")
    return converter.emit_value(aa.ConstantOp, [], type, {"value": DenseAttr(TileType(type), raw)})

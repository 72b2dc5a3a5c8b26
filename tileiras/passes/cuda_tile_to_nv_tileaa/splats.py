"""Tensors whose elements are all equal are kept as scalars for as long as possible."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Attribute, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.element_types import storage_bytes
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.passes.cuda_tile_to_nv_tileaa.converter import Converter


def _splat_bytes(attr: DenseAttr) -> bytes | None:
    """The bytes of the one element that all elements equal, None if they differ."""
    raw, size = attr.raw.data, storage_bytes(attr.type.element_type)
    first = raw[:size]
    return first if raw == first * (len(raw) // size) else None


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
    if isinstance(owner, aa.ConstantOp):
        data = _splat_bytes(owner.value)
        if data is not None:
            scalar = DenseAttr(TileType(owner.value.type.element_type), data)
            element = value.type.element_type
            return converter.emit_value(aa.ConstantOp, [], element, {"value": scalar})
    return None


def integer(converter: Converter, value: int, type: Attribute) -> SSAValue:
    """A scalar integer constant."""
    if not isinstance(type, IntegerType):
        raise TypeError(f"expected an integer type, got {type}")
    size = max(1, type.width.data // 8)
    raw = (value & ((1 << type.width.data) - 1)).to_bytes(size, "little")
    return converter.emit_value(aa.ConstantOp, [], type, {"value": DenseAttr(TileType(type), raw)})

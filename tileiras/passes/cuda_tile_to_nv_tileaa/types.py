"""Types of cuda_tile at the nv_tileaa level."""

from __future__ import annotations

from functools import cache

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile import types as ct_types
from tileiras.dialects.cuda_tile.attributes import IntTupleAttr
from tileiras.dialects.nv_tileaa.types import MEM_TOKEN
from tileiras.errors import InternalError


@cache
def convert_type(type: Attribute) -> Attribute:
    """A tile becomes a tensor, or a scalar when of rank 0; pointers, views and tokens their own."""
    match type:
        case ct_types.TileType():
            element = convert_element(type.element_type)
            return TensorType(element, type.shape) if type.rank else element
        case ct_types.TokenType():
            return MEM_TOKEN
        case ct_types.TensorViewType():
            return _convert_tensor_view(type)
        case ct_types.ViewType():
            return _convert_view(type)
        case _:
            raise InternalError(f"type {type} has no form in nv_tileaa")


def convert_element(type: Attribute) -> Attribute:
    """Element types stay, but for pointers."""
    if isinstance(type, ct_types.PointerType):
        return aa.PointerType(convert_element(type.pointee))
    return type


def _convert_tensor_view(type: ct_types.TensorViewType) -> aa.MemRefType:
    return aa.MemRefType(convert_element(type.element_type), type.shape, type.strides)


def _convert_view(type: ct_types.ViewType) -> aa.TiledViewType:
    """Partition, strided and gather/scatter views are one type with different steps."""
    memref = _convert_tensor_view(type.tensor_view)
    identity = tuple(range(type.rank))
    sparse: tuple[int, ...] = ()
    match type:
        case ct_types.PartitionViewType():
            dim_map, steps = type.dim_map, type.tile_shape
        case ct_types.StridedViewType():
            dim_map, steps = type.dim_map, type.traversal_strides
        case ct_types.GatherScatterViewType():
            # Indices of a gather/scatter view are element offsets in every dim.
            dim_map, steps, sparse = identity, (1,) * type.rank, (type.sparse_dim,)
        case _:
            raise InternalError(f"unknown view type {type}")
    return aa.TiledViewType(
        memref,
        IntTupleAttr(type.tile_shape),
        IntTupleAttr(dim_map),
        IntTupleAttr(steps),
        type.padding,
        IntTupleAttr(sparse),
    )

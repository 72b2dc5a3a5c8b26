"""Types of the nv_tileaa dialect. Tiles are builtin tensors (scalars when of rank 0)."""

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import NoneAttr, NoneType, TensorType
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition

from tileiras.dialects.cuda_tile.attributes import IntTupleAttr, PaddingValue, PaddingValueAttr

if TYPE_CHECKING:
    from xdsl.parser import AttrParser


@irdl_attr_definition
class PointerType(ParametrizedAttribute, TypeAttribute):
    """`!nv_tileaa.ptr<f32>`: a pointer to global memory."""

    name = "nv_tileaa.ptr"
    pointee: Attribute


@irdl_attr_definition
class MemTokenType(ParametrizedAttribute, TypeAttribute):
    """`!nv_tileaa.mem_token`: orders memory operations; no value at run time."""

    name = "nv_tileaa.mem_token"


MEM_TOKEN = MemTokenType()


@irdl_attr_definition
class MemRefType(ParametrizedAttribute, TypeAttribute):
    """A strided tensor in global memory: element type, sizes and strides in elements.

    Sizes and strides known only at run time are `cuda_tile.types.DYNAMIC`.
    """

    name = "nv_tileaa.memref"
    element_type: Attribute
    dims: IntTupleAttr
    dim_strides: IntTupleAttr

    def __init__(self, element_type: Attribute, shape: Sequence[int], strides: Sequence[int]):
        super().__init__(element_type, IntTupleAttr(shape), IntTupleAttr(strides))

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes in elements."""
        return self.dims.data

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements."""
        return self.dim_strides.data


@irdl_attr_definition
class TiledViewType(ParametrizedAttribute, TypeAttribute):
    """A view that accesses move one tile through.

    Tile dim i runs along dim `dim_map[i]` of the memref; index j along it starts at element
    `j * steps[i]`. `sparse` names the dim whose index is a tensor of coordinates (gather/scatter).
    """

    name = "nv_tileaa.tiled_view"
    memref: MemRefType
    tile_dims: IntTupleAttr
    dim_map_dims: IntTupleAttr
    step_dims: IntTupleAttr
    padding: PaddingValueAttr | NoneAttr
    sparse: IntTupleAttr

    @classmethod
    def parse_parameters(cls, parser: "AttrParser") -> Sequence[Attribute]:
        """As printed; xDSL prints the attribute `none` and reads it as the type of that name."""
        return [
            NoneAttr() if isinstance(parameter, NoneType) else parameter
            for parameter in super().parse_parameters(parser)
        ]

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """Shape of the tile."""
        return self.tile_dims.data

    @property
    def dim_map(self) -> tuple[int, ...]:
        """Memref dim of each tile dim."""
        return self.dim_map_dims.data

    @property
    def steps(self) -> tuple[int, ...]:
        """Elements between neighbouring tiles, per tile dim."""
        return self.step_dims.data

    @property
    def sparse_dim(self) -> int | None:
        """The gathered dim, or None."""
        return self.sparse.data[0] if self.sparse.data else None

    @property
    def padding_value(self) -> PaddingValue | None:
        """What loads yield out of bounds; None leaves it unspecified."""
        return self.padding.data if isinstance(self.padding, PaddingValueAttr) else None


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The shape of a tile; () for a scalar."""
    return value.type.get_shape() if isinstance(value.type, TensorType) else ()


def element_count(value: SSAValue) -> int:
    """Elements of a tile; 1 for a scalar."""
    return prod(shape_of(value))


def element_of(value: SSAValue) -> Attribute:
    """The element type of a tile; a scalar's own type."""
    return value.type.element_type if isinstance(value.type, TensorType) else value.type


def with_element(type: Attribute, element: Attribute) -> Attribute:
    """The type of a tile, or of a scalar, with another element."""
    return TensorType(element, type.get_shape()) if isinstance(type, TensorType) else element

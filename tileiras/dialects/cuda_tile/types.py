"""Types of the cuda_tile dialect (Tile IR specification, "Type system").

Element types are xDSL's builtin ones, plus `fnv8E5M3FNU`, which MLIR does not have.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition

from tileiras.dialects.cuda_tile.attributes import (
    IntTupleAttr,
    PaddingValue,
    PaddingValueAttr,
    PointerKindAttr,
)
from tileiras.dialects.cuda_tile.type_rules import (
    check_dim_map,
    check_pointee,
    check_sparse_dim,
    check_tensor_view,
    check_tile,
    check_traversal_strides,
    check_view,
)

DYNAMIC = -(2**63)
"""A size or stride known only at run time (INT64_MIN, as in the bytecode)."""

_NONE = NoneAttr()


@irdl_attr_definition
class Float8E5M3FNUType(ParametrizedAttribute, TypeAttribute):
    """`fnv8E5M3FNU`: 8 bits, unsigned, 5 exponent and 3 mantissa bits, NaN is all ones."""

    name = "cuda_tile.fnv8E5M3FNU"


@irdl_attr_definition
class PointerType(ParametrizedAttribute, TypeAttribute):
    """`ptr<f32>`: a pointer to global memory; `kind` is the 13.4 `ptr_attr`, absent by default."""

    name = "cuda_tile.ptr"
    pointee: Attribute
    kind: PointerKindAttr | NoneAttr

    def __init__(self, pointee: Attribute, kind: PointerKindAttr | NoneAttr = _NONE):
        super().__init__(pointee, kind)

    def verify(self) -> None:
        """The pointee is a number; 4-bit integers have no address."""
        check_pointee(self.pointee)


@irdl_attr_definition
class TileType(ParametrizedAttribute, TypeAttribute):
    """`tile<4x8xf32>`: a value of every tile block; rank 0 is a scalar."""

    name = "cuda_tile.tile"
    dims: IntTupleAttr
    element_type: Attribute

    def __init__(self, element_type: Attribute, shape: Sequence[int] = ()):
        super().__init__(IntTupleAttr(shape), element_type)

    def verify(self) -> None:
        """Sizes are powers of two, 2^24 elements at most; elements are numbers or pointers."""
        check_tile(self.element_type, self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of all dims, powers of two."""
        return self.dims.data

    @property
    def rank(self) -> int:
        """Number of dims."""
        return len(self.dims.data)

    @property
    def num_elements(self) -> int:
        """Product of the dims."""
        count = 1
        for dim in self.dims.data:
            count *= dim
        return count


@irdl_attr_definition
class TensorViewType(ParametrizedAttribute, TypeAttribute):
    """`tensor_view<?x16xf32, strides=[1,?]>`: a tensor in global memory; DYNAMIC marks `?`."""

    name = "cuda_tile.tensor_view"
    element_type: Attribute
    dims: IntTupleAttr
    dim_strides: IntTupleAttr
    kind: PointerKindAttr | NoneAttr

    def __init__(
        self,
        element_type: Attribute,
        shape: Sequence[int],
        strides: Sequence[int],
        kind: PointerKindAttr | NoneAttr = _NONE,
    ):
        super().__init__(element_type, IntTupleAttr(shape), IntTupleAttr(strides), kind)

    def verify(self) -> None:
        """As many strides as sizes, all positive or dynamic."""
        check_tensor_view(self.element_type, self.shape, self.strides)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes in elements, DYNAMIC where unknown."""
        return self.dims.data

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements, DYNAMIC where unknown."""
        return self.dim_strides.data

    @property
    def rank(self) -> int:
        """Number of dims."""
        return len(self.dims.data)


@dataclass(frozen=True, init=False)
class ViewType(ParametrizedAttribute, TypeAttribute):
    """Base of the views that tile accesses go through.

    A dataclass of its own: otherwise views that differ in these fields only would compare equal.
    """

    tile_dims: IntTupleAttr
    tensor_view: TensorViewType
    padding: PaddingValueAttr | NoneAttr

    def verify(self) -> None:
        """The tile fits the tensor view; padding is a value of the elements."""
        tensor = self.tensor_view
        check_view(self.name, self.tile_shape, tensor.rank, tensor.element_type, self.padding_value)

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """Shape of the tile that one access moves."""
        return self.tile_dims.data

    @property
    def rank(self) -> int:
        """Rank of the tile, which is the rank of the index space."""
        return len(self.tile_dims.data)

    @property
    def tile_type(self) -> TileType:
        """Type of the tile that one access moves."""
        return TileType(self.tensor_view.element_type, self.tile_dims.data)

    @property
    def padding_value(self) -> PaddingValue | None:
        """What loads yield out of bounds; None leaves it unspecified."""
        return self.padding.data if isinstance(self.padding, PaddingValueAttr) else None


@irdl_attr_definition
class PartitionViewType(ViewType):
    """`partition_view<tile=(16x16), tensor_view<..>, dim_map=[1, 0]>`: disjoint tiles."""

    name = "cuda_tile.partition_view"
    dim_map_dims: IntTupleAttr

    def __init__(
        self,
        tile_shape: Sequence[int],
        tensor_view: TensorViewType,
        dim_map: Sequence[int],
        padding: PaddingValueAttr | NoneAttr = _NONE,
    ):
        super().__init__(IntTupleAttr(tile_shape), tensor_view, padding, IntTupleAttr(dim_map))

    def verify(self) -> None:
        """`dim_map` is a permutation."""
        super().verify()
        check_dim_map(self.name, self.rank, self.dim_map)

    @property
    def dim_map(self) -> tuple[int, ...]:
        """Tile dim i runs along dim `dim_map[i]` of the tensor view."""
        return self.dim_map_dims.data


@irdl_attr_definition
class StridedViewType(ViewType):
    """`strided_view<tile=(4x2), traversal_strides=[4,3], tensor_view<..>>`: overlapping tiles."""

    name = "cuda_tile.strided_view"
    traversal_dims: IntTupleAttr
    dim_map_dims: IntTupleAttr

    def __init__(
        self,
        tile_shape: Sequence[int],
        traversal_strides: Sequence[int],
        tensor_view: TensorViewType,
        dim_map: Sequence[int],
        padding: PaddingValueAttr | NoneAttr = _NONE,
    ):
        super().__init__(
            IntTupleAttr(tile_shape),
            tensor_view,
            padding,
            IntTupleAttr(traversal_strides),
            IntTupleAttr(dim_map),
        )

    def verify(self) -> None:
        """`dim_map` is a permutation; traversal strides are positive, one per dim."""
        super().verify()
        check_dim_map(self.name, self.rank, self.dim_map)
        check_traversal_strides(self.rank, self.traversal_strides)

    @property
    def dim_map(self) -> tuple[int, ...]:
        """Tile dim i runs along dim `dim_map[i]` of the tensor view."""
        return self.dim_map_dims.data

    @property
    def traversal_strides(self) -> tuple[int, ...]:
        """Distance in elements between neighbouring tiles, per tile dim."""
        return self.traversal_dims.data


@irdl_attr_definition
class GatherScatterViewType(ViewType):
    """`gather_scatter_view<tile=(8x16), tensor_view<..>, sparse_dim=0>`: an index picks rows."""

    name = "cuda_tile.gather_scatter_view"
    sparse: IntTupleAttr

    def __init__(
        self,
        tile_shape: Sequence[int],
        tensor_view: TensorViewType,
        sparse_dim: int,
        padding: PaddingValueAttr | NoneAttr = _NONE,
    ):
        super().__init__(
            IntTupleAttr(tile_shape), tensor_view, padding, IntTupleAttr((sparse_dim,))
        )

    def verify(self) -> None:
        """`sparse_dim` is a dim of the tile."""
        super().verify()
        check_sparse_dim(self.rank, self.sparse_dim)

    @property
    def sparse_dim(self) -> int:
        """The dim that the rank-1 index runs along."""
        return self.sparse.data[0]


@irdl_attr_definition
class TokenType(ParametrizedAttribute, TypeAttribute):
    """`token`: orders memory operations."""

    name = "cuda_tile.token"


TOKEN = TokenType()

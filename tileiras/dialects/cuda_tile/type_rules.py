"""What makes a cuda_tile type or constant valid (Tile IR specification, "Type system").

The checks run when a type is built, which the bytecode reader does once per type of a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.cuda_tile.attributes import PaddingValue

if TYPE_CHECKING:
    from tileiras.dialects.cuda_tile.constants import DenseAttr
    from tileiras.dialects.cuda_tile.types import (
        PointerType,
        TensorViewType,
        TileType,
        ViewType,
    )

MAX_TILE_ELEMENTS = 1 << 24
DYNAMIC = -(2**63)
NUMBER_NAMES = frozenset(
    {
        "bf16",
        "f16",
        "f32",
        "tf32",
        "f64",
        "f8E4M3FN",
        "f8E5M2",
        "f8E8M0FNU",
        "f4E2M1FN",
        "cuda_tile.fnv8E5M3FNU",
    }
)
INTEGER_WIDTHS = (1, 8, 16, 32, 64)


def _is_number(element: Attribute) -> bool:
    if isinstance(element, IntegerType):
        return element.width.data in INTEGER_WIDTHS and element.signedness.data.value == 0
    return element.name in NUMBER_NAMES


def _is_i4(element: Attribute) -> bool:
    return isinstance(element, IntegerType) and element.width.data == 4


def _text(type: Attribute) -> str:
    from tileiras.dialects.cuda_tile.element_types import element_text

    return element_text(type)


def _check_sizes(what: str, sizes: tuple[int, ...]) -> None:
    for dim, size in enumerate(sizes):
        if size < 1 or size & (size - 1):
            raise VerifyException(f"{what} has size {size} in dim {dim}, expected a power of two")
    count = 1
    for size in sizes:
        count *= size
    if count > MAX_TILE_ELEMENTS:
        raise VerifyException(f"{what} has {count} elements, expected at most {MAX_TILE_ELEMENTS}")


def check_pointee(type: PointerType) -> None:
    """The pointee of a pointer is a number of at least 8 bits, i1 or f4E2M1FN."""
    if not _is_number(type.pointee):
        raise VerifyException(f"ptr has pointee {_text(type.pointee)}, expected a number type")


def check_tile(type: TileType) -> None:
    """Sizes of a tile are powers of two, 2^24 elements at most; 4-bit floats come in pairs."""
    element = type.element_type
    if not _is_number(element) and element.name != "cuda_tile.ptr" and not _is_i4(element):
        raise VerifyException(
            f"tile has element type {_text(element)}, expected a number or pointer type"
        )
    _check_sizes("tile", type.shape)
    if type.rank and getattr(getattr(element, "pointee", None), "name", "") == "f4E2M1FN":
        raise VerifyException(
            f"tile of ptr<f4E2M1FN> has rank {type.rank}, expected 0 (4-bit elements are accessed "
            "through views)"
        )
    if element.name == "f4E2M1FN" and all(size == 1 for size in type.shape):
        raise VerifyException("tile of f4E2M1FN has no dim of even size, expected one")


def check_tensor_view(type: TensorViewType) -> None:
    """A tensor view has one stride per dim; sizes and strides are positive or dynamic."""
    if not _is_number(type.element_type):
        found = _text(type.element_type)
        raise VerifyException(f"tensor_view has element type {found}, expected a number type")
    if len(type.strides) != len(type.shape):
        raise VerifyException(
            f"tensor_view has {len(type.strides)} strides, "
            f"expected {len(type.shape)} (the rank of the tensor_view)"
        )
    for what, sizes in (("size", type.shape), ("stride", type.strides)):
        for dim, size in enumerate(sizes):
            if size != DYNAMIC and size < 1:
                raise VerifyException(
                    f"tensor_view has {what} {size} in dim {dim}, expected a positive number"
                )


def check_view(type: ViewType) -> None:
    """A view's tile has the rank of the tensor view; paddings beyond zero need float elements."""
    what = type.name.removeprefix("cuda_tile.")
    tile, rank = type.tile_shape, type.tensor_view.rank
    if not tile:
        raise VerifyException(f"{what} has a tile of rank 0, expected at least 1")
    if len(tile) != rank:
        raise VerifyException(
            f"{what} has a tile of rank {len(tile)}, expected {rank} (the rank of the tensor_view)"
        )
    _check_sizes(f"{what} tile", tile)
    element = type.tensor_view.element_type
    if element.name == "f4E2M1FN" and all(size == 1 for size in tile):
        raise VerifyException(f"{what} tile of f4E2M1FN has no dim of even size, expected one")
    padding = type.padding_value
    if padding not in (None, PaddingValue.ZERO) and element.name == "integer_type":
        raise VerifyException(
            f"{what} has padding value {padding.value} with element type {_text(element)}, "
            "expected zero"
        )


def check_dim_map(type: ViewType, dim_map: tuple[int, ...]) -> None:
    """`dim_map` is a permutation of the dims."""
    if sorted(dim_map) != list(range(type.rank)):
        what = type.name.removeprefix("cuda_tile.")
        raise VerifyException(
            f"{what} has dim_map {list(dim_map)}, expected a permutation of 0 to {type.rank - 1}"
        )


def check_traversal_strides(type: ViewType, strides: tuple[int, ...]) -> None:
    """Traversal strides are positive, one per dim."""
    if len(strides) != type.rank:
        raise VerifyException(
            f"strided_view has {len(strides)} traversal strides, "
            f"expected {type.rank} (the rank of the tile)"
        )
    for dim, stride in enumerate(strides):
        if stride < 1:
            raise VerifyException(
                f"strided_view has traversal stride {stride} in dim {dim}, expected at least 1"
            )


def check_sparse_dim(type: ViewType, sparse_dim: int) -> None:
    """The sparse dim is a dim of the tile."""
    if not 0 <= sparse_dim < type.rank:
        raise VerifyException(
            f"gather_scatter_view has sparse_dim {sparse_dim}, "
            f"expected 0 <= sparse_dim < {type.rank} (the rank of the tile)"
        )


def check_dense(value: DenseAttr) -> None:
    """A constant holds one element or all of them, and numbers only."""
    from tileiras.dialects.cuda_tile.element_types import storage_bytes

    element = value.type.element_type
    if not _is_number(element):
        raise VerifyException(f"constant has element type {_text(element)}, expected a number type")
    size = storage_bytes(element)
    found, full = len(value.raw.data), size * value.type.num_elements
    if found not in (size, full):
        raise VerifyException(f"constant has {found} bytes, expected {size} (a splat) or {full}")

"""What makes a cuda_tile type or constant valid (Tile IR specification, "Type system").

The checks run when a type is built, which the bytecode reader does once per type of a file.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.cuda_tile.attributes import PaddingValue
from tileiras.dialects.cuda_tile.element_names import FLOAT_NAMES, element_text

MAX_TILE_ELEMENTS = 1 << 24
DYNAMIC = -(2**63)
INTEGER_WIDTHS = (1, 8, 16, 32, 64)


def is_number(element: Attribute) -> bool:
    """Whether elements of a tile in memory may have this type."""
    if isinstance(element, IntegerType):
        return element.width.data in INTEGER_WIDTHS and element.signedness.data.value == 0
    return element.name in FLOAT_NAMES


def _is_i4(element: Attribute) -> bool:
    return isinstance(element, IntegerType) and element.width.data == 4


def _check_sizes(what: str, sizes: Sequence[int]) -> None:
    for dim, size in enumerate(sizes):
        if size < 1 or size & (size - 1):
            raise VerifyException(f"{what} has size {size} in dim {dim}, expected a power of two")
    count = 1
    for size in sizes:
        count *= size
    if count > MAX_TILE_ELEMENTS:
        raise VerifyException(f"{what} has {count} elements, expected at most {MAX_TILE_ELEMENTS}")


def check_pointee(pointee: Attribute) -> None:
    """The pointee of a pointer is a number of at least 8 bits, i1 or f4E2M1FN."""
    if not is_number(pointee):
        raise VerifyException(f"ptr has pointee {element_text(pointee)}, expected a number type")


def check_tile(element: Attribute, shape: Sequence[int]) -> None:
    """Sizes of a tile are powers of two, 2^24 elements at most; 4-bit floats come in pairs."""
    if not is_number(element) and element.name != "cuda_tile.ptr" and not _is_i4(element):
        raise VerifyException(
            f"tile has element type {element_text(element)}, expected a number or pointer type"
        )
    _check_sizes("tile", shape)
    if shape and getattr(getattr(element, "pointee", None), "name", "") == "f4E2M1FN":
        raise VerifyException(
            f"tile of ptr<f4E2M1FN> has rank {len(shape)}, expected 0 (4-bit elements are accessed "
            "through views)"
        )
    if element.name == "f4E2M1FN" and all(size == 1 for size in shape):
        raise VerifyException("tile of f4E2M1FN has no dim of even size, expected one")


def check_tensor_view(element: Attribute, shape: Sequence[int], strides: Sequence[int]) -> None:
    """A tensor view has one stride per dim; sizes and strides are positive or dynamic."""
    if not is_number(element):
        found = element_text(element)
        raise VerifyException(f"tensor_view has element type {found}, expected a number type")
    if len(strides) != len(shape):
        raise VerifyException(
            f"tensor_view has {len(strides)} strides, "
            f"expected {len(shape)} (the rank of the tensor_view)"
        )
    for what, sizes in (("size", shape), ("stride", strides)):
        for dim, size in enumerate(sizes):
            if size != DYNAMIC and size < 1:
                raise VerifyException(
                    f"tensor_view has {what} {size} in dim {dim}, expected a positive number"
                )


def check_view(
    name: str, tile: Sequence[int], rank: int, element: Attribute, padding: PaddingValue | None
) -> None:
    """A view's tile has the rank of the tensor view; paddings beyond zero need float elements."""
    what = name.removeprefix("cuda_tile.")
    if not tile:
        raise VerifyException(f"{what} has a tile of rank 0, expected at least 1")
    if len(tile) != rank:
        raise VerifyException(
            f"{what} has a tile of rank {len(tile)}, expected {rank} (the rank of the tensor_view)"
        )
    _check_sizes(f"{what} tile", tile)
    if element.name == "f4E2M1FN" and all(size == 1 for size in tile):
        raise VerifyException(f"{what} tile of f4E2M1FN has no dim of even size, expected one")
    if padding not in (None, PaddingValue.ZERO) and element.name == "integer_type":
        raise VerifyException(
            f"{what} has padding value {padding.value} with element type {element_text(element)}, "
            "expected zero"
        )


def check_dim_map(name: str, rank: int, dim_map: Sequence[int]) -> None:
    """`dim_map` is a permutation of the dims."""
    if sorted(dim_map) != list(range(rank)):
        what = name.removeprefix("cuda_tile.")
        raise VerifyException(
            f"{what} has dim_map {list(dim_map)}, expected a permutation of 0 to {rank - 1}"
        )


def check_traversal_strides(rank: int, strides: Sequence[int]) -> None:
    """Traversal strides are positive, one per dim."""
    if len(strides) != rank:
        raise VerifyException(
            f"strided_view has {len(strides)} traversal strides, "
            f"expected {rank} (the rank of the tile)"
        )
    for dim, stride in enumerate(strides):
        if stride < 1:
            raise VerifyException(
                f"strided_view has traversal stride {stride} in dim {dim}, expected at least 1"
            )


def check_sparse_dim(rank: int, sparse_dim: int) -> None:
    """The sparse dim is a dim of the tile."""
    if not 0 <= sparse_dim < rank:
        raise VerifyException(
            f"gather_scatter_view has sparse_dim {sparse_dim}, "
            f"expected 0 <= sparse_dim < {rank} (the rank of the tile)"
        )

"""Loads and stores of whole tiles in hand-built kernels, in several ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from xdsl.dialects.builtin import IntAttr, NoneAttr, i32

from tests.kernels.kernel_builder import NO_OVERFLOW, WEAK, Kernel, flags
from tests.kernels.view_kernels import load_view, store_view, tensor_view
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import DivByAttr
from tileiras.dialects.cuda_tile.types import (
    TOKEN,
    PartitionViewType,
    TensorViewType,
    TileType,
)

Way = Literal["pointer", "view"]
INT = TileType(i32)


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    return tuple(int(np.prod(shape[dim + 1 :], dtype=np.int64)) for dim in range(len(shape)))


def whole_view(kernel: Kernel, pointer: Any, shape: Sequence[int], sizes: Any = None) -> Any:
    """A view of one tile on a row-major tensor, of the tile's shape unless `sizes` are given."""
    sizes = tuple(sizes or shape)
    element = pointer.type.element_type.pointee
    type_ = TensorViewType(element, sizes, strides_of(sizes))
    view_type = PartitionViewType(tuple(shape), type_, tuple(range(len(shape))))
    base = tensor_view(kernel, pointer, type_)
    return kernel.add(ct.MakePartitionViewOp, [base], view_type)


def load(kernel: Kernel, pointer: Any, shape: Sequence[int], way: Way = "pointer") -> Any:
    """The row-major tile behind a pointer."""
    if way == "pointer" or not shape:
        return kernel.load(pointer, shape)
    zero = kernel.constant(i32, 0)
    return load_view(kernel, whole_view(kernel, pointer, shape), [zero] * len(shape))


def store(kernel: Kernel, pointer: Any, tile: Any, way: Way = "pointer") -> None:
    """Stores a tile in row-major order behind a pointer."""
    shape = tile.type.shape
    if way == "pointer" or not shape:
        kernel.store(pointer, tile)
        return
    zero = kernel.constant(i32, 0)
    store_view(kernel, tile, whole_view(kernel, pointer, shape), [zero] * len(shape))


def aligned(kernel: Kernel, pointer: Any, divisor: int = 16) -> Any:
    """The pointer, with the promise that its address is divisible."""
    promise = DivByAttr(IntAttr(divisor), NoneAttr(), NoneAttr())
    return kernel.add(ct.AssumeOp, [pointer], pointer.type, predicate=promise)


def block_index(kernel: Kernel) -> list[Any]:
    """The tile block's x, y, z."""
    return kernel.add(ct.GetTileBlockIdOp, [], [INT] * 3)


def advanced(kernel: Kernel, pointer: Any, count: int) -> Any:
    """The pointer moved by `count` elements for every block before this one (x)."""
    x, _, _ = block_index(kernel)
    step = kernel.constant(i32, count)
    distance = kernel.add(ct.MulIOp, [x, step], INT, overflow=NO_OVERFLOW)
    return kernel.add(ct.OffsetOp, [pointer, distance], pointer.type)


def masked_load(kernel: Kernel, addresses: Any, mask: Any, padding: Any, element: Any) -> Any:
    """The elements where the mask is set, elsewhere the padding (None: anything)."""
    shape = addresses.type.shape
    operands = [addresses, [mask], [] if padding is None else [padding], []]
    results = [TileType(element, shape), TOKEN]
    return kernel.add(ct.LoadPtrTkoOp, operands, results, memory_ordering_semantics=WEAK)[0]


def masked_store(kernel: Kernel, addresses: Any, tile: Any, mask: Any) -> None:
    """Stores the elements where the mask is set."""
    operands = [addresses, tile, [mask], []]
    kernel.add(ct.StorePtrTkoOp, operands, TOKEN, memory_ordering_semantics=WEAK)


__all__ = ["NO_OVERFLOW", "flags"]

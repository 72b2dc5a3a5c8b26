"""Views in hand-built kernels."""

from __future__ import annotations

from typing import Any

from tests.kernels.kernel_builder import WEAK, Kernel, flags
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.types import (
    DYNAMIC,
    TOKEN,
    GatherScatterViewType,
    PartitionViewType,
    StridedViewType,
    TensorViewType,
)

MAKE_VIEW = {
    PartitionViewType: ct.MakePartitionViewOp,
    StridedViewType: ct.MakeStridedViewOp,
    GatherScatterViewType: ct.MakeGatherScatterViewOp,
}


def tensor_view(kernel: Kernel, pointer: Any, type_: TensorViewType, sizes: Any = ()) -> Any:
    """A tensor view; dynamic sizes come first, dynamic strides after them."""
    count = type_.shape.count(DYNAMIC)
    return kernel.add(ct.MakeTensorViewOp, [pointer, sizes[:count], sizes[count:]], type_)


def load_view(kernel: Kernel, view: Any, index: Any, inbounds: Any = None) -> Any:
    """The tile that a view holds at an index."""
    return kernel.add(
        ct.LoadViewTkoOp,
        [view, index, []],
        [view.type.tile_type, TOKEN],
        memory_ordering_semantics=WEAK,
        inbounds=flags(inbounds or [0] * len(index)),
    )[0]


def store_view(kernel: Kernel, tile: Any, view: Any, index: Any) -> None:
    """Stores a tile through a view."""
    kernel.add(
        ct.StoreViewTkoOp,
        [tile, view, index, []],
        TOKEN,
        memory_ordering_semantics=WEAK,
        inbounds=flags([0] * len(index)),
    )

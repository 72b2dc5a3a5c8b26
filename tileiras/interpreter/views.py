"""Views of tensors in memory: how they are made, what they say of themselves, which elements an
access through them touches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tileiras.dialects.cuda_tile import views as ct
from tileiras.dialects.cuda_tile.types import (
    DYNAMIC,
    GatherScatterViewType,
    PartitionViewType,
    StridedViewType,
    TensorViewType,
    ViewType,
)
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.formats import Array, int_format_of
from tileiras.interpreter.state import BlockRun, EffectRule, TensorView, TileView, scalar


@dataclass(frozen=True)
class TileAccess:
    """The elements that one access moves: offsets in elements from the base, in the tile's shape.

    `inside` is false where the tile hangs over the tensor; the offset there means nothing.
    """

    offsets: Array
    inside: Array

    @property
    def is_full(self) -> bool:
        """Whether no element is out of bounds."""
        return bool(np.all(self.inside))


def tile_access(
    view: TileView, indices: Sequence[Array], inbounds: Sequence[int] = ()
) -> TileAccess:
    """The elements at an index of the view's index space.

    An index outside that space (undefined by the specification) reads padding and stores nothing.
    Raises InterpreterError where a dim that `inbounds` promises to be inside is not.
    """
    tensor, type_ = view.tensor, view.type
    rank = type_.rank
    offsets = np.zeros((1,) * rank, dtype=np.int64)
    inside = np.ones((1,) * rank, dtype=np.bool_)
    dim_map = _dim_map(type_)
    for dim, index in enumerate(indices):
        coordinates = _coordinates(type_, dim, index)
        size = tensor.shape[dim_map[dim]]
        is_inside = (coordinates >= 0) & (coordinates < size)
        if dim < len(inbounds) and inbounds[dim] and not np.all(is_inside):
            raise InterpreterError(
                f"index {index} leaves dim {dim} of size {size}, which is promised to be in bounds"
            )
        along = (1,) * dim + (-1,) + (1,) * (rank - dim - 1)
        offsets = offsets + (coordinates * tensor.strides[dim_map[dim]]).reshape(along)
        inside = inside & is_inside.reshape(along)
    return TileAccess(offsets, inside)


def _dim_map(type_: ViewType) -> tuple[int, ...]:
    """The tensor dim that each tile dim runs along."""
    if isinstance(type_, PartitionViewType | StridedViewType):
        return type_.dim_map
    return tuple(range(type_.rank))


def _coordinates(type_: ViewType, dim: int, index: Array) -> Array:
    """The tensor coordinates that a tile covers along one of its dims."""
    size = type_.tile_shape[dim]
    if isinstance(type_, GatherScatterViewType) and dim == type_.sparse_dim:
        return np.asarray(index, dtype=np.int64)
    return int(index) * _step(type_, dim) + np.arange(size, dtype=np.int64)


def _step(type_: ViewType, dim: int) -> int:
    """Elements between neighbouring indices; those of a gather view count elements."""
    match type_:
        case StridedViewType():
            return type_.traversal_strides[dim]
        case GatherScatterViewType():
            return 1
    return type_.tile_shape[dim]


def index_space(view: TileView) -> list[int]:
    """Number of tiles along each dim, of elements for a gather view."""
    return [
        -(-view.tensor.shape[tensor_dim] // _step(view.type, dim))
        for dim, tensor_dim in enumerate(_dim_map(view.type))
    ]


def _fill(static: Sequence[int], dynamic: Sequence[Array]) -> tuple[int, ...]:
    """Static sizes with the dynamic ones in their places."""
    values = iter(dynamic)
    return tuple(scalar(next(values)) if size == DYNAMIC else size for size in static)


def _make_tensor_view(run: BlockRun, op: ct.MakeTensorViewOp) -> list[TensorView]:
    type_ = op.result.type
    if not isinstance(type_, TensorViewType):
        raise InterpreterError(f"the result is a '{type_}', expected a tensor_view", op)
    shape = _fill(type_.shape, run.values(op.dynamic_shape))
    strides = _fill(type_.strides, run.values(op.dynamic_strides))
    return [TensorView(scalar(run.value(op.base)), shape, strides, type_.element_type)]


def _make_view(run: BlockRun, op: Any) -> list[TileView]:
    return [TileView(run.value(op.tensor_view), op.result.type)]


def _as_tiles(sizes: Sequence[int], op: Any) -> list[Array]:
    """Sizes as scalars of the op's result type."""
    fmt = int_format_of(op.results[0].type.element_type)
    return [np.asarray(fmt.wrap(np.asarray(size))) for size in sizes]


def _get_index_space_shape(run: BlockRun, op: ct.GetIndexSpaceShapeOp) -> list[Array]:
    return _as_tiles(index_space(run.value(op.src)), op)


def _get_tensor_shape(run: BlockRun, op: ct.GetTensorShapeOp) -> list[Array]:
    return _as_tiles(run.value(op.src).shape, op)


EFFECT_RULES: dict[type[Operation], EffectRule] = {
    ct.GetIndexSpaceShapeOp: _get_index_space_shape,
    ct.GetTensorShapeOp: _get_tensor_shape,
    ct.MakeGatherScatterViewOp: _make_view,
    ct.MakePartitionViewOp: _make_view,
    ct.MakeStridedViewOp: _make_view,
    ct.MakeTensorViewOp: _make_tensor_view,
}
"""View operations by class."""

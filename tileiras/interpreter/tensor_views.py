"""Memrefs and tiled views of nv_tileaa and nv_tileas: which elements an access touches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.types import DYNAMIC
from tileiras.interpreter.equivalent_ops import tile_element
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.formats import Array, Format, format_of
from tileiras.interpreter.state import BlockRun, TensorView, scalar
from tileiras.interpreter.views import TileAccess


@dataclass(frozen=True)
class TiledTensor:
    """A memref seen as a grid of tiles."""

    tensor: TensorView
    type: aa.TiledViewType

    @property
    def format(self) -> Format:
        """The format of the elements."""
        return format_of(self.tensor.element_type)


def make_memref(run: BlockRun, op: aa.MakeMemRefOp) -> list[TensorView]:
    """A tensor in memory; the facts that the operation states are checked."""
    type_ = op.result.type
    if not isinstance(type_, aa.MemRefType):
        raise InterpreterError(f"the result is a '{type_}', expected a memref", op)
    base = scalar(run.value(op.base))
    shape = _filled(type_.shape, run.values(op.dynamic_shape))
    strides = _filled(type_.strides, run.values(op.dynamic_strides))
    if op.base_align is not None and base % max(1, op.base_align.value.data):
        raise InterpreterError(f"base {base:#x} is not a multiple of {op.base_align.value.data}")
    facts = (("size", shape, op.shape_divisor), ("stride", strides, op.stride_divisor))
    for what, values, divisors in facts:
        for value, divisor in zip(values, divisors.data if divisors is not None else ()):
            if value % max(1, divisor):
                raise InterpreterError(f"{what} {value} is not a multiple of {divisor}")
    return [TensorView(base, shape, strides, tile_element(type_.element_type))]


def _filled(static: Sequence[int], dynamic: Sequence[Array]) -> tuple[int, ...]:
    values = iter(dynamic)
    return tuple(scalar(next(values)) if size == DYNAMIC else size for size in static)


def block_tile(run: BlockRun, op: aa.BlockTileOp) -> list[TiledTensor]:
    """A memref as a grid of tiles."""
    type_ = op.result.type
    if not isinstance(type_, aa.TiledViewType):
        raise InterpreterError(f"the result is a '{type_}', expected a tiled_view", op)
    return [TiledTensor(run.value(op.memref), type_)]


def view_access(run: BlockRun, op: Any) -> tuple[TiledTensor, TileAccess]:
    """The view of a tiled access and the elements that it touches, in the shape of the tile."""
    view: TiledTensor = run.value(op.view)
    promised = op.inbounds.get_values()
    return view, tile_elements(view, run.values(op.indices), promised)


def tile_elements(
    view: TiledTensor, indices: Sequence[Array], inbounds: Sequence[int] = ()
) -> TileAccess:
    """The elements of the tile at an index.

    Raises InterpreterError where a dim that `inbounds` promises to be inside is not.
    """
    type_, tensor = view.type, view.tensor
    rank = len(type_.tile_shape)
    offsets = np.zeros((1,) * rank, dtype=np.int64)
    inside = np.ones((1,) * rank, dtype=np.bool_)
    for axis, index in enumerate(indices):
        dim = type_.dim_map[axis]
        if axis == type_.sparse_dim:
            along = np.asarray(index, dtype=np.int64)
        else:
            start = int(index) * type_.steps[axis]
            along = start + np.arange(type_.tile_shape[axis], dtype=np.int64)
        is_inside = (along >= 0) & (along < tensor.shape[dim])
        if axis < len(inbounds) and inbounds[axis] and not np.all(is_inside):
            raise InterpreterError(
                f"index {index} leaves dim {axis} of size {tensor.shape[dim]}, "
                "which is promised to be in bounds"
            )
        shape = (1,) * axis + (-1,) + (1,) * (rank - axis - 1)
        offsets = offsets + (along * tensor.strides[dim]).reshape(shape)
        inside = inside & is_inside.reshape(shape)
    shape = type_.tile_shape
    return TileAccess(np.broadcast_to(offsets, shape), np.broadcast_to(inside, shape))

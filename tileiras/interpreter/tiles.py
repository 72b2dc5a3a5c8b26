"""Operations that move elements of tiles without computing: shapes, slices, constants, indices."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Operation

from tileiras.dialects.cuda_tile import tiles as ct
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import PointerType, TileType
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.formats import (
    Array,
    format_of,
    from_constant_bytes,
    int_format_of,
    storage_bytes,
)
from tileiras.interpreter.state import BlockRun, EffectRule, PureRule, scalar


def constant_value(attribute: DenseAttr) -> Array:
    """The tile that a constant attribute holds."""
    type_ = attribute.type
    elements = from_constant_bytes(attribute.raw.data, format_of(type_.element_type))
    if elements.size == 1:
        return np.full(type_.shape, elements.reshape(()), dtype=elements.dtype)
    return elements.reshape(type_.shape)


def _shape(op: Operation) -> tuple[int, ...]:
    return op.results[0].type.shape  # pyright: ignore


def _iota_rule(op: ct.IotaOp) -> Array:
    type_: TileType = op.result.type  # pyright: ignore
    return int_format_of(type_.element_type).wrap(np.arange(type_.num_elements))


def _offset_rule(op: ct.OffsetOp, pointer: Array, offset: Array) -> Array:
    type_: TileType = op.result.type  # pyright: ignore
    pointee = type_.element_type
    if not isinstance(pointee, PointerType):
        raise InterpreterError("the operand is not a tile of pointers", op)
    fmt = int_format_of(op.offset.type.element_type)  # pyright: ignore
    return pointer + fmt.signed(offset).astype(np.int64) * storage_bytes(pointee.pointee)


def _slices(op: Operation, indices: tuple[Array, ...], whole: Any, part: Any) -> tuple:
    """The slices of `whole` that slice number `indices` of shape `part` covers."""
    slices = []
    for index, size, extent in zip(indices, part, whole):
        start = scalar(index) * size
        if not 0 <= start < extent:
            raise InterpreterError(
                f"slice index {scalar(index)} is out of range, expected 0 to {extent // size - 1}",
                op,
            )
        slices.append(slice(start, start + size))
    return tuple(slices)


def _extract_rule(op: ct.ExtractOp, source: Array, *indices: Array) -> Array:
    return source[_slices(op, indices, source.shape, _shape(op))]


def _insert_rule(op: ct.InsertOp, source: Array, destination: Array, *indices: Array) -> Array:
    result = destination.copy()
    result[_slices(op, indices, destination.shape, source.shape)] = source
    return result


def _permute_rule(op: ct.PermuteOp, source: Array) -> Array:
    return np.transpose(source, op.permutation.get_values())


def _cat_rule(op: ct.CatOp, lhs: Array, rhs: Array) -> Array:
    return np.concatenate((lhs, rhs), axis=op.dim.value.data)


RULES: dict[type[Operation], PureRule] = {
    ct.AssumeOp: lambda op, value: value,
    ct.BroadcastOp: lambda op, source: np.broadcast_to(source, _shape(op)),
    ct.CatOp: _cat_rule,
    ct.ConstantOp: lambda op: constant_value(op.value),
    ct.ExtractOp: _extract_rule,
    ct.InsertOp: _insert_rule,
    ct.IotaOp: _iota_rule,
    ct.OffsetOp: _offset_rule,
    ct.PermuteOp: _permute_rule,
    ct.ReshapeOp: lambda op, source: np.reshape(source, _shape(op)),
}
"""Tile operations by class."""


def _block_id_rule(run: BlockRun, op: ct.GetTileBlockIdOp) -> list[Array]:
    return [np.asarray(part, dtype=np.int32) for part in run.block_id]


def _grid_rule(run: BlockRun, op: ct.GetNumTileBlocksOp) -> list[Array]:
    return [np.asarray(part, dtype=np.int32) for part in run.grid]


EFFECT_RULES: dict[type[Operation], EffectRule] = {
    ct.GetTileBlockIdOp: _block_id_rule,
    ct.GetNumTileBlocksOp: _grid_rule,
}
"""Operations that ask about the running block."""

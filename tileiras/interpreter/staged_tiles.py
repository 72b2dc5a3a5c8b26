"""Tiles in stages of pipelines, as copies have left them and as their readers see them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import FloatTF32Type
from xdsl.ir import Attribute, Operation

from tileiras.dialects.layout.scale_factors import CHUNK_BYTES
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileas.memdesc import ScaleChunksAttr, ScaleRowsAttr, is_in_smem
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.formats import Array


@dataclass(frozen=True)
class SharedTile:
    """What a copy has left in a stage: a tile whose dim `axis` is contiguous, in rows of panels."""

    values: Array
    axis: int
    swizzle: int


def tile_of_stage(
    stage: dict[int, SharedTile], offset: int, type: Attribute, op: Operation
) -> Array:
    """A tile of a stage in the shape and orientation of its type."""
    if not is_in_smem(type):
        raise InterpreterError("a tile of a stage is not in shared memory", op)
    found = stage.get(offset)
    if found is None:
        raise InterpreterError(f"nothing was copied to byte {offset} of the stage", op)
    if type.shared_linear is not None and found.values.shape == type.shape and not found.swizzle:
        return found.values
    inner = found.values.shape[found.axis]
    rows = np.moveaxis(found.values, found.axis, -1).reshape(-1, inner)
    tile = rows if type.major == 1 else rows.T
    if tile.shape != type.shape:
        raise InterpreterError(f"a tile of {tile.shape} is read as one of {type.shape}", op)
    swizzle, row = found.swizzle, inner * storage_bytes(type.element_type)
    are_scales = isinstance(type.encoding, ScaleChunksAttr | ScaleRowsAttr)
    if are_scales and not swizzle and not offset % CHUNK_BYTES:
        return tile
    is_swizzled = type.swizzle == swizzle != 0
    if not is_swizzled or row % swizzle or offset % (8 * swizzle):
        raise InterpreterError(f"rows of {row} bytes, swizzled by {swizzle}, are misread", op)
    return _cut_to_tf32(tile) if isinstance(type.element_type, FloatTF32Type) else tile


def _cut_to_tf32(tile: Array) -> Array:
    """f32 values as tensor cores read them: without the low 13 bits."""
    return (tile.view(np.uint32) & np.uint32(0xFFFF_E000)).view(np.float32)

"""Tensors as threads hold them: arrays [warps, lanes, registers] of elements, by layout.

A distributed value remembers nothing of its layout: the type of the SSA value has it. What several
threads or registers hold of one element must agree; `collect` is where that is found out.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from xdsl.ir import Attribute, Operation

from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.offsets import owner_mask, register_representatives
from tileiras.dialects.nv_tileas.encoding import layout_of
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.formats import Array

LANES = 32
"""Threads of a warp."""


@lru_cache(maxsize=1024)
def element_indices(layout: LinearLayout) -> Array:
    """The row-major index of the element in each [warp, lane, register]."""
    warps, lanes, registers = (_spread(layout, unit) for unit in ("warp", "lane", "register"))
    return warps[:, None, None] ^ lanes[None, :, None] ^ registers[None, None, :]


def _spread(layout: LinearLayout, unit: str) -> Array:
    """The part of the element's index that each value of one input dim gives."""
    vectors = layout.vectors(unit) if unit in layout.in_dims else ()
    result = np.zeros(1, dtype=np.int64)
    for vector in vectors:
        result = np.concatenate((result, result ^ vector))
    return result


@lru_cache(maxsize=1024)
def owned(layout: LinearLayout) -> Array:
    """Whether [warp, lane, register] is the one place that stores its element."""
    lane_mask, warp_mask = owner_mask(layout)
    warps, lanes, _ = element_indices(layout).shape
    representatives = np.asarray(register_representatives(layout))
    is_first = representatives == np.arange(representatives.size)
    is_lane = (np.arange(lanes) & lane_mask) == 0
    is_warp = (np.arange(warps) & warp_mask) == 0
    return is_warp[:, None, None] & is_lane[None, :, None] & is_first[None, None, :]


def thread_numbers(shape: tuple[int, ...]) -> Array:
    """The number of the thread of each [warp, lane, register]."""
    warps, lanes, registers = shape
    numbers = np.arange(warps * lanes).reshape(warps, lanes, 1)
    return np.broadcast_to(numbers, (warps, lanes, registers))


def required_layout(type: Attribute) -> LinearLayout:
    """The layout of a tensor type; InterpreterError if it has none."""
    layout = layout_of(type)
    if layout is None:
        raise InterpreterError(f"a tensor has no layout: '{type}'")
    return layout


def place(tile: Array, layout: LinearLayout) -> Array:
    """What every thread holds of a whole tile."""
    return np.ascontiguousarray(tile).reshape(-1)[element_indices(layout)]


def collect(value: Array, layout: LinearLayout, op: Operation) -> Array:
    """The whole tile that threads hold.

    Raises InterpreterError naming `op`, which reads the tile, where two copies of an element differ
    or where no thread holds one.
    """
    indices = element_indices(layout)
    if value.shape != indices.shape:
        raise InterpreterError(
            f"a value is held as {value.shape}, its layout {layout} says {indices.shape}", op
        )
    tile = np.empty(layout.size, dtype=value.dtype)
    tile[indices] = value
    is_copy_wrong = _bits(tile[indices]) != _bits(value)
    if np.any(is_copy_wrong):
        warp, lane, register = np.argwhere(is_copy_wrong)[0]
        place_ = layout.coordinate(int(indices[warp, lane, register]))
        raise InterpreterError(
            f"copies of element {place_} differ: register {register} of thread "
            f"{warp * LANES + lane} holds {value[warp, lane, register]}, "
            f"another holds {tile[indices[warp, lane, register]]}",
            op,
        )
    if not layout.is_surjective:
        raise InterpreterError(f"no thread holds some elements in layout {layout}", op)
    return tile.reshape(layout.shape)


def _bits(values: Array) -> Array:
    """Elements as unsigned integers, so that a NaN equals itself."""
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")

"""Tensor maps: made by the host or by `tensormap.replace` (PTX ISA, "Tensor-map", "tensormap").

The hardware's 128 bytes are opaque; here they have a layout of our own. All zeros, to which
programs set a map before they replace its fields, is a map of rank 1 with no size.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileiras.interpreter.ptx.access import locate
from tileiras.interpreter.ptx.decoding import Decoder, Execute, spread
from tileiras.interpreter.ptx.rules import rule
from tileiras.interpreter.ptx.state import Active, Cta
from tileiras.interpreter.ptx.syntax import Immediate
from tileiras.interpreter.ptx.types import B64, U32

MAP_BYTES = 128
_LAYOUT = struct.Struct("<Q6B2x5I4x4Q5I5I")

ELEMENT_TYPES = (
    "u8",
    "u16",
    "u32",
    "s32",
    "u64",
    "s64",
    "f16",
    "f32",
    "f32.ftz",
    "f64",
    "bf16",
    "tf32",
    "tf32.ftz",
    "b4x16",
    "b4x16_p64",
    "b6x16_p32",
)
"""By the values of field `elemtype` (PTX ISA, "tensormap.replace", table of new_val)."""

SWIZZLES = ("none", "32B", "64B", "128B", "96B")
ATOMICITIES = ("16B", "32B", "32B+8B", "64B")


@dataclass
class TensorMap:
    """A tensor map; lists begin with the innermost dimension, strides are bytes of dims 1 to 4.

    As a kernel argument, `array` is the tensor's memory: one of the other arguments, or new.
    """

    address: int = 0
    element: str = "u8"
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    box: tuple[int, ...] = ()
    element_strides: tuple[int, ...] = ()
    interleave: int = 0
    swizzle: str = "none"
    atomicity: str = "16B"
    fills_nan: bool = False
    array: Any = None

    def to_bytes_at(self, place: Callable[[np.ndarray], int]) -> bytes:
        """The map's 128 bytes; `place` gives the address of its array."""
        address = self.address if self.array is None else place(self.array)
        rank = len(self.shape)

        def filled(values: tuple[int, ...], count: int) -> tuple[int, ...]:
            return (*values, *(0,) * count)[:count]

        return _LAYOUT.pack(
            address,
            rank - 1,
            ELEMENT_TYPES.index(self.element),
            self.interleave,
            SWIZZLES.index(self.swizzle),
            ATOMICITIES.index(self.atomicity),
            int(self.fills_nan),
            *filled(self.shape, 5),
            *filled(self.strides, 4),
            *filled(self.box, 5),
            *filled(self.element_strides or (1,) * rank, 5),
        ).ljust(MAP_BYTES, b"\0")


def read_map(data: bytes) -> TensorMap:
    """The map that 128 bytes hold; ValueError for codes that mean nothing."""
    fields = _LAYOUT.unpack(data[: _LAYOUT.size])
    address, rank, element, interleave, swizzle, atomicity, fill = fields[:7]
    rank += 1
    if rank > 5 or element >= len(ELEMENT_TYPES) or swizzle >= len(SWIZZLES):
        raise ValueError("the 128 bytes are no tensor map")
    return TensorMap(
        address,
        ELEMENT_TYPES[element],
        fields[7 : 7 + rank],
        fields[12 : 12 + rank - 1],
        fields[16 : 16 + rank],
        fields[21 : 21 + rank],
        interleave,
        SWIZZLES[swizzle],
        ATOMICITIES[atomicity],
        bool(fill),
    )


_FIELDS: dict[str, tuple[int, int, int]] = {
    "global_address": (0, 8, 0),
    "rank": (8, 1, 0),
    "elemtype": (9, 1, 0),
    "interleave_layout": (10, 1, 0),
    "swizzle_mode": (11, 1, 0),
    "swizzle_atomicity": (12, 1, 0),
    "fill_mode": (13, 1, 0),
    "global_dim": (16, 4, 5),
    "global_stride": (40, 8, 4),
    "box_dim": (72, 4, 5),
    "element_stride": (92, 4, 5),
}
"""Offset, width in bytes and number of entries of every field."""


@rule("tensormap.replace")
def replace_field(d: Decoder) -> Execute:
    """`tensormap.replace.tile.field [map], {ord,} value`."""
    if not d.flag("tile"):
        d.error("expected .tile")
    name = d.choice(*_FIELDS)
    if name is None:
        d.error("unknown field")
    space = d.choice("global", "shared::cta") or ""
    type_ = d.type()
    if not d.flag("b1024"):
        d.error("expected .b1024")
    offset, width, entries = _FIELDS[name]
    d.count(3 if entries else 2)
    address, line = d.address(0), d.line
    ordinal = d.operands[1] if entries else Immediate(0)
    if not isinstance(ordinal, Immediate) or not isinstance(ordinal.value, int):
        d.error("the ordinal is no constant")
    if entries and not 0 <= ordinal.value < entries:
        d.error(f"ordinal {ordinal.value} of {entries}")
    read = d.src(d.operands[-1], B64 if type_.bits == 64 else U32)
    at = np.uint64(offset + width * ordinal.value)
    kind = np.dtype(f"u{width}")

    def run(cta: Cta, on: Active) -> None:
        index = on.index
        where = spread(address(cta), cta)[index]
        values = spread(read(cta), cta)[index].astype(kind)
        if (where % np.uint64(MAP_BYTES)).any():
            cta.fault(line, "the tensor map is not aligned to 128 bytes", on.first)
        for place in locate(cta, index, space, where + at, width, line):
            if place.cta is not None and place.cta.shadow is not None:
                place.cta.shadow.write(cta, index[place.rows], place.at, width, line)
            place.bytes.scatter(place.at, values[place.rows][:, None])

    return run


@rule("tensormap.cp_fenceproxy")
def copy_map(d: Decoder) -> Execute:
    """Copies a map from shared to global memory and makes it visible to TMA."""
    for word in ("global", "shared::cta", "tensormap::generic", "release", "sync", "aligned"):
        if not d.flag(word):
            d.error(f"expected .{word}")
    d.choice("cta", "cluster", "gpu", "sys")
    d.meet()
    target, source, line = d.address(0), d.address(1), d.line

    def run(cta: Cta, on: Active) -> None:
        leaders = np.array([int(on.index[on.index // 32 == warp][0]) for warp in on.warps])
        to, from_ = spread(target(cta), cta)[leaders], spread(source(cta), cta)[leaders]
        data = np.empty((0, 0), np.uint64)
        for place in locate(cta, leaders, "shared", from_, 16, line):
            data = place.bytes.gather(place.at, 8, MAP_BYTES // 8)
        for place in locate(cta, leaders, "global", to, 16, line):
            place.bytes.scatter(place.at, data)

    return run

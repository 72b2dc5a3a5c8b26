"""Tensor copies through tensor maps (PTX ISA, "cp.async.bulk.tensor", "Tensors", "Swizzling
Modes"). Reads happen when the work finishes, which is as late as can be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileiras.interpreter.ptx.access import Combine, combination, locate
from tileiras.interpreter.ptx.barriers import Mbarrier, complete_bytes, owner_of
from tileiras.interpreter.ptx.bulk import start_grouped
from tileiras.interpreter.ptx.decoding import Decoder, Execute, Read, spread
from tileiras.interpreter.ptx.memory import ARENA, Bytes
from tileiras.interpreter.ptx.rules import rule
from tileiras.interpreter.ptx.state import Active, Cta
from tileiras.interpreter.ptx.syntax import Address, Vector
from tileiras.interpreter.ptx.tensor_maps import MAP_BYTES, TensorMap, read_map
from tileiras.interpreter.ptx.types import TYPES

S32 = TYPES["s32"]

_UNITS: dict[str, tuple[int, int, int]] = {
    "u8": (1, 1, 1),
    "u16": (1, 2, 2),
    "u32": (1, 4, 4),
    "s32": (1, 4, 4),
    "u64": (1, 8, 8),
    "s64": (1, 8, 8),
    "f16": (1, 2, 2),
    "f32": (1, 4, 4),
    "f32.ftz": (1, 4, 4),
    "f64": (1, 8, 8),
    "bf16": (1, 2, 2),
    "tf32": (1, 4, 4),
    "tf32.ftz": (1, 4, 4),
    "b4x16": (16, 8, 8),
    "b4x16_p64": (16, 8, 16),
    "b6x16_p32": (16, 12, 16),
}
"""Elements that are copied as one, their bytes in global and in shared memory."""

_NAN: dict[str, int] = {"f16": 0x7FF7, "bf16": 0x7FF7, "f32": 0x7FF77FF7, "tf32": 0x7FF77FF7}
"""What out-of-bounds elements read as with fill mode NaN (f16 and f32 seen on an H200)."""


def swizzled(address: np.ndarray, swizzle: str, atomicity: str = "16B") -> np.ndarray:
    """Byte addresses in shared memory after the swizzle (PTX ISA, "Swizzling Modes")."""
    match swizzle, atomicity:
        case "none", _:
            return address
        case "128B", "16B":
            return address ^ ((address >> 7 & 7) << 4)
        case "128B", "32B":
            return address ^ ((address >> 7 & 3) << 5)
        case "128B", "64B":
            return address ^ ((address >> 7 & 1) << 6)
        case "64B", "16B":
            return address ^ ((address >> 7 & 3) << 4)
        case "32B", "16B":
            return address ^ ((address >> 7 & 1) << 4)
    raise ValueError(f"swizzle {swizzle} of {atomicity} is not supported")


@dataclass(frozen=True)
class Box:
    """The units of one copy: offsets in global memory and in the shared box, which are inside."""

    source: np.ndarray
    target: np.ndarray
    inside: np.ndarray
    unit: tuple[int, int, int]
    bytes: int


def box_of(map_: TensorMap, coordinates: list[int], rows: list[int] | None = None) -> Box:
    """The units of a box at coordinates (innermost first). With `rows` (gather4, scatter4) the
    second dimension's places are those rows. ValueError for maps that cannot be run."""
    rank = len(map_.shape)
    if len(coordinates) != rank:
        raise ValueError(f"{len(coordinates)} coordinates for a map of rank {rank}")
    if map_.interleave:
        raise ValueError("interleaved layouts are not supported")
    unit = _UNITS[map_.element]
    per_unit, outer, inner = unit
    if coordinates[0] % per_unit or map_.box[0] % per_unit:
        raise ValueError(f"the inner coordinate and box must be multiples of {per_unit}")
    strides = (outer / per_unit, *map_.strides)
    places = []
    for axis in range(rank):
        step = map_.element_strides[axis] * (per_unit if axis == 0 else 1)
        count = -(-map_.box[axis] // step)
        place = coordinates[axis] + step * np.arange(count, dtype=np.int64)
        if rows is not None and axis == 1:
            place = np.array(rows, np.int64)
        places.append(place)
    grids = np.meshgrid(*reversed(places), indexing="ij")[::-1]
    inside = np.ones(grids[0].shape, np.bool_)
    source = np.zeros(grids[0].shape, np.int64)
    for axis, grid in enumerate(grids):
        inside &= (grid >= 0) & (grid < map_.shape[axis])
        source += (grid * strides[axis]).astype(np.int64)
    target = np.arange(source.size, dtype=np.int64) * inner
    start = map_.address - ARENA
    return Box(source.reshape(-1) + start, target, inside.reshape(-1), unit, source.size * inner)


def _check_start(map_: TensorMap, start: int) -> None:
    """ValueError for a load whose inner coordinate is no multiple of 16 bytes.

    An H200 ends such a load with an illegal instruction (seen with u8, f16 and f32, with every
    swizzle). Packed elements smaller than a byte have a rule of their own.
    """
    per_unit, outer, _ = _UNITS[map_.element]
    if per_unit == 1 and start * outer % 16:
        raise ValueError(
            f"the load starts at element {start} of the inner dimension, which is byte "
            f"{start * outer}: not a multiple of 16"
        )


def _words(unit: tuple[int, int, int]) -> tuple[int, int]:
    """The width and number of the words that a unit is copied as."""
    width = 4 if unit[1] == 12 else unit[1]
    return width, unit[1] // width


def load_box(cta: Cta, map_: TensorMap, box: Box, shared: Bytes, offset: int, line: int) -> None:
    """Copies a box from global to shared memory, zeros (or NaN) where it is outside."""
    width, count = _words(box.unit)
    inside = np.flatnonzero(box.inside)
    data = np.zeros((len(box.source), count), shared.views[width].dtype)
    if map_.fills_nan:
        data[:] = _NAN.get(map_.element.removesuffix(".ftz"), 0)
    _check(cta, box.source[inside], box.unit[1], line)
    data[inside] = cta.grid.memory.gather(box.source[inside], width, count)
    for word in range(count):
        at = swizzled(box.target + (offset + word * width), map_.swizzle, map_.atomicity)
        shared.scatter(at, data[:, word : word + 1])


def store_box(
    cta: Cta, map_: TensorMap, box: Box, offset: int, line: int, combine: Combine | None
) -> None:
    """Copies (or reduces) a box from shared to global memory, only what is inside."""
    width, count = _words(box.unit)
    inside = np.flatnonzero(box.inside)
    _check(cta, box.source[inside], box.unit[1], line)
    memory = cta.grid.memory
    for word in range(count):
        at = box.target[inside] + (offset + word * width)
        place = swizzled(at, map_.swizzle, map_.atomicity)
        data = cta.shared.gather(place, width, 1)
        to = box.source[inside] + word * width
        if combine is not None:
            old = memory.gather(to, width, 1)
            data = combine(old[:, 0].copy(), data[:, 0].copy())[:, None]
        memory.scatter(to, data)


def _check(cta: Cta, at: np.ndarray, size: int, line: int) -> None:
    bad = cta.grid.memory.outside(at, size)
    if bad is not None:
        place = int(at[np.flatnonzero(bad)[0]]) + ARENA
        cta.fault(line, f"the tensor map leads to address {place:#x}, which is in no allocation")


@dataclass
class _Operands:
    """The map and coordinates of a tensor copy."""

    map: Read
    coordinates: list[Read]
    rank: int
    rows: bool


def _tensor_operands(d: Decoder, operand: Any) -> _Operands:
    rank = int((d.choice("1d", "2d", "3d", "4d", "5d") or "0d")[0])
    mode = d.choice("tile", "tile::gather4", "tile::scatter4")
    if not rank:
        d.error("expected .1d to .5d")
    if not isinstance(operand, Address) or not operand.rest:
        d.error("expected [map, {coordinates}]")
    vector = operand.rest[0]
    items = vector.items if isinstance(vector, Vector) else (vector,)
    rows = mode is not None and mode != "tile"
    if len(items) != (5 if rows else rank):
        d.error(f"{len(items)} coordinates for {rank} dimensions")
    coordinates = [d.src(item, S32) for item in items]
    return _Operands(d.address(Address(operand.base, operand.offset)), coordinates, rank, rows)


def _boxed(
    cta: Cta, operands: _Operands, thread: int, line: int, is_load: bool
) -> Callable[[], tuple[TensorMap, Box]]:
    """Reads the coordinates now, and the map when the work is done."""
    address = spread(operands.map(cta), cta)[thread]
    values = [int(spread(read(cta), cta)[thread]) for read in operands.coordinates]

    def make() -> tuple[TensorMap, Box]:
        if int(address) % 64:
            cta.fault(line, "the tensor map is not aligned to 64 bytes", thread)
        steps = address + np.arange(0, MAP_BYTES, 8, dtype=np.uint64)
        parts = []
        for place in locate(cta, np.full(len(steps), thread), "", steps, 8, line):
            parts.append(place.bytes.gather(place.at, 8, 1).tobytes())
        try:
            map_ = read_map(b"".join(parts))
            if operands.rows:
                return map_, box_of(map_, [values[0], 0], values[1:])
            if is_load:
                _check_start(map_, values[0])
            return map_, box_of(map_, values)
        except ValueError as error:
            cta.fault(line, str(error), thread)

    return make


@rule("cp.async.bulk.tensor")
def tensor_copy(d: Decoder) -> Execute:
    """`cp.async.bulk.tensor` from global to shared memory (mbarrier) or back (bulk group)."""
    while d.choice("L2::cache_hint"):
        pass
    if d.flag("bulk_group"):
        return _store(d, None)
    return _load(d)


@rule("cp.async.bulk.prefetch")
def tensor_prefetch(d: Decoder) -> Execute:
    """Prefetches change nothing."""
    d.modifiers.clear()
    return lambda cta, on: None


@rule("cp.reduce.async.bulk.tensor")
def tensor_reduce(d: Decoder) -> Execute:
    """`cp.reduce.async.bulk.tensor`: elements in global memory combined with those of the box."""
    name = d.choice("add", "min", "max", "inc", "dec", "and", "or", "xor")
    while d.choice("L2::cache_hint"):
        pass
    if name is None or not d.flag("bulk_group"):
        d.error("expected an operation and .bulk_group")
    return _store(d, name)


_COMBINED = {"u8": "u8", "f32.ftz": "f32", "tf32": "f32", "tf32.ftz": "f32"}


def _store(d: Decoder, name: str | None) -> Execute:
    operands = _tensor_operands(d, d.operands[0])
    if not (d.flag("global") and d.flag("shared::cta")):
        d.error("expected .global.shared::cta")
    source, line, text = d.address(1), d.line, d.text
    combines = {
        element: combination(d, name, TYPES[_COMBINED.get(element, element)])
        for element in ("u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f32.ftz")
        if name is not None and (name in ("add", "min", "max") or element[0] != "f")
        if name is not None and (name in ("add", "min", "max") or element != "bf16")
    }

    def run(cta: Cta, on: Active) -> None:
        wheres = spread(source(cta), cta)
        for thread in on.index:
            make = _boxed(cta, operands, int(thread), line, is_load=False)
            owner, offset = owner_of(cta, int(wheres[thread]), line)
            start = None if cta.shadow is None else cta.shadow.issue(int(thread))

            def action(make: Any = make, offset: int = offset, start: Any = start) -> None:
                map_, box = make()
                if cta.shadow is not None:
                    at = offset + np.arange(box.bytes)
                    cta.shadow.async_read(cta, start, at, line)
                combine = combines.get(map_.element) if name else None
                if name and combine is None:
                    cta.fault(line, f"elements of type {map_.element} cannot be reduced")
                store_box(cta, map_, box, offset, line, combine)

            if owner is not cta:
                cta.fault(line, "the source is in another CTA", int(thread))
            start_grouped(cta, int(thread), action, line, text, start)

    return run


def _load(d: Decoder) -> Execute:
    if not d.flag("mbarrier::complete_tx::bytes"):
        d.error("expected .mbarrier::complete_tx::bytes")
    operands = _tensor_operands(d, d.operands[1])
    to = d.choice("shared::cluster", "shared::cta")
    if to is None or not d.flag("global"):
        d.error("expected .shared::cluster.global")
    is_multicast = d.flag("multicast::cluster")
    is_pair = d.choice("cta_group::1", "cta_group::2") == "cta_group::2"
    target, barrier_at, line, text = d.address(0), d.address(2), d.line, d.text
    mask = d.src(3, TYPES["u16"], widens=True) if is_multicast else None

    def run(cta: Cta, on: Active) -> None:
        wheres, bars = spread(target(cta), cta), spread(barrier_at(cta), cta)
        for thread in on.index:
            make = _boxed(cta, operands, int(thread), line, is_load=True)
            owner, offset = owner_of(cta, int(wheres[thread]), line)
            bar_owner, bar_offset = owner_of(cta, int(bars[thread]), line)
            ranks = [owner.rank]
            if mask is not None:
                bits = int(spread(mask(cta), cta)[thread])
                ranks = [rank for rank in range(len(cta.cluster.ctas)) if bits >> rank & 1]
            for rank in ranks:
                receiver = cta.cluster.ctas[rank]
                at = bar_owner.rank if mask is None else rank
                if is_pair and mask is not None:
                    at = (rank & ~1) | (bar_owner.rank & 1)
                waits = cta.cluster.ctas[at].mbarriers.get(bar_offset)
                if waits is None:
                    message = f"no mbarrier was initialised at shared address {bar_offset:#x}"
                    cta.fault(line, message, int(thread))
                start = None if cta.shadow is None else cta.shadow.issue(int(thread))
                assert waits is not None
                cta.cluster.later(
                    _loading(cta, make, receiver, offset, waits, line, start), line, text
                )

    return run


def _loading(
    cta: Cta,
    make: Callable[[], tuple[TensorMap, Box]],
    receiver: Cta,
    offset: int,
    barrier: Mbarrier,
    line: int,
    start: Any,
) -> Callable[[], None]:
    """The work of one load into one CTA."""
    if receiver.shadow is not None:
        _, box = make()
        receiver.shadow.start_async(cta, start, offset, box.bytes, line)

    def finish() -> None:
        map_, box = make()
        if offset + box.bytes > receiver.shared.size:
            cta.fault(line, f"the box of {box.bytes} bytes ends outside of shared memory")
        load_box(cta, map_, box, receiver.shared, offset, line)
        clock = None
        if receiver.shadow is not None:
            clock = receiver.shadow.finish_async(start, offset, box.bytes, line)
        complete_bytes(receiver, barrier, box.bytes, clock)

    return finish

"""Tensor memory: allocation, loads, stores, copies from shared memory (PTX ISA, "Tensor Memory",
"tcgen05.alloc", "tcgen05.ld", "tcgen05.st", "tcgen05.cp").

An address has the lane in bits 16 and up and the column below. A warp reaches the 32 lanes of its
number modulo 4. Loads may be used, and stores are made, when the warp waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tileiras.interpreter.ptx.access import locate
from tileiras.interpreter.ptx.decoding import Decoder, Execute, Read, spread
from tileiras.interpreter.ptx.descriptors import byte_offsets, tcgen05_descriptor
from tileiras.interpreter.ptx.errors import PtxRuntimeError
from tileiras.interpreter.ptx.program import Reg
from tileiras.interpreter.ptx.rules import rule
from tileiras.interpreter.ptx.state import WARP, Active, Cta
from tileiras.interpreter.ptx.syntax import Address, Immediate
from tileiras.interpreter.ptx.types import B32, B64, U32

LANES, COLUMNS = 128, 512
_SMALLEST = 32


@dataclass
class LateStore:
    """A `tcgen05.st` that has not been waited for."""

    warps: np.ndarray
    lanes: np.ndarray
    columns: np.ndarray
    values: np.ndarray


@dataclass
class TensorMemory:
    """The tensor memory of an SM, which one CTA has to itself here."""

    cells: np.ndarray = field(default_factory=lambda: np.zeros((LANES, COLUMNS), np.uint32))
    owners: np.ndarray = field(default_factory=lambda: np.zeros(COLUMNS // _SMALLEST, np.int64))
    can_allocate: bool = True
    stores: list[LateStore] = field(default_factory=list)
    loads: dict[int, np.ndarray] = field(default_factory=dict)

    def check_freed(self, cta: Cta) -> None:
        """PtxRuntimeError if a CTA ended with columns still allocated."""
        if self.owners.any():
            line = int(self.owners[self.owners != 0][0])
            message = "tensor memory is not deallocated when the CTA ends"
            raise PtxRuntimeError(f"{message} (CTA {cta.ctaid})", line)

    def check_owned(self, cta: Cta, columns: np.ndarray, line: int) -> None:
        """Faults where columns outside of an allocation are used."""
        outside = (columns < 0) | (columns >= COLUMNS)
        if outside.any() or not self.owners[columns // _SMALLEST].all():
            cta.fault(line, f"column {int(columns.max())} of tensor memory is not allocated")


def tmem_of(cta: Cta) -> TensorMemory:
    """The CTA's tensor memory."""
    if cta.tmem is None:
        cta.tmem = TensorMemory()
    return cta.tmem


def _sync_aligned(d: Decoder) -> None:
    if not (d.flag("sync") and d.flag("aligned")):
        d.error("expected .sync.aligned")
    d.meet()


def _group(d: Decoder) -> int:
    group = d.choice("cta_group::1", "cta_group::2")
    if group is None:
        d.error("expected .cta_group")
    return int(group[-1])


@rule("tcgen05.alloc")
def allocate(d: Decoder) -> Execute:
    """`tcgen05.alloc [dst], columns`: writes the address to shared memory."""
    _group(d)
    _sync_aligned(d)
    space = d.choice("shared", "shared::cta") or ""
    if not d.flag("b32"):
        d.error("expected .b32")
    address, count, line = d.address(0), d.src(1, U32), d.line

    def run(cta: Cta, on: Active) -> None:
        memory = tmem_of(cta)
        for warp in on.warps:
            thread = int(on.index[on.index // WARP == warp][0])
            columns = int(spread(count(cta), cta)[thread])
            if columns not in (32, 64, 128, 256, 512):
                cta.fault(line, f"{columns} columns, expected a power of two, 32 to 512", thread)
            if not memory.can_allocate:
                cta.fault(line, "an allocation after relinquish_alloc_permit", thread)
            units = columns // _SMALLEST
            free = [
                at
                for at in range(0, len(memory.owners), units)
                if not memory.owners[at : at + units].any()
            ]
            if not free:
                cta.fault(line, f"{columns} columns of tensor memory are not free", thread)
            memory.owners[free[0] : free[0] + units] = line
            where = spread(address(cta), cta)[thread : thread + 1]
            value = np.array([[free[0] * _SMALLEST]], np.uint32)
            for place in locate(cta, np.array([thread]), space, where, 4, line):
                if place.cta is not None and place.cta.shadow is not None:
                    place.cta.shadow.write(cta, np.array([thread]), place.at, 4, line)
                place.bytes.scatter(place.at, value)

    return run


@rule("tcgen05.dealloc")
def deallocate(d: Decoder) -> Execute:
    """`tcgen05.dealloc address, columns`."""
    _group(d)
    _sync_aligned(d)
    if not d.flag("b32"):
        d.error("expected .b32")
    address, count, line = d.src(0, U32), d.src(1, U32), d.line

    def run(cta: Cta, on: Active) -> None:
        memory = tmem_of(cta)
        first = int(spread(address(cta), cta)[on.first]) & 0xFFFF
        columns = int(spread(count(cta), cta)[on.first])
        units = slice(first // _SMALLEST, (first + columns) // _SMALLEST)
        if not memory.owners[units].all():
            cta.fault(line, "columns of tensor memory that are not allocated", on.first)
        memory.owners[units] = 0

    return run


@rule("tcgen05.relinquish_alloc_permit")
def relinquish(d: Decoder) -> Execute:
    """The CTA allocates no more."""
    _group(d)
    _sync_aligned(d)

    def run(cta: Cta, on: Active) -> None:
        tmem_of(cta).can_allocate = False

    return run


# ld, st ---------------------------------------------------------------------------------------


def shape_cells(shape: str, repeat: int, split: int) -> tuple[np.ndarray, np.ndarray]:
    """Lane and column, relative to the address, of (thread of the warp, register).

    PTX ISA, "Data Movement Shape": fragments of .32x32b, .16x64b, .16x128b, .16x256b, .16x32bx2.
    """
    t = np.arange(WARP)[:, None]
    match shape:
        case "32x32b":
            register = np.arange(repeat)[None, :]
            return t + 0 * register, register + 0 * t
        case "16x32bx2":
            register = np.arange(repeat)[None, :]
            return t % 16 + 0 * register, register + t // 16 * split
        case "16x64b":
            register = np.arange(repeat)[None, :]
            return t // 4 + 8 * (t >> 1 & 1) + 0 * register, 2 * register + t % 2
        case "16x128b":
            register = np.arange(2 * repeat)[None, :]
            return t // 4 + 8 * (register & 1), 4 * (register >> 1) + t % 4
    register = np.arange(4 * repeat)[None, :]
    column = 8 * (register >> 2) + t % 4 * 2 + (register & 1)
    return t // 4 + 8 * (register >> 1 & 1), column


@dataclass(frozen=True)
class _Transfer:
    lanes: np.ndarray
    columns: np.ndarray
    address: Read
    slots: tuple[int, ...]
    halves: bool
    line: int

    def cells(self, cta: Cta, warp: int) -> tuple[np.ndarray, np.ndarray]:
        """Lanes and columns that a warp accesses, checked."""
        address = int(spread(self.address(cta), cta)[warp * WARP])
        lane, column = address >> 16, address & 0xFFFF
        lanes, columns = lane + self.lanes, column + self.columns
        own = warp % 4 * WARP
        if lanes.min() < own or lanes.max() >= own + WARP:
            message = f"warp {warp} reaches lanes {own} to {own + WARP - 1}, found {lane}"
            cta.fault(self.line, message, warp * WARP)
        tmem_of(cta).check_owned(cta, columns, self.line)
        return lanes, columns


def _transfer(d: Decoder, address_at: int) -> _Transfer:
    _sync_aligned(d)
    shape = d.choice("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2")
    times = d.starting("x")
    halves = d.flag("pack::16b", "unpack::16b")
    if shape is None or times is None or not d.flag("b32"):
        d.error("expected a shape, a repetition and .b32")
    split = 0
    if shape == "16x32bx2":
        operand = d.operands.pop(address_at + 1)
        if not isinstance(operand, Immediate):
            d.error("the offset of the second half is no constant")
        split = int(operand.value)
    lanes, columns = np.broadcast_arrays(*shape_cells(shape, int(times), split))
    if halves:
        columns = 2 * columns
    registers = d.items(1 - address_at)
    if len(registers) != lanes.shape[1]:
        d.error(f"{len(registers)} registers, expected {lanes.shape[1]}")
    for register in registers:
        if not isinstance(register, Reg) or register.type.bits != 32:
            d.error("expected registers of 32 bits")
    slots = tuple(register.slot for register in registers)
    return _Transfer(lanes, columns, d.address(address_at), slots, halves, d.line)


@rule("tcgen05.ld")
def load(d: Decoder) -> Execute:
    """`tcgen05.ld`: the registers are unfinished until `tcgen05.wait::ld`."""
    transfer = _transfer(d, 1)

    def run(cta: Cta, on: Active) -> None:
        memory = tmem_of(cta)
        for warp in on.warps:
            lanes, columns = transfer.cells(cta, int(warp))
            values = memory.cells[lanes, columns]
            if transfer.halves:
                high = memory.cells[lanes, columns + 1]
                values = (values & np.uint32(0xFFFF)) | high << np.uint32(16)
            part = slice(warp * WARP, (warp + 1) * WARP)
            for i, slot in enumerate(transfer.slots):
                cta.regs[slot][part] = values[:, i]
        for slot in transfer.slots:
            known = memory.loads.get(slot)
            memory.loads[slot] = on.mask.copy() if known is None else known | on.mask
            cta.unfinished[slot] = memory.loads[slot]

    return run


@rule("tcgen05.st")
def store(d: Decoder) -> Execute:
    """`tcgen05.st`: made at `tcgen05.wait::st`."""
    transfer = _transfer(d, 0)

    def run(cta: Cta, on: Active) -> None:
        memory = tmem_of(cta)
        for warp in on.warps:
            lanes, columns = transfer.cells(cta, int(warp))
            part = slice(warp * WARP, (warp + 1) * WARP)
            values = np.stack([cta.regs[slot][part] for slot in transfer.slots], axis=1)
            if transfer.halves:
                lanes, columns = np.tile(lanes, 2), np.concatenate((columns, columns + 1), axis=1)
                values = np.concatenate((values & 0xFFFF, values >> 16), axis=1)
            memory.stores.append(LateStore(np.array(warp), lanes, columns, values))

    return run


@rule("tcgen05.wait::ld", "tcgen05.wait::st")
def wait(d: Decoder) -> Execute:
    """Ends the warp's loads, or makes its stores."""
    _sync_aligned(d)
    is_load = d.text.startswith("tcgen05.wait::ld")

    def run(cta: Cta, on: Active) -> None:
        memory = tmem_of(cta)
        if is_load:
            for slot, mask in list(memory.loads.items()):
                mask &= ~on.mask
                if not mask.any():
                    del memory.loads[slot]
                    cta.unfinished.pop(slot, None)
            return
        warps = [int(warp) for warp in on.warps]
        rest = []
        for late in memory.stores:
            if int(late.warps) in warps:
                memory.cells[late.lanes, late.columns] = late.values
            else:
                rest.append(late)
        memory.stores = rest

    return run


@rule("tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync")
def fence(d: Decoder) -> Execute:
    """Orders tensor memory accesses around a barrier; here they are in order."""
    return lambda cta, on: None


# cp -------------------------------------------------------------------------------------------

_COPIES: dict[str, tuple[int, int]] = {
    "128x256b": (128, 32),
    "4x256b": (4, 32),
    "128x128b": (128, 16),
    "64x128b": (64, 16),
    "32x128b": (32, 16),
}
_PARTITIONS: dict[str | None, tuple[tuple[int, ...], ...]] = {
    "warpx4": ((0, 1, 2, 3),),
    "warpx2::02_13": ((0, 2), (1, 3)),
    "warpx2::01_23": ((0, 1), (2, 3)),
}


@rule("tcgen05.cp")
def copy(d: Decoder) -> Execute:
    """`tcgen05.cp.shape{.multicast} [tmem], descriptor`: rows of shared memory to lanes."""
    group = _group(d)
    shape = d.choice(*_COPIES)
    multicast = d.choice("warpx4", "warpx2::02_13", "warpx2::01_23")
    if shape is None or (multicast is None) != (shape[:3] in ("128", "4x2")):
        d.error("expected a shape with its multicast")
    address = d.address(0)
    read, line, text = d.src(1, B64), d.line, d.text
    rows, size = _COPIES[shape]

    def run(cta: Cta, on: Active) -> None:
        for thread in on.index:
            target = int(spread(address(cta), cta)[thread])
            word = int(spread(read(cta), cta)[thread])
            starts = None if cta.shadow is None else cta.shadow.issue(int(thread))

            def finish(target: int = target, word: int = word, starts: Any = starts) -> None:
                for owner in pair_of(cta, group):
                    at = _copy_rows(owner, target, word, (rows, size), multicast, line)
                    if owner.shadow is not None:
                        owner.shadow.async_read(owner, starts, at, line)

            cta.cluster.later(finish, line, text)

    return run


def _copy_rows(
    cta: Cta, target: int, word: int, shape: tuple[int, int], multicast: str | None, line: int
) -> np.ndarray:
    """Copies the rows; gives the addresses that were read."""
    rows, size = shape
    try:
        descriptor = tcgen05_descriptor(word)
        at = descriptor.place(byte_offsets(descriptor, rows, size, 1, False))
        data = np.ascontiguousarray(cta.shared.data[at]).view(np.uint32)
    except (ValueError, IndexError) as error:
        cta.fault(line, str(error))
    lane, column = target >> 16, target & 0xFFFF
    columns = column + np.arange(size // 4)
    memory = tmem_of(cta)
    memory.check_owned(cta, columns, line)
    if multicast is None:
        lanes = np.arange(rows) * (32 if rows == 4 else 1) + lane
        memory.cells[lanes[:, None], columns] = data
        return at
    for number, partitions in enumerate(_PARTITIONS[multicast]):
        part = data[32 * number : 32 * number + 32]
        for partition in partitions:
            lanes = 32 * partition + np.arange(32)
            memory.cells[lanes[:, None], columns] = part
    return at


def pair_of(cta: Cta, group: int) -> list[Cta]:
    """The CTAs of a cta_group: the CTA, or both of its pair, the even one first."""
    if group == 1:
        return [cta]
    first = cta.rank & ~1
    return cta.cluster.ctas[first : first + 2]


def tmem_address(d: Decoder, operand: Any) -> Read:
    """The address of `[tmem+offset]`."""
    if not isinstance(operand, Address):
        d.error("expected an address in tensor memory")
    return d.address(operand)


WORD = B32

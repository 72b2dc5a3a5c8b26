"""Tensor memory: whose it is, loads, stores, copies from shared memory (PTX ISA, "Tensor Memory",
"tcgen05.ld", "tcgen05.st", "tcgen05.cp", "tcgen05.shift").

An address has the lane in bits 16 and up and the column below. A warp reaches the 32 lanes of its
number modulo 4. Loads may be used, and stores are made, when the warp waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tileiras.interpreter.ptx.decoding import Decoder, Execute, Read, spread
from tileiras.interpreter.ptx.descriptors import byte_offsets, tcgen05_descriptor
from tileiras.interpreter.ptx.errors import PtxRuntimeError
from tileiras.interpreter.ptx.program import Reg
from tileiras.interpreter.ptx.rules import rule
from tileiras.interpreter.ptx.state import WARP, Active, Cta
from tileiras.interpreter.ptx.syntax import Address, Immediate
from tileiras.interpreter.ptx.types import B32, B64

LANES, COLUMNS = 128, 512
SMALLEST = 32
"""Columns that can be allocated at least."""
POISON = np.uint32(0x7FFFDEAD)
"""What columns hold when they are allocated: no number."""


@dataclass
class LateStore:
    """A `tcgen05.st` that has not been waited for."""

    warps: np.ndarray
    lanes: np.ndarray
    columns: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class Allocation:
    """Columns of a CTA, and the line that allocated them."""

    cta: Cta
    line: int


@dataclass
class SmTensorMemory:
    """The tensor memory of an SM, and which CTA may allocate now: who does not relinquish that
    keeps the others waiting.
    """

    cells: np.ndarray = field(default_factory=lambda: np.full((LANES, COLUMNS), POISON))
    owners: list[Allocation | None] = field(default_factory=lambda: [None] * (COLUMNS // SMALLEST))
    permit: Cta | None = None

    def free(self, units: int) -> list[int]:
        """Where so many units of columns are free."""
        places = range(0, len(self.owners), units)
        return [at for at in places if not any(self.owners[at : at + units])]

    def take(self, at: int, units: int, allocation: Allocation) -> None:
        """Gives units of columns to a CTA; what is in them nobody may rely on."""
        self.owners[at : at + units] = [allocation] * units
        self.cells[:, at * SMALLEST : (at + units) * SMALLEST] = POISON
        self.permit = allocation.cta


@dataclass
class TensorMemory:
    """A CTA's part in the tensor memory of its SM."""

    sm: SmTensorMemory
    can_allocate: bool = True
    stores: list[LateStore] = field(default_factory=list)
    loads: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def cells(self) -> np.ndarray:
        """All cells of the SM, by lane and column."""
        return self.sm.cells

    def check_freed(self, cta: Cta) -> None:
        """PtxRuntimeError if a CTA ended with columns still allocated."""
        if self.sm.permit is cta:
            self.sm.permit = None
        lines = [own.line for own in self.sm.owners if own is not None and own.cta is cta]
        if lines:
            message = "tensor memory is not deallocated when the CTA ends"
            raise PtxRuntimeError(f"{message} (CTA {cta.ctaid})", lines[0])

    def check_owned(self, cta: Cta, columns: np.ndarray, line: int) -> None:
        """Faults where columns are used that the CTA has not allocated."""
        last = int(columns.max())
        if columns.min() < 0 or last >= COLUMNS:
            cta.fault(line, f"column {last} of tensor memory is not allocated")
        for unit in np.flatnonzero(np.bincount((columns // SMALLEST).ravel())):
            own = self.sm.owners[unit]
            if own is None:
                cta.fault(line, f"column {last} of tensor memory is not allocated")
            if own.cta is not cta:
                cta.fault(line, f"column {last} of tensor memory is of another CTA")


def tmem_of(cta: Cta) -> TensorMemory:
    """The CTA's tensor memory."""
    if cta.tmem is None:
        memories = cta.grid.tensor_memories
        cta.tmem = TensorMemory(memories.setdefault(cta.sm, SmTensorMemory()))
    return cta.tmem


def sync_aligned(d: Decoder) -> None:
    """Takes `.sync.aligned`: the threads of a warp perform the instruction together."""
    if not (d.flag("sync") and d.flag("aligned")):
        d.error("expected .sync.aligned")
    d.meet()


def cta_group(d: Decoder) -> int:
    """The number of CTAs of `.cta_group`."""
    group = d.choice("cta_group::1", "cta_group::2")
    if group is None:
        d.error("expected .cta_group")
    return int(group[-1])


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
    sync_aligned(d)
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
    sync_aligned(d)
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
    group = cta_group(d)
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


# shift ----------------------------------------------------------------------------------------

SHIFTED_ROWS, SHIFTED_COLUMNS = 31, 8
"""The data movement shape `.31x256b` of a warp's 32 lanes ("Data Movement Shape")."""


@rule("tcgen05.shift")
def shift_rows(d: Decoder) -> Execute:
    """`tcgen05.shift.down [tmem]`: rows of 32 bytes of a warp's lanes go to the next lane each, but
    the last one; the first one stays as it is.
    """
    group = cta_group(d)
    if not d.flag("down"):
        d.error("expected .down")
    address, line, text = d.address(0), d.line, d.text

    def run(cta: Cta, on: Active) -> None:
        for thread in on.index:
            target = int(spread(address(cta), cta)[thread])

            def finish(target: int = target) -> None:
                for owner in pair_of(cta, group):
                    _shift(owner, target >> 16, target & 0xFFFF, line)

            cta.cluster.later(finish, line, text)

    return run


def _shift(cta: Cta, lane: int, column: int, line: int) -> None:
    """Moves the rows of a warp."""
    if lane % WARP or lane >= LANES:
        cta.fault(line, f"lane {lane} of tensor memory is not the first of a warp")
    columns, memory = column + np.arange(SHIFTED_COLUMNS), tmem_of(cta)
    memory.check_owned(cta, columns, line)
    lanes = lane + np.arange(SHIFTED_ROWS)[:, None]
    memory.cells[lanes + 1, columns] = memory.cells[lanes, columns]


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

"""Finds threads of a tile block that access one byte, one of them writing, without a barrier.

Each byte remembers which threads read and which wrote it since the last barrier, as the lowest and
the highest thread number. Atomics and accesses with a memory ordering do not race among themselves,
but with weak accesses they do. Accesses of a single operation do not race with each other: what
colliding elements of one tile leave behind is the program's own affair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation

from tileiras.dialects.cuda_tile.debug_info import source_location
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.formats import Array
from tileiras.interpreter.memory import FIRST_ADDRESS

_NOBODY = np.iinfo(np.int32).max


class _Side:
    """Who read, or who wrote, each byte in the current phase."""

    def __init__(self) -> None:
        self.phase = np.zeros(0, dtype=np.int32)
        self.lowest = np.zeros(0, dtype=np.int32)
        self.highest = np.zeros(0, dtype=np.int32)
        self.operation = np.zeros(0, dtype=np.int32)

    def grow(self, size: int) -> None:
        """Makes room for `size` bytes of memory."""
        if size <= self.phase.size:
            return
        size = 1 << (size - 1).bit_length()
        for name in ("phase", "lowest", "highest", "operation"):
            grown = np.zeros(size, dtype=np.int32)
            old = getattr(self, name)
            grown[: old.size] = old
            setattr(self, name, grown)

    def conflict(self, places: Array, threads: Array, phase: int) -> Array:
        """Where another thread was here in this phase."""
        is_now = self.phase[places] == phase
        is_other = (self.lowest[places] != threads) | (self.highest[places] != threads)
        return is_now & is_other

    def record(self, places: Array, threads: Array, phase: int, operation: int) -> None:
        """Notes who was here."""
        old = places[self.phase[places] != phase]
        self.lowest[old] = _NOBODY
        self.highest[old] = -1
        self.phase[places] = phase
        self.operation[places] = operation
        np.minimum.at(self.lowest, places, threads)
        np.maximum.at(self.highest, places, threads)


@dataclass(frozen=True)
class Kind:
    """What an access does; a strong one is atomic or has a memory ordering."""

    is_write: bool
    is_strong: bool = False

    def races_with(self, other: Kind) -> bool:
        """Whether two threads may not do both to one byte."""
        return (self.is_write or other.is_write) and not (self.is_strong and other.is_strong)


_KINDS = tuple(
    Kind(is_write, is_strong) for is_write in (True, False) for is_strong in (True, False)
)


class RaceDetector:
    """The accesses of one tile block after another to global memory."""

    def __init__(self) -> None:
        self._phase = 1
        self._first_phase = 1
        self._sides = {kind: _Side() for kind in _KINDS}
        self._operations: list[Operation] = []
        self._numbers: dict[Operation, int] = {}

    def barrier(self) -> None:
        """All threads have met: what came before races with nothing that follows."""
        self._phase += 1

    def end_block(self) -> None:
        """A tile block is done: whatever follows is another one's."""
        self.barrier()
        self._first_phase = self._phase

    def background(self, op: Operation, addresses: Array, size: int) -> None:
        """Records writes by somebody whom the threads of this tile block meet at no barrier.

        Raises InterpreterError if a thread has accessed one of the places since the block began.
        """
        if addresses.size == 0:
            return
        starts = np.asarray(addresses, dtype=np.int64).reshape(-1) - FIRST_ADDRESS
        places = (starts[:, None] + np.arange(size)).reshape(-1)
        for kind, side in self._sides.items():
            side.grow(int(places.max()) + 1)
            bad = side.phase[places] >= self._first_phase
            if np.any(bad):
                raise self._race(op, kind, int(places[int(np.argmax(bad))]), -1)

    def access(
        self, op: Operation, addresses: Array, size: int, threads: Array, kind: Kind
    ) -> None:
        """Records that `threads` access `size` bytes at `addresses` (arrays of one shape).

        Raises InterpreterError, naming both operations, if that races with an earlier access.
        """
        if addresses.size == 0:
            return
        starts = np.asarray(addresses, dtype=np.int64).reshape(-1) - FIRST_ADDRESS
        places = (starts[:, None] + np.arange(size)).reshape(-1)
        numbers = np.repeat(np.asarray(threads, dtype=np.int32).reshape(-1), size)
        for other, side in self._sides.items():
            side.grow(int(places.max()) + 1)
            if not kind.races_with(other):
                continue
            bad = side.conflict(places, numbers, self._phase)
            if np.any(bad):
                first = int(np.argmax(bad))
                raise self._race(op, other, int(places[first]), int(numbers[first]))
        number = self._numbers.setdefault(op, len(self._operations))
        if number == len(self._operations):
            self._operations.append(op)
        self._sides[kind].record(places, numbers, self._phase, number)

    def _race(self, op: Operation, kind: Kind, place: int, thread: int) -> InterpreterError:
        side = self._sides[kind]
        lowest, highest = int(side.lowest[place]), int(side.highest[place])
        other = lowest if lowest != thread else highest
        earlier = self._operations[int(side.operation[place])]
        verb = "writes" if kind.is_write else "reads"
        location = source_location(earlier.location)
        where = f" at {location}" if location is not None else ""
        return InterpreterError(
            f"race at address {place + FIRST_ADDRESS:#x}: thread {thread} is here while thread "
            f"{other} {verb} it in '{earlier.name}'{where}, and no barrier is between",
            op,
        )

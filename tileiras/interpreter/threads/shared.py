"""Shared memory of a CTA, which notices races, and reads of what nobody wrote.

The asynchronous proxy (TMA, wgmma) has its own ways in and out: what ordinary stores wrote is
hidden from it until their writer has fenced, and bytes that a bulk copy still reads may not be
written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.threads.clocks import NEVER, Clock

FIRST_ADDRESS = 1 << 20
LAST_ADDRESS = 1 << 24
ALIGNMENT = 1024
NOBODY, SEVERAL = -1, -2


def lay_out(sizes: Mapping[str, int]) -> dict[str, range]:
    """Where variables of these sizes in bytes lie: their addresses, the same in every CTA."""
    places: dict[str, range] = {}
    start = FIRST_ADDRESS
    for name, size in sizes.items():
        places[name] = range(start, start + size)
        start = -(-(start + size) // ALIGNMENT) * ALIGNMENT
    return places


def is_shared(addresses: np.ndarray) -> bool:
    """Whether all of these are addresses of shared memory."""
    return bool(np.all((addresses >= FIRST_ADDRESS) & (addresses < LAST_ADDRESS)))


class SharedMemory:
    """Bytes, and for each who last wrote and read it and when.

    Of several programs that read a byte the last one is remembered.
    """

    def __init__(self, variables: Mapping[str, range]):
        self.variables = variables
        size = max((place.stop for place in variables.values()), default=FIRST_ADDRESS)
        size -= FIRST_ADDRESS
        self.data = np.zeros(size, np.uint8)
        self.written = np.zeros(size, np.bool_)
        self.hidden = np.zeros(size, np.bool_)
        self._read_by_copies = np.zeros(size, np.int32)
        self._writer = np.full(size, NOBODY, np.int32)
        self._write_time = np.full(size, NEVER, np.int64)
        self._write_program = np.zeros(size, np.int32)
        self._reader = np.full(size, NOBODY, np.int32)
        self._read_time = np.full(size, NEVER, np.int64)
        self._read_program = np.zeros(size, np.int32)
        self._scratch = np.zeros(size, np.int64)

    def offsets(self, addresses: np.ndarray, size: int) -> np.ndarray:
        """Where the `size` bytes at each address lie in `data`."""
        places = addresses.astype(np.int64)[:, None] - FIRST_ADDRESS + np.arange(size)
        self.check_inside(places)
        return places

    def check_inside(self, places: np.ndarray) -> None:
        """Raises unless all places are in the CTA's memory."""
        if places.size and (places.min() < 0 or places.max() >= len(self.data)):
            wrong = places[(places < 0) | (places >= len(self.data))]
            address = int(wrong.flat[0]) + FIRST_ADDRESS
            raise InterpreterError(f"access outside of the CTA's shared memory, at {address:#x}")

    def load(
        self, clock: Clock, threads: np.ndarray, addresses: np.ndarray, size: int
    ) -> np.ndarray:
        """`size` bytes at each address, for each thread of a program."""
        places = self.offsets(addresses, size)
        self._check_written(places)
        is_foreign = self._writer[places] != threads[:, None]
        if is_foreign.any():
            unknown = clock.is_unknown(self._write_time[places], self._write_program[places])
            self._refuse(
                is_foreign & unknown, places, "read of what another thread wrote since the last"
            )
        self._note_reads(clock, threads, places)
        return self.data[places]

    def _note_reads(self, clock: Clock, threads: np.ndarray, places: np.ndarray) -> None:
        owners = np.broadcast_to(threads[:, None], places.shape).ravel()
        flat = places.ravel()
        before = self._reader[flat]
        is_recent = clock.is_unknown(self._read_time[flat], self._read_program[flat])
        self._reader[flat] = owners
        several = (self._reader[flat] != owners) | (is_recent & (before != owners))
        self._reader[flat[several]] = SEVERAL
        self._read_time[flat] = clock.now
        self._read_program[flat] = clock.number

    def store(
        self, clock: Clock, threads: np.ndarray, addresses: np.ndarray, data: np.ndarray
    ) -> np.ndarray:
        """Writes a row of bytes for each thread; returns the places, which are hidden now."""
        places = self.offsets(addresses, data.shape[1])
        owners = np.broadcast_to(threads[:, None], places.shape)
        self._refuse(self._read_by_copies[places] > 0, places, "written while a bulk copy reads it")
        was_read = clock.is_unknown(self._read_time[places], self._read_program[places])
        was_read &= self._reader[places] != owners
        self._refuse(was_read, places, "write to what another thread read since the last")
        was_written = clock.is_unknown(self._write_time[places], self._write_program[places])
        was_written &= self._writer[places] != owners
        self._refuse(was_written, places, "two threads wrote one byte since the last")
        numbers = np.arange(places.size).reshape(places.shape)
        self._scratch[places] = numbers
        self._refuse(self._scratch[places] != numbers, places, "two threads write one byte at once")
        self.data[places] = data
        self.written[places] = True
        self.hidden[places] = True
        self._writer[places] = owners
        self._write_time[places] = clock.now
        self._write_program[places] = clock.number
        return places

    def forget(self, places: np.ndarray) -> None:
        """From here on nothing may be read there until it has been written again."""
        self.check_inside(places)
        self.written[places] = False

    def place(self, places: np.ndarray, data: np.ndarray) -> None:
        """Bytes that arrive asynchronously; who waits for them knows them."""
        self.data[places] = data
        self.written[places] = True
        self.hidden[places] = False
        self._writer[places] = NOBODY
        self._write_time[places] = NEVER

    def show_to_async_proxy(self, places: Sequence[np.ndarray]) -> None:
        """What was stored there is known to TMA and wgmma."""
        for part in places:
            self.hidden[part] = False

    def start_copy(self, places: np.ndarray) -> None:
        """A bulk copy is going to read here."""
        self.check_inside(places)
        if not self.written[places].all() or self.hidden[places].any():
            raise InterpreterError("the bulk copy starts from bytes that it does not see")
        self._read_by_copies[places] += 1

    def end_copy(self, places: np.ndarray) -> np.ndarray:
        """What a bulk copy reads, after which the bytes may be written again."""
        self._read_by_copies[places] -= 1
        return self.data[places]

    def operand(self, places: np.ndarray) -> np.ndarray:
        """What a product reads through the asynchronous proxy."""
        self.check_inside(places)
        self._check_written(places)
        return self.data[places]

    def _check_written(self, places: np.ndarray) -> None:
        is_written = self.written[places]
        if not is_written.all():
            place = self._name(int(places[~is_written].flat[0]))
            raise InterpreterError(f"read of shared memory that nobody has written, {place}")

    def _refuse(self, wrong: np.ndarray, places: np.ndarray, what: str) -> None:
        """Raises for the first place where something is wrong."""
        if not wrong.any():
            return
        tail = " barrier" if what.endswith("the last") else ""
        raise InterpreterError(f"race: {what}{tail}, {self._name(int(places[wrong].flat[0]))}")

    def _name(self, place: int) -> str:
        """A place for a message."""
        address = place + FIRST_ADDRESS
        for name, span in self.variables.items():
            if address in span:
                return f"byte {address - span.start} of '{name}'"
        return f"address {address:#x}"

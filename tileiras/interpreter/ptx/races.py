"""Finds races on shared memory, unfinished copies that are read, and missing proxy fences.

Every warp has a vector clock, and every CTA one more agent for its asynchronous work (Flanagan and
Freund, "FastTrack", 2009). For each byte of shared memory the last write and the last read of
every agent are kept. Barriers, mbarriers and strong accesses carry clocks from warp to warp. A
second clock holds what a `fence.proxy.async` has made visible to the asynchronous proxy (PTX ISA,
"Async proxy"). Threads of one warp are taken as one agent. Strong accesses always order, so a
missing acquire or release is not found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tileiras.interpreter.ptx.state import WARP, Active, Cta

Clock = np.ndarray
"""Two rows of one number per agent: what is known, and what is visible to the async proxy."""


@dataclass
class Start:
    """Asynchronous work that was issued: what it may rely on, and its own agent and number."""

    clock: Clock
    agent: int
    epoch: int


class Clocks:
    """The clocks of a cluster."""

    def __init__(self, ctas: int, warps: int):
        self.per_cta = warps + 1
        agents = ctas * self.per_cta
        self.now = np.zeros((agents, 2, agents), np.int32)
        self.now[np.arange(agents), 0, np.arange(agents)] = 1
        self.at_address: dict[int, Clock] = {}


def _as_clock(value: Any) -> Clock:
    return value.clock if isinstance(value, Start) else value


class Shadow:
    """What is known about each byte of one CTA's shared memory."""

    def __init__(self, cta: Cta):
        cluster = cta.cluster
        first = cluster.ctas[0]
        if first.shadow is None:
            clocks = Clocks(len(cluster.ctas), cta.threads // WARP)
        else:
            clocks = first.shadow.clocks
        self.clocks: Clocks = clocks
        self.first = cta.rank * clocks.per_cta
        size, agents = cta.shared.size, len(clocks.now)
        self.writer = np.zeros(size, np.int16)
        self.written = np.zeros(size, np.int32)
        self.write_line = np.zeros(size, np.int32)
        self.read_at = np.zeros((size, agents), np.int32)
        self.read_line = np.zeros(size, np.int32)
        self.busy = np.zeros(size, np.int32)
        self.is_busy = False

    # Clocks -----------------------------------------------------------------------------------

    def _agents(self, mask: np.ndarray) -> np.ndarray:
        return self.first + np.flatnonzero(mask.reshape(-1, WARP).any(axis=1))

    def joined(self, one: Any, other: Any) -> Clock:
        """The later of two clocks, agent by agent."""
        other = _as_clock(other)
        return other.copy() if one is None else np.maximum(_as_clock(one), other)

    def release_into(self, mask: np.ndarray, clock: Any) -> Clock:
        """What the warps of some threads know, joined to a clock; they go on in a new epoch."""
        agents = self._agents(mask)
        result = self.joined(clock, self.clocks.now[agents].max(axis=0))
        self.clocks.now[agents, 0, agents] += 1
        return result

    def acquire_from(self, mask: np.ndarray, clock: Any) -> None:
        """The warps of some threads learn a clock."""
        if clock is not None:
            agents = self._agents(mask)
            now = self.clocks.now
            now[agents] = np.maximum(now[agents], _as_clock(clock))

    def snapshot(self, thread: int) -> Clock:
        """What a thread's warp knows; it goes on in a new epoch."""
        agent = self.first + thread // WARP
        result = self.clocks.now[agent].copy()
        self.clocks.now[agent, 0, agent] += 1
        return result

    def join(self, thread: int, clock: Any) -> None:
        """A thread's warp learns a clock."""
        agent = self.first + thread // WARP
        now = self.clocks.now
        now[agent] = np.maximum(now[agent], _as_clock(clock))

    def release(self, on: Active, addresses: np.ndarray) -> None:
        """Strong stores and atomics leave what their warps know at the address."""
        for warp in on.warps:
            mine = addresses[on.index // WARP == warp]
            clock = self.snapshot(int(warp) * WARP)
            for address in np.unique(mine):
                key = int(address)
                known = self.clocks.at_address.get(key)
                self.clocks.at_address[key] = self.joined(known, clock)

    def acquire(self, on: Active, addresses: np.ndarray) -> None:
        """Strong loads and atomics learn what was left at the address."""
        for warp in on.warps:
            for address in np.unique(addresses[on.index // WARP == warp]):
                clock = self.clocks.at_address.get(int(address))
                if clock is not None:
                    self.join(int(warp) * WARP, clock)

    def fence_proxy(self, on: Active) -> None:
        """`fence.proxy.async`: what the warps know becomes visible to asynchronous work."""
        agents = self._agents(on.mask)
        self.clocks.now[agents, 1] = self.clocks.now[agents, 0]

    def issue(self, thread: int) -> Start:
        """Asynchronous work that a thread issues now."""
        clock = self.snapshot(thread)
        agent = self.first + self.clocks.per_cta - 1
        self.clocks.now[agent, 0, agent] += 1
        epoch = int(self.clocks.now[agent, 0, agent])
        clock[:, agent] = epoch
        return Start(clock, agent, epoch)

    def learn_end(self, warps: np.ndarray, epoch: int) -> None:
        """Warps learn that the CTA's asynchronous work up to an epoch has ended."""
        agent = self.first + self.clocks.per_cta - 1
        known = self.clocks.now[self.first + warps, :, agent]
        self.clocks.now[self.first + warps, :, agent] = np.maximum(known, epoch)

    # Accesses of threads ----------------------------------------------------------------------

    def _places(
        self, cta: Cta, threads: np.ndarray, at: np.ndarray, size: int, line: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Bytes (accesses, size) and the agent of every access."""
        places = at[:, None] + np.arange(size)
        if self.is_busy:
            busy = self.busy[places]
            if busy.any():
                row = int(np.flatnonzero(busy.any(axis=1))[0])
                message = (
                    f"shared address {int(at[row]):#x} is being copied to by line "
                    f"{int(busy[row].max())}, which nobody has waited for"
                )
                cta.fault(line, message, int(threads[row]))
        assert cta.shadow is not None
        return places, cta.shadow.first + threads // WARP

    def _check_write(
        self,
        cta: Cta,
        threads: np.ndarray,
        places: np.ndarray,
        agents: np.ndarray,
        line: int,
        what: str,
    ) -> None:
        known = self.clocks.now[agents[:, None], 0, self.writer[places]]
        late = self.written[places] > known
        if late.any():
            row, column = (int(i[0]) for i in np.nonzero(late))
            place = int(places[row, column])
            message = (
                f"race: {what} of shared address {place:#x}, which line "
                f"{int(self.write_line[place])} writes, and nothing orders them"
            )
            cta.fault(line, message, int(threads[row]))

    def read(self, cta: Cta, threads: np.ndarray, at: np.ndarray, size: int, line: int) -> None:
        """Loads of threads: everything that was written there must be known."""
        places, agents = self._places(cta, threads, at, size, line)
        self._check_write(cta, threads, places, agents, line, "a read")
        own = self.clocks.now[agents, 0, agents]
        self.read_at[places, agents[:, None]] = own[:, None]
        self.read_line[places] = line

    def write(self, cta: Cta, threads: np.ndarray, at: np.ndarray, size: int, line: int) -> None:
        """Stores of threads: what was written and read there must be known."""
        places, agents = self._places(cta, threads, at, size, line)
        self._check_overwrite(cta, threads, places, agents, line)
        self._note_write(places, agents, line)

    def _note_write(self, places: np.ndarray, agents: np.ndarray, line: int) -> None:
        self.writer[places] = agents[:, None]
        self.written[places] = self.clocks.now[agents, 0, agents][:, None]
        self.write_line[places] = line

    def _check_overwrite(
        self, cta: Cta, threads: np.ndarray, places: np.ndarray, agents: np.ndarray, line: int
    ) -> None:
        self._check_write(cta, threads, places, agents, line, "a write")
        late = self.read_at[places] > self.clocks.now[agents, 0][:, None, :]
        if late.any():
            row, column, _ = (int(i[0]) for i in np.nonzero(late))
            place = int(places[row, column])
            message = (
                f"race: a write of shared address {place:#x}, which line "
                f"{int(self.read_line[place])} reads, and nothing orders them"
            )
            cta.fault(line, message, int(threads[row]))

    def atomic(self, cta: Cta, threads: np.ndarray, at: np.ndarray, size: int, line: int) -> None:
        """Atomics may meet; only unfinished copies are looked for."""
        self._places(cta, threads, at, size, line)

    def start_copy(
        self, cta: Cta, threads: np.ndarray, at: np.ndarray, size: int, line: int
    ) -> None:
        """`cp.async` begins: the bytes are busy until its thread waits."""
        places, agents = self._places(cta, threads, at, size, line)
        self._check_overwrite(cta, threads, places, agents, line)
        self.busy[places] = line
        self.is_busy = True

    def finish_copy(self, threads: np.ndarray, at: np.ndarray, size: int, line: int) -> None:
        """`cp.async` is done: now it is a write of its thread."""
        places = at[:, None] + np.arange(size)
        self.busy[places] = 0
        self._note_write(places, self.first + threads // WARP, line)
        self.is_busy = bool(self.busy.any())

    # Asynchronous work ------------------------------------------------------------------------

    def start_async(self, cta: Cta, start: Start, offset: int, size: int, line: int) -> None:
        """A bulk or tensor copy into shared memory begins."""
        places = slice(offset, offset + size)
        clock = start.clock[0]
        if self.busy[places].any():
            other = int(self.busy[places].max())
            cta.fault(line, f"a copy to bytes that line {other} is still copying to")
        late = self.written[places] > clock[self.writer[places]]
        if late.any():
            place = offset + int(np.flatnonzero(late)[0])
            other = int(self.write_line[place])
            cta.fault(
                line,
                f"race: a copy to shared address {place:#x}, which line {other} "
                "writes, and nothing orders them",
            )
        late = (self.read_at[places] > start.clock[1]).any(axis=1)
        if late.any():
            place = offset + int(np.flatnonzero(late)[0])
            other = int(self.read_line[place])
            is_known = (self.read_at[place] <= clock).all()
            reason = "without a fence.proxy.async" if is_known else "and nothing orders them"
            cta.fault(
                line,
                f"race: a copy to shared address {place:#x}, which line {other} reads, {reason}",
            )
        self.busy[places] = line
        self.is_busy = True

    def finish_async(self, start: Start, offset: int, size: int, line: int) -> Clock:
        """The copy is done; its clock goes to the mbarrier that is told."""
        places = slice(offset, offset + size)
        self.busy[places] = 0
        self.writer[places], self.written[places] = start.agent, start.epoch
        self.write_line[places] = line
        self.is_busy = bool(self.busy.any())
        return start.clock

    def async_read(self, cta: Cta, start: Start, at: np.ndarray, line: int) -> None:
        """Asynchronous work reads bytes: writes must be known, and visible to its proxy."""
        at = at.reshape(-1)
        if self.is_busy and self.busy[at].any():
            other = int(self.busy[at].max())
            cta.fault(line, f"an operand is being copied to by line {other}")
        late = self.written[at] > start.clock[1][self.writer[at]]
        if late.any():
            row = int(np.flatnonzero(late)[0])
            place = int(at[row])
            other = int(self.write_line[place])
            is_known = self.written[place] <= start.clock[0][self.writer[place]]
            reason = "without a fence.proxy.async" if is_known else "and nothing orders them"
            cta.fault(
                line, f"race: reads shared address {place:#x}, which line {other} writes, {reason}"
            )
        self.read_at[at, start.agent] = start.epoch
        self.read_line[at] = line

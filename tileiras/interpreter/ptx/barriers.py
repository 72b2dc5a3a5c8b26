"""Barriers of a CTA and of a cluster, mbarriers, fences (PTX ISA, "Parallel Synchronization and
Communication Instructions").

An mbarrier lives in the machine, not in the eight bytes of shared memory. A phase is complete when
no arrivals and no transaction bytes are pending. `try_wait` suspends until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tileiras.interpreter.ptx.access import SCOPES, _write_threads, yields
from tileiras.interpreter.ptx.decoding import Decoder, Execute, Read, spread
from tileiras.interpreter.ptx.memory import OFFSET_MASK, RANK_SHIFT, SHARED_WINDOW
from tileiras.interpreter.ptx.program import Sink
from tileiras.interpreter.ptx.rules import rule
from tileiras.interpreter.ptx.state import WARP, Active, Cta, Waiter
from tileiras.interpreter.ptx.types import B32, B64, PRED, U32, bits_type

MAX_COUNT = (1 << 20) - 1
"""The largest count of arrivals (PTX ISA, "Contents of the mbarrier object")."""


# bar, barrier ---------------------------------------------------------------------------------


@dataclass
class NamedBarrier:
    """One of the sixteen barriers of a CTA: who has come, and what they bring."""

    arrived: int = 0
    waiting: np.ndarray | None = None
    wanted: int | None = None
    generation: int = 0
    flags: list[bool] = field(default_factory=list)
    last_flags: list[bool] = field(default_factory=list)
    clock: Any = None
    last_clock: Any = None


@rule("bar", "barrier")
def named_barrier(d: Decoder) -> Execute:
    """`bar.sync a{, b}`, `bar.arrive a, b`, `bar.red.op`; `barrier.cluster` for the cluster."""
    if d.opcode == "barrier" and d.flag("cluster"):
        return _cluster_barrier(d)
    d.flag("cta")
    what = d.choice("sync", "arrive", "red")
    is_aligned = d.flag("aligned") or d.opcode == "bar"
    if is_aligned:
        d.meet()
    if what == "red":
        return _reducing_barrier(d)
    d.count(1, 2)
    number = d.src(0, U32)
    count = d.src(1, U32) if len(d.operands) == 2 else None
    if what is None or (what == "arrive" and count is None):
        d.error("expected .sync or .arrive with a count, or .red")
    if what == "sync":
        d.is_control = True
    line = d.line

    def run(cta: Cta, on: Active) -> None:
        for barrier, threads, mask in _by_barrier(cta, on, number, count, line):
            arrive_at(cta, barrier, threads, mask)
            if what == "sync":
                wait_at(cta, barrier, mask, line)

    return run


def _by_barrier(
    cta: Cta, on: Active, number: Read, count: Read | None, line: int
) -> Iterator[tuple[NamedBarrier, int, np.ndarray]]:
    numbers = spread(number(cta), cta)
    for value in np.unique(numbers[on.index]):
        if value > 15:
            cta.fault(line, f"barrier {value}, expected 0 to 15", on.first)
        mask = on.mask & (numbers == value)
        barrier = cta.named_barriers.setdefault(int(value), NamedBarrier())
        first = int(np.flatnonzero(mask)[0])
        wanted = None if count is None else int(spread(count(cta), cta)[first])
        if wanted is not None and (wanted % WARP or not wanted):
            cta.fault(line, f"a barrier of {wanted} threads, expected a multiple of 32", first)
        if barrier.arrived and barrier.wanted != wanted:
            message = f"a barrier of {wanted} threads, others said {barrier.wanted}"
            cta.fault(line, message, first)
        barrier.wanted = wanted
        yield barrier, int(mask.sum()), mask


def arrive_at(cta: Cta, barrier: NamedBarrier, threads: int, mask: np.ndarray) -> None:
    """Counts threads; the last one opens the barrier. Warps count whole, dead lanes too."""
    warps = np.flatnonzero(mask.reshape(-1, WARP).any(axis=1))
    dead = ~cta.live().reshape(-1, WARP)
    threads += int(dead[warps].sum())
    barrier.arrived += threads
    if cta.shadow is not None:
        barrier.clock = cta.shadow.release_into(mask, barrier.clock)
    _open_if_full(cta, barrier)


def _open_if_full(cta: Cta, barrier: NamedBarrier) -> bool:
    wanted = barrier.wanted
    if wanted is None:
        live_warps = cta.live().reshape(-1, WARP).any(axis=1)
        wanted = int(live_warps.sum()) * WARP
    if not barrier.arrived or barrier.arrived < wanted:
        return False
    barrier.arrived = 0
    barrier.generation += 1
    barrier.last_flags, barrier.flags = barrier.flags, []
    barrier.last_clock, barrier.clock = barrier.clock, None
    return True


def wait_at(
    cta: Cta,
    barrier: NamedBarrier,
    mask: np.ndarray,
    line: int,
    then: Callable[[], None] | None = None,
) -> None:
    """Blocks threads until the barrier that they have arrived at opens."""
    born = barrier.generation - (barrier.arrived == 0)

    def resume() -> None:
        cta.pc[mask] += 1
        if cta.shadow is not None:
            cta.shadow.acquire_from(mask, barrier.last_clock)
        if then:
            then()

    def poll() -> bool:
        if barrier.generation == born:
            _open_if_full(cta, barrier)
        return barrier.generation != born

    cta.block(mask, Waiter(mask.copy(), poll, resume, line, "a barrier"))


def _reducing_barrier(d: Decoder) -> Execute:
    type_ = d.type()
    name = d.choice("popc", "and", "or")
    count = d.src(2, U32) if len(d.operands) == 4 else None
    number, read = d.src(1, U32), d.src(len(d.operands) - 1, PRED)
    write = d.dst(0, type_)
    line = d.line
    d.is_control = True

    def run(cta: Cta, on: Active) -> None:
        flags = spread(read(cta), cta)
        for barrier, threads, mask in _by_barrier(cta, on, number, count, line):
            barrier.flags.extend(bool(flag) for flag in flags[mask])
            arrive_at(cta, barrier, threads, mask)

            def finish(barrier: NamedBarrier = barrier, mask: np.ndarray = mask) -> None:
                votes = barrier.last_flags
                value = {"popc": sum(votes), "and": all(votes), "or": any(votes)}[name or "and"]
                write(cta, Active(mask), np.full(cta.threads, value, type_.seen))

            wait_at(cta, barrier, mask, line, finish)

    return run


@dataclass
class ClusterBarrier:
    """The barrier of a cluster: a generation opens when all threads that live have arrived."""

    arrived: int = 0
    generation: int = 0
    clock: Any = None
    last_clock: Any = None


def _cluster_barrier(d: Decoder) -> Execute:
    is_wait = d.choice("arrive", "wait") == "wait"
    d.choice("release", "acquire", "relaxed")
    if d.flag("aligned"):
        d.meet()
    line = d.line
    d.is_control = is_wait

    def barrier_of(cta: Cta) -> ClusterBarrier:
        if cta.cluster.barrier is None:
            cta.cluster.barrier = ClusterBarrier()
        return cta.cluster.barrier

    def live(cta: Cta) -> int:
        return sum(int(other.live().sum()) for other in cta.cluster.ctas)

    def open_if_full(cta: Cta, barrier: ClusterBarrier) -> None:
        if barrier.arrived and barrier.arrived >= live(cta):
            barrier.arrived = 0
            barrier.generation += 1
            barrier.last_clock, barrier.clock = barrier.clock, None

    def arrive(cta: Cta, on: Active) -> None:
        barrier = barrier_of(cta)
        born = cta.special.setdefault("cluster_phase", np.zeros(cta.threads, np.int64))
        born[on.mask] = barrier.generation + 1
        barrier.arrived += len(on.index)
        if cta.shadow is not None:
            barrier.clock = cta.shadow.release_into(on.mask, barrier.clock)
        open_if_full(cta, barrier)

    def wait(cta: Cta, on: Active) -> None:
        barrier = barrier_of(cta)
        phase = cta.special.get("cluster_phase", np.zeros(cta.threads, np.int64))
        if (phase[on.index] == 0).any():
            cta.fault(line, "barrier.cluster.wait without an arrive", on.first)
        wanted = int(phase[on.index].max())
        mask = on.mask.copy()

        def poll() -> bool:
            open_if_full(cta, barrier)
            return barrier.generation >= wanted

        def resume() -> None:
            cta.pc[mask] += 1
            if cta.shadow is not None:
                cta.shadow.acquire_from(mask, barrier.last_clock)

        cta.block(mask, Waiter(mask, poll, resume, line, "the cluster's barrier"))

    return wait if is_wait else arrive


# Fences ---------------------------------------------------------------------------------------


@rule("fence", "membar")
def fence(d: Decoder) -> Execute:
    """Orders memory accesses. Memory here is in order; what a proxy fence makes visible to
    asynchronous work is told to the race detector."""
    is_proxy = d.flag("proxy") or d.starting("proxy::") is not None
    is_async = is_proxy and any(part.startswith("async") for part in d.modifiers)
    if not is_proxy and d.opcode == "fence" and not d.modifiers:
        d.error("expected a scope or a proxy")
    known = (
        *SCOPES,
        "gl",
        "sc",
        "acq_rel",
        "acquire",
        "release",
        "alias",
        "mbarrier_init",
        "async",
        "async.global",
        "async::generic",
        "global",
        "shared::cta",
        "shared::cluster",
        "tensormap",
        "tensormap::generic",
        "sync_restrict::shared::cta",
        "sync_restrict::shared::cluster",
        "level",
    )
    while d.modifiers and d.modifiers[0] in known:
        d.modifiers.pop(0)

    def run(cta: Cta, on: Active) -> None:
        if is_async and cta.shadow is not None:
            cta.shadow.fence_proxy(on)

    return run


# mbarrier -------------------------------------------------------------------------------------


@dataclass
class Mbarrier:
    """One mbarrier; `phase` counts completed phases."""

    count: int
    pending: int
    bytes: int = 0
    phase: int = 0
    clock: Any = None
    last_clock: Any = None

    def settle(self) -> None:
        """Ends the phase if nothing is pending."""
        if self.pending == 0 and self.bytes == 0:
            self.phase += 1
            self.pending = self.count
            self.last_clock, self.clock = self.clock, None


def find_mbarrier(cta: Cta, address: int, line: int, thread: int | None = None) -> Mbarrier:
    """The mbarrier at a shared or generic address, also of another CTA of the cluster."""
    owner, offset = owner_of(cta, address, line)
    found = owner.mbarriers.get(offset)
    if found is None:
        cta.fault(line, f"no mbarrier was initialised at shared address {offset:#x}", thread)
    return found


def owner_of(cta: Cta, address: int, line: int) -> tuple[Cta, int]:
    """The CTA and the offset of a shared or generic address."""
    if address >= 1 << 32 and not SHARED_WINDOW <= address < SHARED_WINDOW + (1 << 32):
        cta.fault(line, f"address {address:#x} is not in shared memory")
    rank = address >> RANK_SHIFT & 255
    if rank >= len(cta.cluster.ctas):
        cta.fault(line, f"shared address {address:#x} is of no CTA of the cluster")
    return cta.cluster.ctas[rank], address & OFFSET_MASK


def arrive(
    cta: Cta, barrier: Mbarrier, count: int, line: int, clock: Any = None, drop: bool = False
) -> None:
    """Counts arrivals; more than are expected in the phase is an error."""
    if count > barrier.pending:
        cta.fault(line, f"{count} arrivals where {barrier.pending} are pending")
    if clock is not None and cta.shadow is not None:
        barrier.clock = cta.shadow.joined(barrier.clock, clock)
    barrier.pending -= count
    if drop:
        barrier.count -= count
    barrier.settle()


def complete_bytes(cta: Cta, barrier: Mbarrier, size: int, clock: Any = None) -> None:
    """`complete_tx`: bytes that asynchronous work has copied."""
    if clock is not None and cta.shadow is not None:
        barrier.clock = cta.shadow.joined(barrier.clock, clock)
    barrier.bytes -= size
    barrier.settle()


@rule("mbarrier")
def mbarrier(d: Decoder) -> Execute:
    """All instructions on mbarriers."""
    match d.choice(
        "init",
        "inval",
        "expect_tx",
        "complete_tx",
        "arrive",
        "arrive_drop",
        "test_wait",
        "try_wait",
        "pending_count",
    ):
        case "init":
            return _init(d)
        case "inval":
            return _inval(d)
        case "expect_tx":
            return _count_bytes(d, 1)
        case "complete_tx":
            return _count_bytes(d, -1)
        case "arrive":
            return _arrive(d, drop=False)
        case "arrive_drop":
            return _arrive(d, drop=True)
        case "test_wait":
            return _test_wait(d, suspends=False)
        case "try_wait":
            return _test_wait(d, suspends=True)
        case "pending_count":
            d.type()
            read, write = d.src(1, B64), d.dst(0, U32)
            mask = np.uint64(MAX_COUNT)
            return lambda cta, on: write(cta, on, (read(cta) & mask).astype(np.uint32))
    return d.error("unknown instruction")


def _spaces(d: Decoder) -> None:
    d.type()
    d.choice("shared", "shared::cta", "shared::cluster")
    d.choice("release", "acquire", "relaxed")
    d.choice("cta", "cluster")


def _init(d: Decoder) -> Execute:
    _spaces(d)
    address, count, line = d.address(0), d.src(1, U32), d.line

    def run(cta: Cta, on: Active) -> None:
        where, counts = spread(address(cta), cta), spread(count(cta), cta)
        for thread in on.index:
            owner, offset = owner_of(cta, int(where[thread]), line)
            number = int(counts[thread])
            if not 1 <= number <= MAX_COUNT:
                cta.fault(line, f"a count of {number}, expected 1 to {MAX_COUNT}", int(thread))
            if offset % 8:
                cta.fault(line, f"shared address {offset:#x} is not a multiple of 8", int(thread))
            if offset in owner.mbarriers:
                cta.fault(line, f"there is an mbarrier at {offset:#x} already", int(thread))
            owner.mbarriers[offset] = Mbarrier(number, number)

    return run


def _inval(d: Decoder) -> Execute:
    _spaces(d)
    address, line = d.address(0), d.line

    def run(cta: Cta, on: Active) -> None:
        where = spread(address(cta), cta)
        for thread in on.index:
            find_mbarrier(cta, int(where[thread]), line, int(thread))
            owner, offset = owner_of(cta, int(where[thread]), line)
            del owner.mbarriers[offset]

    return run


def _count_bytes(d: Decoder, sign: int) -> Execute:
    _spaces(d)
    address, size, line = d.address(0), d.src(1, U32), d.line

    def run(cta: Cta, on: Active) -> None:
        where, sizes = spread(address(cta), cta), spread(size(cta), cta)
        for thread in on.index:
            barrier = find_mbarrier(cta, int(where[thread]), line, int(thread))
            barrier.bytes += sign * int(sizes[thread])
            if sign < 0:
                barrier.settle()

    return run


def _arrive(d: Decoder, drop: bool) -> Execute:
    """`mbarrier.arrive{.expect_tx}{.noComplete} {state,} [addr]{, count}`."""
    expects = d.flag("expect_tx")
    d.flag("noComplete")
    _spaces(d)
    first = 0 if hasattr(d.operands[0], "rest") else 1
    has_state = first == 1 and not isinstance(d.operands[0], Sink)
    address, line = d.address(first), d.line
    rest = d.operands[first + 1 :]
    number = d.src(rest[0], U32) if rest else None
    write = d.dst(0, B64) if has_state else None

    def run(cta: Cta, on: Active) -> None:
        where = spread(address(cta), cta)
        given = None if number is None else spread(number(cta), cta)
        states = np.zeros((len(on.index), 1), np.uint64)
        if given is None and not has_state:
            for value in np.unique(where[on.index]):
                mask = on.mask & (where == value)
                barrier = find_mbarrier(cta, int(value), line, on.first)
                clock = None if cta.shadow is None else cta.shadow.release_into(mask, None)
                arrive(cta, barrier, int(mask.sum()), line, clock, drop)
            return
        for row, thread in enumerate(on.index):
            barrier = find_mbarrier(cta, int(where[thread]), line, int(thread))
            amount = 1 if given is None else int(given[thread])
            states[row] = (barrier.phase << 20) | max(barrier.pending - 1, 0)
            if expects:
                barrier.bytes += amount
                amount = 1
            clock = None if cta.shadow is None else cta.shadow.snapshot(int(thread))
            arrive(cta, barrier, amount, line, clock, drop)
        if write:
            _write_threads(cta, on, write, states, 0, 1)

    return run


def _test_wait(d: Decoder, suspends: bool) -> Execute:
    """`test_wait` says whether a phase is complete; `try_wait` waits until it is."""
    by_parity = d.flag("parity")
    _spaces(d)
    address = d.address(1)
    wanted = d.src(2, U32 if by_parity else B64)
    write, line = d.dst(0, PRED), d.line
    d.count(3, 4)

    def is_complete(barrier: Mbarrier, value: int) -> bool:
        if by_parity:
            return barrier.phase & 1 != value & 1
        return barrier.phase > value >> 20

    def test(cta: Cta, on: Active) -> None:
        where, values = spread(address(cta), cta), spread(wanted(cta), cta)
        done = np.zeros((len(on.index), 1), np.bool_)
        for row, thread in enumerate(on.index):
            barrier = find_mbarrier(cta, int(where[thread]), line, int(thread))
            done[row] = is_complete(barrier, int(values[thread]))
            if done[row] and cta.shadow is not None:
                cta.shadow.acquire_from(_only(cta, int(thread)), barrier.last_clock)
        _write_threads(cta, on, write, done, 0, 1)

    if not suspends:
        return yields(d, test)
    d.is_control = True

    def wait(cta: Cta, on: Active) -> None:
        where, values = spread(address(cta), cta), spread(wanted(cta), cta)
        keys = np.stack((where[on.index], values[on.index].astype(np.uint64)), axis=1)
        for key in np.unique(keys, axis=0):
            place, value = int(key[0]), int(key[1])
            barrier = find_mbarrier(cta, place, line, on.first)
            mask = on.mask & (where == key[0]) & (values == value)
            if is_complete(barrier, value):
                _pass(cta, mask, barrier)
                continue

            def resume(mask: np.ndarray = mask, barrier: Mbarrier = barrier) -> None:
                _pass(cta, mask, barrier)

            def poll(barrier: Mbarrier = barrier, value: int = value) -> bool:
                return is_complete(barrier, value)

            what = f"the mbarrier at shared address {place & OFFSET_MASK:#x}"
            cta.block(mask, Waiter(mask, poll, resume, line, what))

    def _pass(cta: Cta, mask: np.ndarray, barrier: Mbarrier) -> None:
        write(cta, Active(mask), np.ones(1, np.bool_))
        cta.pc[mask] += 1
        if cta.shadow is not None:
            cta.shadow.acquire_from(mask, barrier.last_clock)

    return wait


def _only(cta: Cta, thread: int) -> np.ndarray:
    mask = np.zeros(cta.threads, np.bool_)
    mask[thread] = True
    return mask


WORDS = (B32, bits_type(64))

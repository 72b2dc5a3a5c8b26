"""What the rules of threads see: a launch, its clusters and CTAs, and threads in lockstep."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.ir import Block, SSAValue

from tileiras.interpreter.memory import SimulatedMemory
from tileiras.interpreter.state import RunLog
from tileiras.interpreter.threads.clocks import Clock
from tileiras.interpreter.threads.meeting import Mbarrier, MeetingPoint
from tileiras.interpreter.threads.schedule import Schedule, Wait
from tileiras.interpreter.threads.shared import SharedMemory
from tileiras.interpreter.threads.tensor_maps import TensorMap
from tileiras.interpreter.threads.values import Value

WARP = 32

Index = tuple[int, int, int]

Rule = Callable[["Lockstep", Any], Value | Wait | None]
"""`rule(run, op)` gives the value of the only result, None if there is none or it set them itself,
or what to wait for."""


@dataclass
class Launch:
    """What all CTAs of a launch share; `grid` counts CTAs."""

    memory: SimulatedMemory
    log: RunLog
    grid: Index
    cluster_shape: Index
    globals: dict[str, int]
    """Addresses of the module's variables; those in shared memory are the same in every CTA."""
    shared_variables: dict[str, range]
    maps: dict[int, TensorMap] = field(default_factory=dict[int, TensorMap])
    """Tensor maps in global memory, by address."""
    heap: list[int] = field(default_factory=list[int])
    """What `malloc` gave and nobody has freed."""
    numbers_drawn: int = 0
    """From the launch's queue."""


@dataclass
class Cluster:
    """CTAs that run side by side; a CTA on its own is a cluster of one."""

    launch: Launch
    schedule: Schedule
    threads: int
    """Of one CTA."""
    meeting: MeetingPoint
    """The cluster's barrier."""
    programs: int = 0
    """How many programs have been numbered."""
    ctas: list[Cta] = field(default_factory=list["Cta"])

    def number_program(self) -> int:
        """The number of one more program."""
        self.programs += 1
        return self.programs - 1

    @property
    def most_programs(self) -> int:
        """More than there can be: one for each warp and switch."""
        return 2 * self.size * -(-self.threads // WARP)

    @property
    def size(self) -> int:
        """CTAs in the cluster."""
        return int(np.prod(self.launch.cluster_shape))


@dataclass
class Cta:
    """One CTA: its shared memory and the barriers in it."""

    cluster: Cluster
    index: Index
    rank: int
    shared: SharedMemory
    live_threads: int
    mbarriers: dict[int, Mbarrier] = field(default_factory=dict[int, Mbarrier])
    named: dict[int, MeetingPoint] = field(default_factory=dict[int, MeetingPoint])
    flags: dict[tuple[int, int], bool] = field(default_factory=dict[tuple[int, int], bool])
    """Whether any thread had the flag that `bar.red.or` asks for, by barrier and generation."""
    map_drafts: dict[int, TensorMap] = field(default_factory=dict[int, TensorMap])
    """Tensor maps in shared memory, by address."""

    @property
    def launch(self) -> Launch:
        """The launch that it belongs to."""
        return self.cluster.launch


@dataclass
class PendingCopy:
    """A `cp.async` of some threads: `read_bytes` of `size` come from `sources`, zeros follow."""

    threads: np.ndarray
    targets: Value
    sources: Value
    size: int
    read_bytes: np.ndarray


BulkCopy = Callable[[bool], None]
"""A TMA store under way: called when it must have read, and with True when it must be complete."""


@dataclass
class ProgramState:
    """What a program has under way, and what it knows."""

    clock: Clock
    copies: list[list[PendingCopy]] = field(default_factory=lambda: [[]])
    """By group; the last one is still open."""
    cluster_arrivals: int = 0
    """At the barrier of the cluster, which everybody comes to equally often."""
    bulk_groups: list[list[BulkCopy]] = field(default_factory=list[list[BulkCopy]])
    bulk_read: int = 0
    """How many of these groups, the oldest, have been waited for until they were read."""
    stored: list[np.ndarray] = field(default_factory=list[np.ndarray])
    """Places in shared memory that were stored since the last fence between proxies."""
    rounds: dict[Block, int] = field(default_factory=dict[Block, int])
    """Rounds of the loops that it is in, by header."""


class RowsOf(dict[SSAValue, Value]):
    """Values of some of the threads, taken from those of all when they are asked for."""

    def __init__(self, values: dict[SSAValue, Value], rows: np.ndarray):
        super().__init__()
        self._values, self._rows = values, rows

    def __missing__(self, value: SSAValue) -> Value:
        held = self._values[value][self._rows]
        self[value] = held
        return held

    def copy(self) -> RowsOf:
        """What the values are now, also those that nobody has asked for."""
        made = RowsOf(self._values.copy(), self._rows)
        made.update(self)
        return made


@dataclass
class Lockstep:
    """Threads of a CTA that execute one operation after the other together.

    `ids` are their numbers in the CTA; row i of every value belongs to thread `ids[i]`.
    """

    cta: Cta
    ids: np.ndarray
    program: ProgramState
    values: dict[SSAValue, Value]

    @property
    def count(self) -> int:
        """How many threads."""
        return len(self.ids)

    @property
    def rows(self) -> np.ndarray:
        """0, 1, 2, ..."""
        return np.arange(len(self.ids))

    @property
    def lanes(self) -> np.ndarray:
        """The place of each thread in its warp."""
        return self.ids % WARP

    @property
    def shared(self) -> SharedMemory:
        """The CTA's shared memory."""
        return self.cta.shared

    @property
    def memory(self) -> SimulatedMemory:
        """Global memory."""
        return self.cta.launch.memory

    @property
    def clock(self) -> Clock:
        """What this program knows."""
        return self.program.clock

    @property
    def schedule(self) -> Schedule:
        """Who runs when."""
        return self.cta.cluster.schedule

    def operands(self, values: Iterable[SSAValue]) -> list[Value]:
        """Several values."""
        return [self.values[value] for value in values]

    def only(self, rows: np.ndarray) -> Lockstep:
        """Some of the threads on their own, in the same program."""
        return Lockstep(self.cta, self.ids[rows], self.program, RowsOf(self.values, rows))

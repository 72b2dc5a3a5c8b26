"""The state of a running grid: threads, CTAs, clusters.

A CTA's threads are the lanes of numpy arrays. Every thread has a program counter and a status;
the scheduler (`schedule`) runs all threads that stand at the same instruction at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from tileiras.interpreter.ptx.errors import PtxRuntimeError
from tileiras.interpreter.ptx.memory import RANK_SHIFT, Arena, Bytes
from tileiras.interpreter.ptx.program import Kernel, Sym

WARP = 32
READY, PARKED, BLOCKED, EXITED = 0, 1, 2, 3

Triple = tuple[int, int, int]


class Active:
    """The threads that perform an instruction."""

    def __init__(self, mask: np.ndarray):
        self.mask = mask
        self.is_full = bool(mask.all())

    @cached_property
    def index(self) -> np.ndarray:
        """Their numbers, in order."""
        return np.flatnonzero(self.mask)

    @cached_property
    def warps(self) -> np.ndarray:
        """The numbers of the warps with at least one of them."""
        return np.flatnonzero(self.mask.reshape(-1, WARP).any(axis=1))

    @property
    def first(self) -> int:
        """The lowest number."""
        return int(self.index[0])


@dataclass(eq=False)
class Waiter:
    """Threads that wait: `poll` says whether they may go on, `resume` is done then.

    `is_for_others`: CTAs of other clusters may end the wait.
    """

    mask: np.ndarray
    poll: Callable[[], bool]
    resume: Callable[[], None]
    line: int
    what: str
    is_for_others: bool = False


@dataclass
class AsyncWork:
    """Work under way: `finish` makes its effects visible. `line` is the instruction's."""

    finish: Callable[[], None]
    line: int
    what: str


@dataclass
class Limits:
    """Bounds of a run: instructions of all CTAs together, and clusters that are resident at once.

    `ctas_per_sm` clusters have their CTAs on the same SMs, and go on in turns where they allocate
    tensor memory.
    """

    instructions: int = 50_000_000
    resident: int = 132
    ctas_per_sm: int = 1


class Cta:
    """One CTA: its registers, shared memory and threads."""

    def __init__(self, cluster: Cluster, rank: int, index: Triple):
        grid = cluster.grid
        self.cluster, self.grid, self.rank, self.ctaid = cluster, grid, rank, index
        self.kernel: Kernel = grid.kernel
        size = grid.block[0] * grid.block[1] * grid.block[2]
        self.threads = -(-size // WARP) * WARP
        self.regs = _register_file(self.kernel, self.threads)
        self.pc = np.zeros(self.threads, np.int64)
        self.status = np.full(self.threads, READY, np.int8)
        self.status[size:] = EXITED
        self.yielded = np.zeros(self.threads, np.bool_)
        self.waiters: list[Waiter] = []
        self.shared = Bytes(grid.shared_bytes)
        self.local_size = -(-self.kernel.local_bytes // 16) * 16
        self.local = Bytes(self.local_size * self.threads)
        self.special = dict(_thread_registers(self, size))
        # Of types that are defined above this module: Mbarrier, TensorMemory, Shadow.
        self.mbarriers: dict[int, Any] = {}
        self.named_barriers: dict[int, Any] = {}
        self.copies: Any = None
        self.bulk_groups: dict[int, list[Any]] = {}
        self.wgmma: Any = None
        self.tmem: Any = None
        self.collected: Any = None
        self.shadow: Any = None
        self.unfinished: dict[int, np.ndarray] = {}
        self.clock = 0

    @property
    def is_done(self) -> bool:
        """Whether every thread has exited."""
        return bool((self.status == EXITED).all())

    @property
    def sm(self) -> int:
        """The number of the SM on which it runs."""
        group = self.cluster.slot // self.grid.limits.ctas_per_sm
        return group * len(self.cluster.ctas_at) + self.rank

    def address_of(self, symbol: Sym) -> int:
        """The address of a variable in its own state space."""
        match symbol.space:
            case "shared":
                base = (self.rank << RANK_SHIFT) + (symbol.address or 0)
            case "dynamic":
                base = (self.rank << RANK_SHIFT) + self.kernel.dynamic_shared_at
            case "local":
                base = symbol.address or 0
            case "param":
                base = self.grid.parameters_at + (symbol.address or 0)
            case _:
                base = self.grid.module_addresses[symbol.name]
        return base + symbol.offset

    def live(self) -> np.ndarray:
        """Which threads have not exited."""
        return self.status != EXITED

    def block(self, mask: np.ndarray, waiter: Waiter) -> None:
        """Stops threads until the waiter's condition holds."""
        self.status[mask] = BLOCKED
        self.waiters.append(waiter)

    def fault(self, line: int, message: str, thread: int | None = None) -> NoReturn:
        """Ends the run with an error that names the line, the CTA and a thread."""
        where = f"CTA {self.ctaid}"
        if thread is not None:
            where += f", thread {thread}"
        raise PtxRuntimeError(f"{message} ({where})", line)


def _register_file(kernel: Kernel, threads: int) -> list[np.ndarray]:
    """One row per register; rows of a type lie together."""
    by_type: dict[str, list[int]] = {}
    for slot, type_ in enumerate(kernel.registers):
        by_type.setdefault(f"{type_.bits}", []).append(slot)
    rows: list[Any] = [None] * len(kernel.registers)
    for bits, slots in by_type.items():
        held = kernel.registers[slots[0]].held
        shape = (len(slots), threads, 2) if bits == "128" else (len(slots), threads)
        for slot, row in zip(slots, np.zeros(shape, held)):
            rows[slot] = row
    return rows


def _thread_registers(cta: Cta, size: int) -> Iterator[tuple[str, np.ndarray]]:
    """Special registers that do not change (PTX ISA, "Special Registers")."""
    grid, cluster = cta.grid, cta.cluster
    thread = np.arange(cta.threads, dtype=np.uint32)
    x, y = grid.block[0], grid.block[1]
    for axis, values in zip("xyz", (thread % x, thread // x % y, thread // (x * y))):
        yield f"tid.{axis}", values.astype(np.uint32)
    lane = thread % WARP
    yield "laneid", lane
    yield "warpid", thread // WARP
    bit = np.uint32(1) << lane
    yield "lanemask_eq", bit
    yield "lanemask_lt", bit - np.uint32(1)
    yield "lanemask_le", (bit - np.uint32(1)) | bit
    yield "lanemask_gt", ~((bit - np.uint32(1)) | bit)
    yield "lanemask_ge", ~(bit - np.uint32(1))
    constants = {
        "nwarpid": -(-size // WARP),
        "smid": cta.sm,
        "nsmid": max(grid.limits.resident, 1),
        "cluster_ctarank": cta.rank,
        "cluster_nctarank": len(cluster.ctas_at),
        "is_explicit_cluster": int(len(cluster.ctas_at) > 1 or grid.has_clusters),
        "gridid": 0,
        "dynamic_smem_size": grid.dynamic_shared,
        "total_smem_size": grid.shared_bytes,
        "reserved_smem_offset_begin": 0,
        "reserved_smem_offset_end": 1024,
        "reserved_smem_offset_cap": 1024,
    }
    shape, inside = grid.cluster, cluster.ctas_at[cta.rank]
    for i, axis in enumerate("xyz"):
        constants[f"ntid.{axis}"] = grid.block[i]
        constants[f"ctaid.{axis}"] = cta.ctaid[i]
        constants[f"nctaid.{axis}"] = grid.grid[i]
        constants[f"clusterid.{axis}"] = cluster.index[i]
        constants[f"nclusterid.{axis}"] = grid.grid[i] // shape[i]
        constants[f"cluster_ctaid.{axis}"] = inside[i]
        constants[f"cluster_nctaid.{axis}"] = shape[i]
    for name, value in constants.items():
        yield name, np.full(cta.threads, value, np.uint32)


@dataclass(eq=False)
class Cluster:
    """CTAs that run together; `pending` is their asynchronous work, oldest first.

    `slot` counts from 0: no two clusters that are resident at once have the same. `ends_turn`:
    other clusters are to go on first.
    """

    grid: Grid
    index: Triple
    slot: int
    ends_turn: bool = False
    ctas: list[Cta] = field(default_factory=list)
    pending: deque[AsyncWork] = field(default_factory=deque)
    barrier: Any = None
    tmem_requests: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        shape = self.grid.cluster
        self.ctas_at = [
            (x, y, z) for z in range(shape[2]) for y in range(shape[1]) for x in range(shape[0])
        ]
        for rank, inside in enumerate(self.ctas_at):
            x, y, z = (base * extent + at for base, extent, at in zip(self.index, shape, inside))
            self.ctas.append(Cta(self, rank, (x, y, z)))

    def later(self, finish: Callable[[], None], line: int, what: str) -> None:
        """Adds asynchronous work."""
        self.pending.append(AsyncWork(finish, line, what))


@dataclass(eq=False)
class Grid:
    """A launch."""

    kernel: Kernel
    grid: Triple
    block: Triple
    cluster: Triple
    memory: Arena
    parameters_at: int
    module_addresses: dict[str, int]
    dynamic_shared: int
    limits: Limits
    has_clusters: bool = False
    checks_races: bool = True
    steps: list[Any] = field(default_factory=list)
    waiting: deque[Triple] = field(default_factory=deque)
    executed: int = 0
    log: list[str] = field(default_factory=list)
    tensor_memories: dict[int, Any] = field(default_factory=dict)

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a CTA: reserved, static, dynamic."""
        return max(self.kernel.shared_bytes, self.kernel.dynamic_shared_at + self.dynamic_shared)

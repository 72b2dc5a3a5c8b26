"""Specialised kernels in the simulator with all their agents, which meet at mbarriers alone.

The consumers' threads are one lockstep machine, every other warp is one of its own. They take turns
where they could wait, in an order that a seed decides. Bulk copies into shared memory land at any
time; those out of it are read as late as a wait allows, from bytes that nobody may write meanwhile
and that their writers have made known to the asynchronous proxy.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
from simulate import _Block
from simulated_arguments import UploadedArguments
from simulated_ops import INTRINSICS, RULES, WARP, Log, Machine, Rule, Value
from simulated_shared import FIRST_ADDRESS, SharedMemory
from simulated_wgmma import _CLAIMS, _CONSUMER_RULES, _prmt
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block

from tileiras.dialects.llvm.control import CondBrOp, FuncOp
from tileiras.interpreter import SimulatedMemory

_SIZES = {"f16": 2, "bf16": 2, "f32": 4, "s32": 4, "u8": 1}
_NUMBERS: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "s32": np.int32}


class DeadlockError(RuntimeError):
    """All agents wait."""


@dataclass
class Barrier:
    """An mbarrier: arrivals and bytes that the current phase still expects."""

    count: int
    pending: int
    bytes: int = 0
    phase: int = 0

    def settle(self) -> None:
        """On to the next phase, if this one is complete."""
        assert self.pending >= 0, "more arrivals than expected"
        if self.pending == 0 and self.bytes == 0:
            self.phase, self.pending = self.phase + 1, self.count


@dataclass(frozen=True)
class TensorMap:
    """What a map says; the fastest dim first, strides in bytes without its."""

    base: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element: str
    swizzle: int

    def elements(self, coordinates: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Addresses of a box's elements in its order in shared memory, and which are inside."""
        steps = (_SIZES[self.element], *self.strides)
        address = np.full((1,) * len(self.box), self.base, np.int64)
        inside = np.ones(address.shape, bool)
        for dim, (start, extent) in enumerate(zip(coordinates, self.box, strict=True)):
            shape = [1] * len(self.box)
            shape[len(self.box) - 1 - dim] = extent
            index = (start + np.arange(extent)).reshape(shape)
            address = address + index * steps[dim]
            inside = inside & (index >= 0) & (index < self.sizes[dim])
        return address.reshape(-1), np.broadcast_to(inside, address.shape).reshape(-1)

    def places(self, start: int) -> np.ndarray:
        """Where the bytes of a box lie in shared memory, (elements, bytes of one): swizzled."""
        size = _SIZES[self.element]
        place = start + np.arange(int(np.prod(self.box)) * size)
        return (place ^ (place >> 7 & self.swizzle // 16 - 1) << 4).reshape(-1, size)


class ProxyMemory(SharedMemory):
    """Shared memory that knows what only its writer sees, and what bulk copies still read."""

    def __init__(self, threads: int):
        super().__init__(threads)
        self.hidden = np.zeros(0, bool)
        self.read_by_copy = np.zeros(0, np.int64)

    def allocate(self, size: int) -> int:
        """Room for `size` bytes."""
        address = super().allocate(size)
        self.hidden = np.resize(self.hidden, len(self.data))
        self.read_by_copy = np.resize(self.read_by_copy, len(self.data))
        self.hidden[:], self.read_by_copy[:] = False, 0
        return address

    def store(self, threads: np.ndarray, addresses: np.ndarray, data: np.ndarray) -> None:
        """Ordinary stores, of which the asynchronous proxy does not know yet."""
        places = self._places(addresses, data.shape[1])
        if self.read_by_copy[places].any():
            raise RuntimeError("race: written while a bulk copy reads it")
        super().store(threads, addresses, data)
        self.hidden[places] = True


@dataclass
class World:
    """What the agents share. One of them runs at a time; the others sleep on their events."""

    random: random.Random
    agents: int = 0
    met: int = 0
    barriers: dict[int, Barrier] = field(default_factory=dict)
    drafts: dict[int, TensorMap] = field(default_factory=dict)
    maps: dict[int, TensorMap] = field(default_factory=dict)
    kept: dict[int, tuple[int, ...]] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)
    landing: list[Callable[[], None]] = field(default_factory=list)
    groups: dict[int, list[list[Callable[[bool], None]]]] = field(default_factory=dict)
    conditions: dict[int, Callable[[], bool]] = field(default_factory=dict)
    events: dict[int, threading.Event] = field(default_factory=dict)
    failure: BaseException | None = None
    waits: int = 0

    def wait(self, condition: Callable[[], bool] = lambda: True) -> None:
        """Lets others run, until it is this agent's turn and the condition holds."""
        me = threading.get_ident()
        self.conditions[me] = condition
        self._choose()
        self.events[me].wait()
        self.events[me].clear()
        if self.failure is not None:
            raise SystemExit

    def leave(self) -> None:
        """This agent is done."""
        del self.conditions[threading.get_ident()]
        if self.conditions:
            self._choose()

    def fail(self, failure: BaseException) -> None:
        """Ends all."""
        self.failure = self.failure or failure
        for event in self.events.values():
            event.set()

    def _choose(self) -> None:
        """Wakes one agent that can go on; copies land meanwhile."""
        while True:
            ready = [agent for agent, may in self.conditions.items() if may()]
            if self.landing and (not ready or self.random.random() < 0.3):
                self.landing.pop(self.random.randrange(len(self.landing)))()
            elif ready:
                self.events[self.random.choice(ready)].set()
                return
            else:
                self.fail(DeadlockError("all agents wait"))
                return


def run_agents(
    module: ModuleOp,
    args: Sequence[Any],
    grid: tuple[int, int, int],
    seed: int = 0,
) -> None:
    """Runs the only kernel of a module of the llvm dialect; arrays are updated in place."""
    memory = SimulatedMemory()
    uploaded = UploadedArguments(memory, args)
    (func,) = [op for op in module.body.ops if isinstance(op, FuncOp)]
    with patch.dict(INTRINSICS, {"nvvm.prmt": _prmt}):
        for index in np.ndindex(*grid):
            world = World(random.Random(f"{seed} {index}"))
            with patch("simulate.SharedMemory", ProxyMemory), patch.dict(RULES, _rules(world)):
                _Agents(module, func, memory, index, grid, world).start(uploaded.values)
    uploaded.download()


@dataclass
class _WarpMachine(Machine):
    """Threads that do not start at 0."""

    first: int = 0

    @property
    def thread_ids(self) -> np.ndarray:
        """Their numbers."""
        return self.first + np.arange(self.threads)


class _Agents(_Block):
    """A block whose warps part ways at the switch between agents."""

    may_be_alone = (1, WARP)
    runs_agents = True

    def __init__(
        self, module: ModuleOp, func: FuncOp, memory: Any, index: Any, grid: Any, world: World
    ):
        super().__init__(module, func, memory, index, grid, Log())
        self.world = world
        self.threads: list[threading.Thread] = []

    def start(self, args: Sequence[int]) -> None:
        """Runs all agents to their ends."""
        world = self.world
        self._join(lambda: self.run(args))
        for thread in self.threads:
            thread.join(60)
        if world.failure is not None:
            raise world.failure
        assert not world.landing, "a copy lands after the end"
        assert not any(groups for groups in world.groups.values()), "stores are not complete"

    def _join(self, act: Callable[[], None]) -> None:
        """Runs what an agent does, in its thread."""
        me = threading.get_ident()
        self.world.agents += not self.world.events
        self.world.events.setdefault(me, threading.Event())
        self.world.conditions[me] = lambda: True
        try:
            act()
            self.world.leave()
        except SystemExit:
            pass
        except BaseException as failure:
            self.world.fail(failure)

    def _part_ways(self, machine: Machine, branch: CondBrOp, taken: Value) -> Block | None:
        if taken[0] or isinstance(machine, _WarpMachine):
            return super()._part_ways(machine, branch, taken)
        if int(taken.sum()) == 1:
            return self._enter(machine, branch.then_block, branch.then_arguments)
        consumers = int(np.argmax(taken))
        for first in range(consumers, machine.threads, WARP):
            self._send(machine, branch, first)
        machine.threads = consumers
        for value, held in machine.values.items():
            machine.values[value] = held[:consumers]
        return branch.else_block

    def _send(self, machine: Machine, branch: CondBrOp, first: int) -> None:
        """A warp on its way to its agent's program, which it starts when it is its turn."""
        values = {value: held[first : first + WARP] for value, held in machine.values.items()}
        shared = (machine.memory, machine.shared, machine.globals, machine.index, machine.grid)
        warp = _WarpMachine(WARP, *shared, machine.log, values, first=first)

        def act() -> None:
            block: Block | None = self._enter(warp, branch.then_block, branch.then_arguments)
            while block is not None:
                block = self._run_block(warp, block)

        def run() -> None:
            event = self.world.events[threading.get_ident()] = threading.Event()
            started.set()
            event.wait()
            event.clear()
            if self.world.failure is None:
                self._join(act)

        started = threading.Event()
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        started.wait()
        self.world.conditions[thread.ident or 0] = lambda: True
        self.world.agents += 1
        self.threads.append(thread)


def _first(machine: Machine, value: Any) -> int:
    """What all threads have alike, as a signed number of 32 bits or an address."""
    held = machine.values[value]
    assert (held == held[0]).all(), "threads disagree"
    return int(held[0])


def _index(machine: Machine, value: Any, row: int) -> int:
    return int(np.uint32(machine.values[value][row]).view(np.int32))


def _chosen(machine: Machine, predicate: Any) -> np.ndarray:
    """The threads for which the predicate holds."""
    if predicate is None:
        return np.arange(machine.threads)
    return np.flatnonzero(machine.values[predicate])


def _rules(world: World) -> dict[str, Rule]:
    """What the operations of agents do to a world."""

    def barrier(machine: Machine, op: Any) -> None:
        if op.id.data == 0:
            world.met += 1
            world.wait(lambda: world.met == world.agents)
        machine.shared.barrier()

    def init(machine: Machine, op: Any) -> None:
        count = op.count.data
        for address in np.unique(machine.values[op.barrier]):
            world.barriers[int(address)] = Barrier(count, count)

    def arrive(machine: Machine, op: Any) -> None:
        assert op.cta is None
        for row in _chosen(machine, op.predicate):
            found = world.barriers[int(machine.values[op.barrier][row])]
            found.pending -= op.count.data
            found.settle()
        world.wait()

    def expect(machine: Machine, op: Any) -> None:
        for row in _chosen(machine, op.predicate):
            found = world.barriers[int(machine.values[op.barrier][row])]
            found.bytes += op.bytes.data if op.size is None else _index(machine, op.size, row)
            found.pending -= 1
            found.settle()

    def wait(machine: Machine, op: Any) -> None:
        pairs = zip(machine.values[op.barrier], machine.values[op.parity], strict=True)
        wanted = {(int(address), int(parity)) for address, parity in pairs}
        world.waits += 1
        world.wait(lambda: all(world.barriers[at].phase & 1 != parity for at, parity in wanted))

    def fence(machine: Machine, op: Any) -> None:
        shared: Any = machine.shared
        shared.hidden[np.isin(shared.writer, machine.thread_ids)] = False

    def fill(machine: Machine, op: Any) -> None:
        scratch = _first(machine, op.scratch)
        for lane in range(op.count.data):
            sizes = tuple(_index(machine, value, lane) for value in op.sizes)
            strides = tuple(int(machine.values[value][lane]) for value in op.strides)
            box = tuple(_index(machine, value, lane) for value in op.box)
            base = int(machine.values[op.base][lane])
            made = TensorMap(base, sizes, strides, box, op.element.data, op.swizzle.data)
            world.drafts[scratch + 128 * lane] = made

    def publish(machine: Machine, op: Any) -> None:
        scratch, target = _first(machine, op.scratch), _first(machine, op.target)
        for at in range(0, 128 * op.count.data, 128):
            world.maps[target + at] = world.drafts[scratch + at]

    def words(machine: Machine, op: Any) -> dict[int, tuple[int, ...]]:
        keys = machine.values[op.key]
        columns = [machine.values[word] for word in op.words]
        return {int(keys[row]): tuple(int(c[row]) for c in columns) for row in range(WARP)}

    def find(machine: Machine, op: Any) -> Value:
        keys, columns = machine.values[op.key], [machine.values[word] for word in op.words]
        found = all(
            world.kept.get(int(keys[row])) == tuple(int(column[row]) for column in columns)
            for row in range(WARP)
        )
        return np.full(machine.threads, found, dtype=np.uint64)

    def keep(machine: Machine, op: Any) -> None:
        if _first(machine, op.taken) not in world.taken:
            world.taken.add(_first(machine, op.taken))
            publish(machine, op)
            world.kept.update(list(words(machine, op).items())[: op.count.data])

    def load(machine: Machine, op: Any) -> None:
        for row in _chosen(machine, op.predicate):
            box = world.maps[int(machine.values[op.map][row])]
            found = world.barriers[int(machine.values[op.barrier][row])]
            coordinates = [_index(machine, value, row) for value in op.coordinates]
            target = int(machine.values[op.target][row]) - FIRST_ADDRESS

            world.landing.append(_landing(machine, box, found, coordinates, target))
        world.wait()

    def store(machine: Machine, op: Any) -> None:
        for row in _chosen(machine, op.predicate):
            box = world.maps[int(machine.values[op.map][row])]
            coordinates = [_index(machine, value, row) for value in op.coordinates]
            places = box.places(int(machine.values[op.source][row]) - FIRST_ADDRESS)
            shared: Any = machine.shared
            if not shared.written[places].all() or shared.hidden[places].any():
                raise RuntimeError("a bulk copy starts from bytes that it does not see")
            shared.read_by_copy[places] += 1
            kind = op.reduction.data if op.reduction is not None else None
            _open_group(world).append(_stored(machine, box, coordinates, places, kind))
        world.wait()

    def commit(machine: Machine, op: Any) -> None:
        _open_group(world)
        world.groups[threading.get_ident()].append([])

    def finish(machine: Machine, op: Any) -> None:
        """A group that must have been read is read, and one that must be complete is forgotten."""
        _open_group(world)
        groups = world.groups[threading.get_ident()]
        older = groups[: max(0, len(groups) - 1 - op.pending.data)]
        for group in older:
            for copy in group:
                copy(op.read is None)
        if op.read is None:
            del groups[: len(older)]
            if groups == [[]]:
                del groups[:]
        world.wait()

    ignored = ("acquire_tensormap", "prefetch_tensormap", "release_slot", "warp_barrier")
    nothing: dict[str, Rule] = {f"nvvm.{name}": lambda machine, op: None for name in ignored}
    return {
        **_CONSUMER_RULES,
        **nothing,
        **_CLAIMS,
        "nvvm.barrier": barrier,
        "nvvm.mbarrier_init": init,
        "nvvm.mbarrier_arrive": arrive,
        "nvvm.mbarrier_expect_tx": expect,
        "nvvm.mbarrier_wait": wait,
        "nvvm.fence_proxy_async": fence,
        "nvvm.fill_tensormaps": fill,
        "nvvm.publish_tensormaps": publish,
        "nvvm.find_tensor_maps": find,
        "nvvm.keep_tensor_maps": keep,
        "nvvm.tma_load": load,
        "nvvm.tma_store": store,
        "nvvm.tma_store_commit": commit,
        "nvvm.tma_store_wait": finish,
    }


def _open_group(world: World) -> list[Callable[[bool], None]]:
    """The copies of this agent that no commit has closed yet."""
    groups = world.groups.setdefault(threading.get_ident(), [])
    if not groups:
        groups.append([])
    return groups[-1]


def _landing(
    machine: Machine, box: TensorMap, found: Barrier, coordinates: Sequence[int], target: int
) -> Callable[[], None]:
    """A box on its way to shared memory."""
    storage = np.dtype(f"u{_SIZES[box.element]}")

    def act() -> None:
        addresses, inside = box.elements(coordinates)
        places, shared = box.places(target), machine.shared
        data = np.zeros(addresses.shape, storage)
        data[inside] = machine.memory.gather(addresses[inside], storage)
        shared.data[places] = data.view(np.uint8).reshape(places.shape)
        shared.written[places], shared.writer[places] = True, -1
        found.bytes -= places.size
        found.settle()

    return act


def _stored(
    machine: Machine, box: TensorMap, coordinates: Sequence[int], places: np.ndarray, kind: Any
) -> Callable[[bool], None]:
    """A copy under way: read once when it must have been, written when it must be complete."""
    read: list[np.ndarray] = []
    storage = np.dtype(f"u{_SIZES[box.element]}")

    def act(is_complete: bool) -> None:
        shared: Any = machine.shared
        if not read:
            read.append(shared.data[places].copy())
            shared.read_by_copy[places] -= 1
        if not is_complete:
            return
        addresses, inside = box.elements(coordinates)
        data = read[0].reshape(-1).view(storage)[inside]
        if kind is not None:
            assert kind == "add"
            number = _NUMBERS[box.element]
            before = machine.memory.gather(addresses[inside], storage)
            data = (before.view(number) + data.view(number)).view(storage)
        machine.memory.scatter(addresses[inside], data)

    return act


__all__ = ["DeadlockError", "run_agents"]

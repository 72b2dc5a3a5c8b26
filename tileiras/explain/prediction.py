"""What each line of a kernel costs on a GPU: time of each unit, and which of them it waits for.

Everything is computed from documents' rates (`codegen/target/rates.py`, `performance.py`) and from
what the program does; nothing is measured. Units overlap, so the slowest one is the prediction,
without launches, prologues, epilogues and what waits for what. Of memory every tensor counts once,
of L2 every tile that a tile block loads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod

from tileiras.codegen.target import GpuTarget
from tileiras.codegen.target.rates import L2_BYTES_PER_CYCLE, RATES, Rates
from tileiras.dialects import nv_tileaa as aa
from tileiras.errors import TargetError, UsageError
from tileiras.explain.scalars import Scalars
from tileiras.explain.work import VECTOR_UNITS, KernelWork, LineWork, Place, measure, tensor_bytes
from tileiras.planning.schedule.costs import TileCosts
from tileiras.remarks import Remark

BOUNDS = {"memory": "memory", "L2": "memory", "tensor": "tensor", "latency": "latency"}
"""What a kernel author calls the units; all others compute."""


@dataclass(frozen=True)
class Shape:
    """For what a time is predicted: tile blocks, and scalar arguments by their place."""

    grid: tuple[int, int, int]
    arguments: Mapping[int, int]

    @property
    def blocks(self) -> int:
        """Tile blocks."""
        return prod(self.grid)


@dataclass(frozen=True)
class LineCost:
    """A line: what kind of work it is, and microseconds of each unit for the whole grid."""

    place: Place
    kind: str
    work: LineWork
    times: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def slowest(self) -> str:
        """The unit that takes longest; empty without a shape."""
        return max(self.times, key=lambda unit: self.times[unit], default="")

    @property
    def time(self) -> float:
        """Microseconds of the slowest unit."""
        return self.times.get(self.slowest, 0.0)

    @property
    def bound(self) -> str:
        """`memory`, `tensor`, `latency` or `compute`; empty without a shape."""
        return BOUNDS.get(self.slowest, "compute") if self.time else ""


@dataclass(frozen=True)
class Prediction:
    """A kernel: its lines in order, times of the units in microseconds, what is not known.

    `times` is empty without a shape or rates.
    """

    lines: tuple[LineCost, ...]
    times: Mapping[str, float]
    unknown: tuple[Place, ...]
    notes: tuple[str, ...]

    @property
    def slowest(self) -> str:
        """The unit that the kernel waits for."""
        return max(self.times, key=lambda unit: self.times[unit], default="")

    @property
    def time(self) -> float:
        """Microseconds of that unit."""
        return self.times.get(self.slowest, 0.0)

    @property
    def bound(self) -> str:
        """What the kernel is bound by, in an author's words."""
        return BOUNDS.get(self.slowest, "compute") if self.times else ""


def predict(
    func: aa.FuncOp,
    target: GpuTarget,
    threads: int,
    remarks: Sequence[Remark],
    shape: Shape | None = None,
) -> Prediction:
    """What the lines of a kernel cost; `func` is of stage nv_tileaa, one program a tile block.

    `remarks` are those of the compilation: which products have the tensor core, which loads are
    waited for, how many CTAs an SM has. `threads` are those of a CTA.
    """
    costs = TileCosts(threads, target)
    if shape is None:
        work = measure(func, Scalars({}), costs)
        lines = tuple(_line(place, line, {}) for place, line in sorted(work.lines.items()))
        return Prediction(lines, {}, tuple(sorted(work.unknown)), ("no shape: no times",))
    rates = RATES.get(target.name)
    if rates is None:
        known = ", ".join(RATES)
        found = f"no rates of {target.name} are known, so no times: expected one of {known}"
        raise TargetError(found)
    work = _average(func, shape, costs)
    scalars = Scalars(shape.arguments, shape.grid)
    clock = _Clock(rates, target, shape, remarks)
    lines = tuple(
        _line(place, line, clock.times(place, line, scalars))
        for place, line in sorted(work.lines.items())
    )
    notes = [f"rates of {rates.gpu}: {rates.source}"]
    notes += [f"assumed: {what}" for what in rates.assumed]
    if "not measured" in target.performance.source:
        notes.append(f"vector work and latencies {target.performance.source}")
    if any(remark.name in ("Cluster", "TilesPerCTA") for remark in remarks):
        notes.append("tile blocks that load together ask L2 for less than is counted")
    totals = {unit: sum(line.times.get(unit, 0.0) for line in lines) for unit in clock.units}
    totals["memory"] = clock.memory(_touched(work, shape, scalars))
    return Prediction(lines, totals, tuple(sorted(work.unknown)), tuple(notes))


def _line(place: Place, work: LineWork, times: Mapping[str, float]) -> LineCost:
    """A line with the kind of work that it does most of."""
    order = ("product", "atomic", "load", "store", "reduction", "special functions", "conversion")
    kind = next((name for name in order if name in work.kinds), "arithmetic")
    return LineCost(place, kind, work, times)


def _samples(extent: int) -> list[int]:
    """Tile blocks along an axis whose average stands for all: the ends and the middle."""
    return sorted({0, extent // 2, extent - 1})


def _average(func: aa.FuncOp, shape: Shape, costs: TileCosts) -> KernelWork:
    """What a tile block does on average: of triangles of work some do more."""
    if min(shape.grid) < 1:
        raise UsageError(f"the grid is {shape.grid}, expected three positive numbers")
    programs = list(product(*map(_samples, shape.grid)))
    total = KernelWork()
    for program in programs:
        scalars = Scalars(shape.arguments, shape.grid, program)
        _add(total, measure(func, scalars, costs, 1 / len(programs)))
    return total


def _add(total: KernelWork, part: KernelWork) -> None:
    """Adds the work of one tile block to the average."""
    total.unknown |= part.unknown
    for place, line in part.lines.items():
        into = total.lines.setdefault(place, LineWork())
        for mine, theirs in (
            (into.moved, line.moved),
            (into.flops, line.flops),
            (into.cycles, line.cycles),
            (into.kinds, line.kinds),
        ):
            for key, amount in theirs.items():
                mine[key] = mine.get(key, 0) + amount  # type: ignore[index, arg-type]
        into.waits += line.waits
        into.times += line.times


def _touched(work: KernelWork, shape: Shape, scalars: Scalars) -> float:
    """Bytes that come from memory or go there at least: every tensor once each way."""
    moved: dict[tuple[aa.MakeMemRefOp | None, bool], float] = {}
    for line in work.lines.values():
        for key, amount in line.moved.items():
            moved[key] = moved.get(key, 0) + amount * shape.blocks  # type: ignore[index]
    return sum(_once(tensor, amount, scalars) for (tensor, _), amount in moved.items())


def _once(tensor: object, issued: float, scalars: Scalars) -> float:
    """Bytes of a tensor that are touched, of all that are moved."""
    whole = tensor_bytes(tensor, scalars) if isinstance(tensor, aa.MakeMemRefOp) else None
    return issued if whole is None else min(issued, whole)


class _Clock:
    """Turns work of one tile block into microseconds of the units for a whole grid."""

    def __init__(self, rates: Rates, target: GpuTarget, shape: Shape, remarks: Sequence[Remark]):
        self.rates, self.target, self.shape = rates, target, shape
        self.cycles = rates.multiprocessors * rates.clock * 1000
        """Of all SMs in a microsecond."""
        self._instructions = dict(_instructions(remarks))
        self._waiting = dict(_waiting(remarks))
        ctas = [int(dict(one.arguments)["CTAsPerSM"]) for one in remarks if one.name == "Resources"]
        at_once = rates.multiprocessors * max(1, *ctas, 1)
        self.waves = -(-shape.blocks // at_once)
        self.units = ("tensor", "memory", "L2", *(unit.value for unit in VECTOR_UNITS), "latency")

    def memory(self, bytes: float) -> float:
        """Microseconds for bytes of memory."""
        return bytes / self.rates.memory / 1e3

    def times(self, place: Place, line: LineWork, scalars: Scalars) -> dict[str, float]:
        """Microseconds of each unit for a line."""
        blocks = self.shape.blocks
        own = sum(_once(key[0], amount * blocks, scalars) for key, amount in line.moved.items())
        times = {
            "tensor": sum(self._product(place, b, f) for b, f in line.flops.items()) * blocks,
            "memory": self.memory(own),
            "L2": line.bytes * blocks / (self.cycles * L2_BYTES_PER_CYCLE),
        }
        for unit in VECTOR_UNITS:
            times[unit.value] = line.cycles.get(unit, 0) * blocks / self.cycles
        times["latency"] = self._latency(place, line)
        return times

    def _product(self, place: Place, bits: int, flops: float) -> float:
        """Microseconds of the products of a tile block at their instruction's rate."""
        instruction = self._instructions.get(place, "")
        if instruction == "FMA":
            return flops / (2 * 128 * self.cycles)
        name = {4: "f4", 8: "f8", 16: "f16"}.get(max(bits, 4), "")
        rate = self.rates.tensor.get(name) or self.rates.tensor["f16"] * 16 / max(bits, 16)
        part = self.rates.mma_sync if instruction == "Tensor-core SM80" else 1.0
        return flops / (rate * part) / 1e6

    def _latency(self, place: Place, line: LineWork) -> float:
        """Microseconds for which tile blocks wait for loads that were not started ahead."""
        if not line.waits or not self._waiting.get(place, True):
            return 0.0
        cycles = line.times * self.target.performance.memory_latency
        return self.waves * cycles / self.rates.clock / 1e3


def _instructions(remarks: Sequence[Remark]) -> Iterator[tuple[Place, str]]:
    """The instruction of the products of each line, the slowest where there are several."""
    for remark in remarks:
        if remark.name == "RemarkTensorCoreMMA" and (at := remark.location) is not None:
            yield (at.filename, at.line), dict(remark.arguments)["Instruction"]


def _waiting(remarks: Sequence[Remark]) -> Iterator[tuple[Place, bool]]:
    """Whether the loads of a line are waited for where they stand."""
    for remark in remarks:
        if remark.name == "RemarkMemoryLoadInstructionSelected" and remark.location is not None:
            at, instruction = remark.location, dict(remark.arguments)["Instruction"]
            yield (at.filename, at.line), instruction.startswith("Global-memory")

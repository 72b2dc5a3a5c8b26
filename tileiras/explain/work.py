"""How much each line of a kernel's source does in one tile block: bytes, products, vector work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, Region, SSAValue

from tileiras.codegen.target import Unit
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.dialects.nv_tileaa.views import memref_of
from tileiras.explain.scalars import Scalars
from tileiras.planning.schedule.costs import TileCosts

Place = tuple[str, int]
"""A file and a line of it."""

LOADS = aa.TiledLoadOp | aa.LoadOp
STORES = aa.TiledStoreOp | aa.StoreOp
VECTOR_UNITS = (Unit.FMA, Unit.CONVERT, Unit.MUFU)
"""What arithmetic keeps busy; products and copies are counted in flops and bytes."""


@dataclass
class LineWork:
    """Of a line, in one tile block on average. `cycles`: those of an SM's units.

    `moved` has bytes by tensor (None: through pointers) and by whether they are loaded. `waits`:
    how often a load may have to be waited for. `flops`: of products, by the bits of an operand.
    """

    moved: dict[tuple[Operation | None, bool], float] = field(default_factory=dict)
    flops: dict[int, float] = field(default_factory=dict[int, float])
    cycles: dict[Unit, float] = field(default_factory=dict[Unit, float])
    waits: float = 0
    times: float = 0
    kinds: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def bytes(self) -> float:
        """All that is loaded and stored."""
        return sum(self.moved.values())


@dataclass
class KernelWork:
    """All lines of a kernel; `unknown` are loops of which one iteration is counted."""

    lines: dict[Place, LineWork] = field(default_factory=dict[Place, LineWork])
    unknown: set[Place] = field(default_factory=set[Place])

    def line(self, op: Operation) -> LineWork | None:
        """The line of an operation; None where nobody knows it."""
        place = place_of(op)
        if place is None:
            return None
        return self.lines.setdefault((place.filename, place.line), LineWork())


def measure(func: aa.FuncOp, scalars: Scalars, costs: TileCosts, share: float = 1) -> KernelWork:
    """What one tile block does, times `share`."""
    work = KernelWork()
    _measure_region(func.body, scalars, costs, share, work)
    return work


def _measure_region(
    region: Region, scalars: Scalars, costs: TileCosts, times: float, work: KernelWork
) -> None:
    for block in region.blocks:
        for op in block.ops:
            _measure_op(op, scalars, costs, times, work)


def _measure_op(
    op: Operation, scalars: Scalars, costs: TileCosts, times: float, work: KernelWork
) -> None:
    match op:
        case aa.ForOp():
            trips = scalars.trips(op)
            _note_unknown(op, trips, work)
            lower, step = scalars.value(op.lower_bound), scalars.value(op.step)
            if trips and lower is not None and step is not None:
                # Bounds of inner loops grow with the number of the iteration: that of the middle.
                scalars.assume(op.body.block.args[0], lower + step * (trips // 2))
            inner = times * (1 if trips is None else trips)
            _measure_region(op.body, scalars, costs, inner, work)
        case aa.LoopOp():
            _note_unknown(op, None, work)
            _measure_region(op.body, scalars, costs, times, work)
        case aa.IfOp():
            holds = scalars.value(op.condition)
            for number, region in enumerate(op.regions):
                if holds is None or bool(holds) == (number == 0):
                    _measure_region(region, scalars, costs, times, work)
        case _:
            for result in op.results:
                scalars.value(result)
            _count(op, costs, times, work)


def _note_unknown(op: Operation, trips: int | None, work: KernelWork) -> None:
    place = place_of(op)
    if trips is None and place is not None:
        work.unknown.add((place.filename, place.line))


def _count(op: Operation, costs: TileCosts, times: float, work: KernelWork) -> None:
    """Adds what an operation does to its line."""
    found = list(_parts(op, costs))
    line = work.line(op) if found else None
    if line is None:
        return
    line.times = max(line.times, times)
    for kind, add in found:
        line.kinds[kind] = line.kinds.get(kind, 0) + times
        add(line, times)


def _parts(op: Operation, costs: TileCosts) -> Iterator[tuple[str, _Adder]]:
    """The kinds of work that an operation is, and what each adds to a line."""
    match op:
        case aa.TiledLoadOp() | aa.LoadOp():
            yield "load", _Moves(_tensor(op), True, _bytes(op.result))
        case aa.TiledStoreOp() | aa.StoreOp():
            yield "store", _Moves(_tensor(op), False, _bytes(op.value))
        case aa.TiledAtomicRedOp() | aa.AtomicRMWOp() | aa.AtomicCASOp():
            yield "atomic", _Moves(_tensor(op), False, _bytes(op.operands[0]))
        case aa.DotOp() | aa.DotScaledOp():
            shape, depth = shape_of(op.result), shape_of(op.lhs)[-1]
            bits = storage_bits(element_of(op.rhs))
            yield "product", _Multiplies(bits, 2.0 * prod(shape) * depth)
        case _:
            if isinstance(op, aa.ReduceOp | aa.ScanOp):
                kind = "reduction"
            else:
                kind = "arithmetic"
            uses = [(unit, cycles) for unit, cycles in costs.uses(op) if unit in VECTOR_UNITS]
            if uses and uses[0][1]:
                unit = uses[0][0]
                named = {Unit.CONVERT: "conversion", Unit.MUFU: "special functions"}
                yield named.get(unit, kind), _Computes(unit, uses[0][1])


@dataclass(frozen=True)
class _Moves:
    """Bytes of a tile between memory and the SM."""

    tensor: Operation | None
    is_load: bool
    size: int

    def __call__(self, line: LineWork, times: float) -> None:
        key = (self.tensor, self.is_load)
        line.moved[key] = line.moved.get(key, 0) + self.size * times
        line.waits += times if self.is_load else 0


@dataclass(frozen=True)
class _Multiplies:
    """Flops of a product with operands of so many bits."""

    bits: int
    flops: float

    def __call__(self, line: LineWork, times: float) -> None:
        line.flops[self.bits] = line.flops.get(self.bits, 0) + self.flops * times


@dataclass(frozen=True)
class _Computes:
    """Cycles for which vector work holds a unit of the SM."""

    unit: Unit
    cycles: int

    def __call__(self, line: LineWork, times: float) -> None:
        line.cycles[self.unit] = line.cycles.get(self.unit, 0) + self.cycles * times


_Adder = _Moves | _Multiplies | _Computes


def _tensor(op: Operation) -> Operation | None:
    """What makes the tensor of an access through a view, None through pointers."""
    view = getattr(op, "view", None)
    return memref_of(view) if isinstance(view, SSAValue) else None


def _bytes(value: SSAValue) -> int:
    """Bytes of a tile in memory."""
    if not isinstance(value.type, TensorType):
        return 8
    bits = 64 if isinstance(value.type.element_type, aa.PointerType) else 0
    bits = bits or storage_bits(value.type.element_type)
    return max(1, prod(value.type.get_shape()) * bits // 8)


def tensor_bytes(tensor: Operation, scalars: Scalars) -> float | None:
    """Bytes of a whole tensor, None where its extents are not known."""
    if not isinstance(tensor, aa.MakeMemRefOp):
        return None
    type = tensor.result.type
    if not isinstance(type, aa.MemRefType):
        return None
    sizes = iter(tensor.dynamic_shape)
    extents = [size if size >= 0 else scalars.value(next(sizes)) for size in type.shape]
    if None in extents:
        return None
    return prod(extent or 0 for extent in extents) * storage_bits(type.element_type) / 8

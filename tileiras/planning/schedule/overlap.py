"""Which loops overlap products with the vector work of another iteration, and how.

The stage of every operation of a loop body is chosen, and their order within an interval.

Only products are put off to the interval after their own, with all that follows from them: a
vector operation gains nothing from being late, since a warp issues in order, and its operands
would take registers over the border. So intervals are tried from the shortest that the units allow
up to the length of the body until such a schedule is found and its registers suffice.

Where two products read the same stage (gradients of attention) none is put off: the stage would
have to stay, or to come twice. There, and where nothing fits, operations are put into another order
within their iteration: each product is issued as soon as its operands are there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from xdsl.dialects.builtin import TensorType
from xdsl.ir import BlockArgument, Operation, SSAValue

from tileiras.analysis.register_pressure import held_value
from tileiras.codegen.target import GpuTarget, Unit
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.schedule import REMAINDER, operands_of
from tileiras.dialects.nv_tileaa.tensors import is_zero
from tileiras.planning.model.dots import PlannedDot, WgmmaDot
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.operands.tma import is_for_threads
from tileiras.planning.schedule.costs import TileCosts
from tileiras.planning.schedule.loop_body import LoopBody, Product, is_rotatable
from tileiras.planning.schedule.modulo import Edge, Node, modulo_schedule
from tileiras.planning.schedule.unfinished_products import finishes_at_once

STAGES = 2
"""Policy: a product and what follows it are one interval late; more would take registers."""
MAX_SHARE = 0.95
"""Policy: of the cycles that the body takes serially: less gain is not worth it."""
RESERVED_REGISTERS = 44
"""Policy: registers of a thread for addresses, barriers, scalars and intermediate results."""

RESERVED_WITHIN = 16
"""Policy: the same where products are issued early within their iteration. Gradients of keys and
values, 64x128, count 226 of 240 full and 228 causal, spill 16 and 24 bytes, and take 0.89 and 1.03
of the time.
"""

RESERVED_BESIDE_LATE = 40
"""Policy: the same with a product that is an iteration late. Gradients of keys and values count 224
of 240 then, and spill 100 bytes.
"""

RESERVED_BESIDE_PART = 14
"""Policy: the same where a product's sum stands beside the sum that it is added to.

Three tiles of 64 registers are counted for the whole interval then, though powers become
probabilities, a quarter as large, bit by bit (measured: 218 of 232 do not spill, 220 do).
"""
RESERVED_TO_TRANSPOSE = 22
"""Policy: registers more where consumers transpose tiles themselves (measured: 218 of 254)."""


@dataclass(frozen=True)
class Schedule:
    """The operations of the graph in the order of an interval, with their stages.

    `starts`: the cycle of an interval in which each of them starts. `interval` and `serial` are
    cycles: overlapped, and one operation after the other.
    """

    order: tuple[tuple[Operation, int], ...]
    starts: Mapping[Operation, int]
    interval: int
    serial: int
    registers: int
    late: Operation | None = None
    """A product that is issued an iteration late (`tileas-put-off-products`)."""

    @property
    def stages(self) -> int:
        """How many stages the operations are in."""
        return 1 + max(stage for _, stage in self.order)


def overlap_products(
    func: aa.FuncOp, plan: RolePlan, target: GpuTarget
) -> list[tuple[LoopBody, Schedule | None]]:
    """The loops of a specialised kernel in which products wait for computed operands.

    Each with its schedule, None where none fits or pays. What runs once, if at all, has nothing to
    overlap with.
    """
    found: list[tuple[LoopBody, Schedule | None]] = []
    for loop in [op for op in func.walk() if isinstance(op, aa.ForOp)]:
        if REMAINDER in loop.attributes:
            continue
        here = [p for p in plan.dots.values() if p.dot.parent_op() is loop]
        if all(planned.lhs is not None for planned in here) or not is_rotatable(loop):
            continue
        # What threads read or add themselves is finished where it is issued.
        if any(map(finishes_at_once, here)):
            continue
        products = [_product(planned, loop, plan) for planned in here]
        body = LoopBody(loop, products, TileCosts(plan.threads_of_rows, target))
        schedule = None
        # Products that share a stage stay together.
        if all(len(plan.products_sharing_stages(planned)) == 1 for planned in here):
            schedule = overlapped(body, plan.shape.registers - _reserved(here, plan))
        if schedule is None:
            schedule = reordered(body, plan.shape.registers - RESERVED_WITHIN)
            schedule = schedule and _early_and_late(body, schedule, plan)
            if schedule is None or schedule.late is None:
                schedule = _late_in_order(body, plan) or schedule
        found.append((body, schedule))
    return found


def _late_in_order(body: LoopBody, plan: RolePlan) -> Schedule | None:
    """The order of the program, if its last product may be late and registers suffice.

    Its operand is free again before other products than the first are issued.
    """
    nodes, edges, quantum = body.graph()
    ops = _before_computed_ones(body)
    starts, length = _starts(body, nodes, edges, [body.number[op] for op in ops])
    order = tuple((op, 0) for op in ops)
    needed = registers_needed(body, order)
    # CTAs that share an SM fill each other's gaps.
    if needed > plan.shape.registers - RESERVED_WITHIN or plan.shape.ctas > 1:
        return None
    cycles = {body.ops[number]: start * quantum for number, start in starts.items()}
    late = _late_product(body, order, plan)
    length *= quantum
    return None if late is None else Schedule(order, cycles, length, length, needed, late)


def _before_computed_ones(body: LoopBody) -> list[Operation]:
    """The operations in the order of the program, but products that wait for no computed operand
    stand before the making of that of the product in front of them.

    Products finish in the order in which they are issued. So what reads the sum does not wait for
    the other product, and runs beside it (gradients of keys: 1445 us, without 1617).
    """
    ops = list(body.ops)
    products = [op for op in ops if op in body.products]
    for before, op in pairwise(products):
        first, second = body.products[before], body.products[op]
        if not first.keeps_lhs or second.keeps_lhs:
            continue
        makers = [maker for maker, distance in body.makers(first.dot.lhs) if not distance]
        place = min((ops.index(maker) for maker in makers), default=len(ops))
        needed = [ops.index(maker) for maker, distance in body.reads(op) if not distance]
        if max(needed, default=-1) < place < ops.index(op):
            ops.remove(op)
            ops.insert(place, op)
    return ops


def _early_and_late(body: LoopBody, schedule: Schedule, plan: RolePlan) -> Schedule:
    """Products that are issued early, the last one late if its operand has registers beside all."""
    late = _late_product(body, schedule.order, plan)
    if late is None:
        return schedule
    needed = schedule.registers + body.costs.registers(body.products[late].dot.lhs)
    is_tight = needed > plan.shape.registers - RESERVED_BESIDE_LATE
    return schedule if is_tight else replace(schedule, late=late)


def _late_product(
    body: LoopBody, order: Sequence[tuple[Operation, int]], plan: RolePlan
) -> Operation | None:
    """The last product of an interval, if it may be issued in the next one.

    It reads what an earlier product of the iteration reads, too: consumers keep the stage for it.
    Where threads take as long as products, they have no gaps to fill (gradients of queries, heads
    of 64, 128x64: 569 us, without 549).
    """
    busy = _busy(body.graph()[0])
    if busy.get(Unit.TENSOR_CORE, 0) <= busy.get(Unit.ISSUE, 0):
        return None
    last = next(op for op, _ in reversed(order) if op in body.products)
    planned, product = plan.dots[last], body.products[last]
    is_computed = product.keeps_lhs and planned.fragments is None and planned.is_asynchronous
    if not is_computed or len(plan.products_sharing_stages(planned)) == 1:
        return None
    return last if _only_adds_to_zero(product.dot, body) else None


def _only_adds_to_zero(dot: aa.ProductOp, body: LoopBody) -> bool:
    """Whether a loop only adds a product to what is zero before it."""
    acc, uses = dot.acc, list(dot.result.uses)
    if not isinstance(acc, BlockArgument) or acc.owner is not body.block or len(uses) != 1:
        return False
    position = acc.index - 1
    if position < 0 or len(list(acc.uses)) != 1 or body.yielded[position] is not dot.result:
        return False
    return is_zero(body.loop.init_values[position])


def _reserved(products: Sequence[PlannedDot], plan: RolePlan) -> int:
    """Registers of a thread for other things than tiles."""
    if not any(map(_is_part, products)):
        return RESERVED_REGISTERS
    # Warps of the producer's warpgroup do it for two consumer warpgroups.
    has_idle_warps = plan.shape.producer_warps > 1 and plan.warpgroups > 1
    transposes = any(isinstance(p, WgmmaDot) and p.is_smem_transposed for p in products)
    if transposes and not has_idle_warps:
        return RESERVED_BESIDE_PART + RESERVED_TO_TRANSPOSE
    return RESERVED_BESIDE_PART


def _is_part(planned: PlannedDot) -> bool:
    """Whether threads add the sum of a computed operand to another one (`split-accumulation`)."""
    return planned.lhs is None and planned.starts_at_zero and planned.operand_bits == 8


def _product(planned: PlannedDot, loop: aa.ForOp, plan: RolePlan) -> Product:
    """A product with those of its loads that are in the loop, and what comes to its stage first."""
    operands = [operand for operand in (planned.lhs, planned.rhs) if operand is not None]
    loads = [o.load for o in operands if o.load.parent_op() is loop]
    number = plan.pipeline_of(planned.rhs.load)
    if number is not None and planned is plan.products_sharing_stages(planned)[0]:
        loads += filter(is_for_threads, plan.pipelines[number].content(planned.rhs.load))
    return Product(planned.dot, tuple(loads), planned.lhs is None)


def overlapped(body: LoopBody, registers: int) -> Schedule | None:
    """The schedule with the shortest interval in that many registers; None if it does not pay."""
    nodes, edges, quantum = body.graph()
    serial = _serial_length(nodes, edges)
    for interval in range(_shortest(body, nodes, edges), int(serial * MAX_SHARE) + 1):
        times = modulo_schedule(nodes, edges, interval)
        if times is None:
            continue
        stages = [time // interval for time in times]
        if not _is_delayed_by_products(body, stages, edges):
            continue
        order = _order(body, times, interval, edges)
        needed = registers_needed(body, order)
        if needed <= registers:
            starts = {
                op: time % interval * quantum for op, time in zip(body.ops, times, strict=True)
            }
            return Schedule(order, starts, interval * quantum, serial * quantum, needed)
    return None


def reordered(body: LoopBody, registers: int) -> Schedule | None:
    """The schedule of one stage in which products are issued early and waited for late.

    None if it does not pay, or takes more registers.
    """
    nodes, edges, quantum = body.graph()
    _, serial = _starts(body, nodes, edges, range(len(nodes)))
    order = _order(body, range(len(nodes)), len(nodes) + 1, edges)
    starts, length = _starts(body, nodes, edges, [body.number[op] for op, _ in order])
    needed = registers_needed(body, order)
    if length > serial * MAX_SHARE or needed > registers:
        return None
    cycles = {body.ops[number]: start * quantum for number, start in starts.items()}
    return Schedule(order, cycles, length * quantum, serial * quantum, needed)


def _starts(
    body: LoopBody, nodes: Sequence[Node], edges: Sequence[Edge], order: Sequence[int]
) -> tuple[dict[int, int], int]:
    """When operations start that are issued in an order, and when the last one is over.

    Products are waited for where they are needed, the other operations one after another.
    """
    starts: dict[int, int] = {}
    clock, free = 0, 0
    for number in order:
        into = [e for e in edges if e.target == number and not e.distance and e.source in starts]
        ready = max((starts[e.source] + e.latency for e in into), default=0)
        if body.ops[number] in body.products:
            starts[number] = max(clock, ready, free)
            free = starts[number] + nodes[number].cycles
        else:
            starts[number] = max(clock, ready)
            clock = starts[number] + nodes[number].cycles
    return starts, max(clock, free)


def _shortest(body: LoopBody, nodes: Sequence[Node], edges: Sequence[Edge]) -> int:
    """No interval is shorter than the work of a unit, nor than what must be in the first stage.

    That is all but the products that wait for something, and what follows from them.
    """
    busy = _busy(nodes)
    early: list[tuple[int, int]] = []
    starts: dict[int, int] = {}
    for number, node in enumerate(nodes):
        into = [edge for edge in edges if edge.target == number and not edge.distance]
        is_product = body.ops[number] in body.products
        if any(edge.source not in starts for edge in into) or (is_product and into):
            continue
        starts[number] = max((starts[edge.source] + edge.latency for edge in into), default=0)
        if not is_product:
            early.append((starts[number], node.cycles))
    ends = [start + sum(cycles for other, cycles in early if other >= start) for start, _ in early]
    return max((1, *busy.values(), *ends))


def _busy(nodes: Sequence[Node]) -> dict[Unit, int]:
    """For how long an iteration holds each unit."""
    busy: dict[Unit, int] = {}
    for node in nodes:
        for unit, cycles in node.uses:
            busy[unit] = busy.get(unit, 0) + cycles
    return busy


def _serial_length(nodes: Sequence[Node], edges: Sequence[Edge]) -> int:
    """Cycles of the body where every product is waited for by the operations after it."""
    ends = [0] * len(nodes)
    clock = 0
    for number, node in enumerate(nodes):
        into = [e for e in edges if e.target == number and not e.distance and e.source < number]
        ready = max((ends[e.source] - nodes[e.source].cycles + e.latency for e in into), default=0)
        start = max(clock, ready)
        ends[number] = start + node.cycles
        clock = ends[number]
    return max(ends, default=0)


def _is_delayed_by_products(body: LoopBody, stages: Sequence[int], edges: Sequence[Edge]) -> bool:
    """Whether there are two stages, and products alone begin the second."""
    if set(stages) != set(range(STAGES)):
        return False
    for number, op in enumerate(body.ops):
        before = [e.source for e in edges if e.target == number and not e.distance]
        first = max((stages[source] for source in before), default=0)
        if stages[number] != first and (op not in body.products or not before):
            return False
    return True


def _order(
    body: LoopBody, times: Sequence[int], interval: int, edges: Sequence[Edge]
) -> tuple[tuple[Operation, int], ...]:
    """By time within the interval; products are issued early and waited for late.

    A product is issued as soon as its operands are there. What waits for a product follows the
    operations that do not have to.
    """
    stages = [time // interval for time in times]
    earlier: dict[int, list[int]] = {number: [] for number in range(len(times))}
    for edge in edges:
        # In one interval if the stages make up for the distance.
        if stages[edge.target] + edge.distance == stages[edge.source]:
            earlier[edge.target].append(edge.source)
    products = {number for number, op in enumerate(body.ops) if op in body.products}
    placed: dict[int, None] = {}
    finished: set[int] = set()
    waiting = sorted(range(len(times)), key=lambda n: (times[n] % interval, n))
    while waiting:
        ready = [n for n in waiting if placed.keys() >= set(earlier[n])]
        issued = next((n for n in ready if n in products), None)
        if issued is not None:
            chosen = issued
        else:
            others = [n for n in ready if n not in products]
            running = products - finished
            free = (n for n in others if running.isdisjoint(earlier[n]))
            chosen = next(free, others[0])
            finished.update(products.intersection(earlier[chosen]))
        waiting.remove(chosen)
        placed[chosen] = None
    return tuple((body.ops[n], stages[n]) for n in placed)


def registers_needed(body: LoopBody, order: Sequence[tuple[Operation, int]]) -> int:
    """Registers of a thread for the tiles that are live at the worst point of an interval."""
    position = {op: number for number, (op, _) in enumerate(order)}
    stages = dict(order)
    length = len(order)
    finished = {op: _first_wait(body, op, position, stages) for op in body.products}
    ends: dict[SSAValue, int] = {}
    for op, stage in order:
        product = body.products.get(op)
        for operand in operands_of(op) if product is None else product.registers:
            end = stage * length + position[op]
            if product is not None and operand is not product.dot.acc:
                end = finished[op]
            for value, distance in _held(body, operand):
                ends[value] = max(ends.get(value, 0), end + distance * length)
    outside = sum(
        body.costs.registers(value) for value in ends if value.owner.parent is not body.block
    )
    live = [outside] * length
    for op, stage in order:
        start = stage * length + position[op]
        for result in op.results:
            for time in range(start, max(ends.get(result, start), start + 1)):
                live[time % length] += body.costs.registers(result)
    return max(live, default=0)


def _first_wait(
    body: LoopBody, op: Operation, position: dict[Operation, int], stages: dict[Operation, int]
) -> int:
    """When a product is waited for, counted from the start of its iteration."""
    length = len(position)
    found = (stages[op] + 1) * length + position[op]
    for other in body.ops:
        for maker, distance in body.reads(other):
            if maker is op and other not in body.products:
                found = min(found, (stages[other] + distance) * length + position[other])
    for other in body.overwriters(op):
        found = min(found, (stages[other] + 1) * length + position[other])
    return found


def _held(body: LoopBody, value: SSAValue) -> list[tuple[SSAValue, int]]:
    """The tiles in registers behind an operand, and how many iterations ago they were made."""
    held = held_value(value)
    if held is None or not isinstance(held.type, TensorType):
        return []
    makers = body.makers(held)
    if not makers:
        return [(held, 0)] if held.owner.parent is not body.block else []
    return [(result, distance) for op, distance in makers for result in op.results]

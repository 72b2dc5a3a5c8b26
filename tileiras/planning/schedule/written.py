"""Schedules as attributes of loops and of the operations in them (`nv_tileaa.schedule`), and back.

What `tileas-generate-schedule` decides is written here, what `tileas-expand-schedule` acts on is
read here; neither knows the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import Operation
from xdsl.traits import IsTerminator

from tileiras.codegen.target import Unit
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.schedule import (
    LOOP_SCHEDULE,
    PREFETCH,
    SCHEDULE,
    LoopScheduleAttr,
    OpScheduleAttr,
    PrefetchAttr,
    is_repeatable,
    op_schedule,
)
from tileiras.planning.operands.tma import is_for_threads
from tileiras.planning.schedule.costs import TileCosts
from tileiras.planning.schedule.loop_body import LoopBody
from tileiras.planning.schedule.overlap import Schedule
from tileiras.planning.schedule.prefetch_distance import LoadSchedule
from tileiras.planning.schedule.resident_tiles import ResidentTiles
from tileiras.planning.schedule.serial import SerialSchedule


def write_overlaps(loops: Sequence[tuple[LoopBody, Schedule | None]], ctas: int) -> bool:
    """The schedules of a kernel's loops of products, of which so many CTAs share an SM.

    CTAs that share an SM overlap by themselves, and more than a loop does: fewer are no gain.
    Returns whether there are any.
    """
    found = [(body, schedule) for body, schedule in loops if schedule is not None]
    for body, schedule in found:
        _write_overlap(body, schedule, ctas)
    return bool(found)


def _write_overlap(body: LoopBody, schedule: Schedule, ctas: int) -> None:
    """A schedule of products beside other work; loads go with their products."""
    body.loop.attributes[LOOP_SCHEDULE] = LoopScheduleAttr.of(
        stages=schedule.stages,
        initiation_interval=schedule.interval,
        serial=schedule.serial,
        registers=schedule.registers,
        ctas=ctas,
    )
    order = 0
    # Threads may read theirs before the product that it comes with.
    loads = [load for load in body.loads if isinstance(load, aa.TiledLoadOp)]
    rows = list(filter(is_for_threads, loads))
    for load in rows:
        _place(load, 0, order, Unit.MEMORY, 0)
        order += 1
    for op, stage in schedule.order:
        cycle = schedule.starts[op]
        for load, dot in body.loads.items():
            if dot is op and load not in rows:
                _place(load, stage, order, Unit.MEMORY, cycle)
                order += 1
        _place(op, stage, order, _unit(op, body.costs), cycle, is_late=op is schedule.late)
        order += 1


def write_prefetch(
    loop: aa.ForOp, schedule: LoadSchedule, kept: ResidentTiles | None, costs: TileCosts
) -> None:
    """A schedule of loads that are started in earlier iterations; all else stays as it is."""
    if schedule.unrolled:
        loop.attributes[LOOP_SCHEDULE] = LoopScheduleAttr.of(stages=1, unrolled=schedule.unrolled)
        for order, op in enumerate(_placed(loop, ())):
            _place(op, 0, order, _unit(op, costs), None)
        return
    values = {"stages": schedule.distance + 1}
    if schedule.interval:
        values |= {"initiation_interval": schedule.interval, "serial": schedule.serial}
    loop.attributes[LOOP_SCHEDULE] = LoopScheduleAttr.of(**values)
    loads = {load.op: number for number, load in enumerate(schedule.loads)}
    for op, number in loads.items():
        start = schedule.starts[number] if schedule.starts else None
        _place(op, 0, number, Unit.MEMORY, start)
        prefetch = {"distance": schedule.distance}
        if any(load.op is op for load in schedule.shared):
            prefetch |= {"smem_operand": 1, "ctas": schedule.ctas}
        buffer = kept.buffers.get(op) if kept is not None else None
        if buffer is not None:
            prefetch |= {"resident": buffer.number, "resident_stages": buffer.stages}
        op.attributes[PREFETCH] = PrefetchAttr.of(**prefetch)
    for order, op in enumerate(_placed(loop, loads), len(loads)):
        _place(op, schedule.distance, order, _unit(op, costs), None)


def write_serial(loop: aa.ForOp, schedule: SerialSchedule, costs: TileCosts) -> None:
    """One stage, in the order of the program."""
    loop.attributes[LOOP_SCHEDULE] = LoopScheduleAttr.of(
        stages=1, initiation_interval=schedule.interval, serial=schedule.interval
    )
    for order, (op, start) in enumerate(schedule.starts):
        _place(op, 0, order, _unit(op, costs), start)


def free_stages(loop: aa.ForOp) -> None:
    """Says of a loop with prefetched loads that what follows it has room in their memory."""
    found = loop.attributes[LOOP_SCHEDULE]
    if isinstance(found, LoopScheduleAttr):
        values = dict(found.data) | {"frees_stages": 1}
        loop.attributes[LOOP_SCHEDULE] = LoopScheduleAttr.of(**values)


def read_order(loop: aa.ForOp) -> list[tuple[Operation, int]]:
    """The operations of a scheduled loop in the order of an interval, each with its stage."""
    found: list[tuple[int, Operation, int]] = []
    for op in loop.body.block.ops:
        place = op_schedule(op)
        if place is not None:
            found.append((place.integer("order"), op, place.integer("stage")))
    return [(op, stage) for _, op, stage in sorted(found, key=lambda item: item[0])]


def is_copy(op: Operation) -> bool:
    """Whether an operation is a load that the way to memory does for a product of its stage."""
    place = op_schedule(op)
    loads = aa.TiledLoadOp | aa.LoadOp
    return place is not None and isinstance(op, loads) and place.unit == Unit.MEMORY.value


def _placed(loop: aa.ForOp, apart: Iterable[Operation]) -> list[Operation]:
    """The operations of a loop that have a place in its schedule, without some of them."""
    others = dict.fromkeys(apart)
    return [
        op
        for op in loop.body.block.ops
        if not (is_repeatable(op) or op.has_trait(IsTerminator) or op in others)
    ]


def _unit(op: Operation, costs: TileCosts) -> Unit:
    """The unit that does the work of an operation; warps themselves if none of the table does."""
    uses = costs.uses(op)
    return uses[0][0] if uses else Unit.ISSUE


def _place(
    op: Operation, stage: int, order: int, unit: Unit, cycle: int | None, *, is_late: bool = False
) -> None:
    values: dict[str, int | str] = {"stage": stage, "order": order, "unit": unit.value}
    if cycle is not None:
        values["cycle"] = cycle
    if is_late:
        values["late"] = 1
    op.attributes[SCHEDULE] = OpScheduleAttr.of(**values)

"""How many iterations before its own the loads of a loop are started.

A warp issues in order, so all that is not a load is one operation of a modulo schedule: it starts
where the body begins, and what it reads has to be there. Loads keep the way to memory busy. The
shortest interval comes first; a longer one needs fewer iterations ahead, hence less shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from tileiras.analysis.register_pressure import tensor_words
from tileiras.codegen.target import Unit, Work
from tileiras.dialects import nv_tileaa as aa
from tileiras.planning.hints import USUAL_LATENCY_HINT, latency_hint
from tileiras.planning.schedule.costs import TileCosts
from tileiras.planning.schedule.modulo import Edge, Node, modulo_schedule
from tileiras.planning.schedule.pipelined_loads import PipelinedLoad

MAX_DISTANCE = 4
"""Policy: iterations ahead at most."""
MIN_GAIN = 0.05
"""Policy: of the cycles of an iteration that waits for its loads: less gain is not worth it."""
SATURATION = 2
"""Policy: times the work that tile blocks must have for memory while one of them waits.

Then no SM idles. Twice, for they do not spread evenly, and wait for their reductions as well.
"""
LIGHT = 2
"""Policy: times the work that loads keep memory busy: it does not matter who does it then."""
LIGHT_CTAS, LIGHT_DISTANCE, LEAST_LIGHT_DISTANCE = 4, 3, 2
"""Policy: tile blocks on an SM, and iterations ahead, in such loops.

Sums of the columns of 8192x16384, tiles of 64x128 in 128 tile blocks, us on one H100: f32 285, with
stages 178; f16 175 and 90.
"""
STREAMED_BYTES, STREAMED_DISTANCE = 96 * 1024, 8
"""Policy: bytes on their way, and iterations ahead at most, of a tile block that streams large
tiles: 64 bytes a cycle, which is what an SM takes, for 1500.

A grid may have fewer tile blocks than there are SMs. Sums of the columns of 65536x2048, tiles of
64x128, us on one H200 with 48, 96 and 160 KB: f16 319, 170 and 185.
"""
STREAMED_BYTES_IN_CLUSTERS = 80 * 1024
"""Policy: the same where the CTAs of a cluster divide the loop: two of them find room on an SM, and
one begins or ends while the other one loads."""
CELL_BYTES = 16
"""Fixed: shared memory of a thread is handed out in cells, which one access reads."""


@dataclass(frozen=True)
class LoadSchedule:
    """Which loads are started how many iterations ahead, and the shared memory that it takes.

    `interval` and `serial` are cycles: of an iteration, and of one that waits for its loads.
    `is_cut`: with more shared memory more loads, or more iterations ahead, would be quicker.
    `shared`: of the loads those whose tiles products read where they were copied to; `ctas` tile
    blocks find room on an SM then. `starts`: the cycle of the interval in which each load begins to
    keep memory busy, where a modulo schedule says it. `unrolled`: so many iterations wait for their
    loads together, in registers, instead.
    """

    loads: tuple[PipelinedLoad, ...]
    distance: int
    interval: int
    serial: int
    bytes: int
    is_cut: bool = False
    shared: tuple[PipelinedLoad, ...] = ()
    ctas: int = 1
    starts: tuple[int, ...] = ()
    unrolled: int = 0


@dataclass(frozen=True)
class SmemEstimate:
    """What loads may take: shared memory of a tile block, of which `ctas` share an SM."""

    bytes: int
    ctas: int


def load_latency(load: PipelinedLoad, costs: TileCosts) -> int:
    """Cycles that a load is expected to take; its hint `latency` (1 to 10) knows better."""
    speed, hint = costs.performance, latency_hint(load.op)
    if hint is not None:
        return hint * (speed.memory_latency // USUAL_LATENCY_HINT)
    return speed.l2_latency if load.shared else speed.memory_latency


def stage_bytes(load: PipelinedLoad, threads: int) -> int:
    """Shared memory for one tile: whole cells for every thread."""
    type = load.op.result.type
    words = tensor_words(type) if isinstance(type, TensorType) else 1
    return threads * CELL_BYTES * -(-4 * words // (CELL_BYTES * threads))


def schedule_light_loop(
    loop: aa.ForOp,
    loads: Sequence[PipelinedLoad],
    costs: TileCosts,
    ctas: range,
    smem: Callable[[int], int],
    streamed: int = 0,
    is_alone: bool = False,
) -> LoadSchedule | None:
    """The schedule of a loop that has little to do but load: few tile blocks keep memory as busy.

    So they may have stages enough each, and a grid of few tile blocks keeps it busy, too. None if
    there is more to do, or no room: `smem` says how much each of so many has, of which there may be
    as many on an SM as `ctas` says. With `streamed` one tile block has so many bytes on their way;
    one that `is_alone` on its SM has, whatever it computes.
    """
    work = costs.performance.loop_overhead + sum(
        waited_cycles(op, costs) for op in loop.body.block.ops
    )
    copy = Work.COPY_FROM_MEMORY
    busy = sum(_memory_cycles(load, copy, costs) for load in loads)
    stage = sum(stage_bytes(load, costs.threads) for load in loads)
    if any(isinstance(op, aa.ProductOp) for op in loop.body.block.ops):
        return None
    if LIGHT * work > busy and not is_alone:
        return None
    serial = work + busy + max(load_latency(load, costs) for load in loads)
    wanted, enough = LIGHT_DISTANCE, LEAST_LIGHT_DISTANCE
    if streamed:
        wanted = enough = min(STREAMED_DISTANCE, max(enough, -(-streamed // stage)))
    best = 0
    for count in reversed(range(ctas.start, min(ctas.stop, LIGHT_CTAS + 1))):
        best = min(wanted, smem(count) // stage - 1)
        if best >= enough:
            break
    if best < LEAST_LIGHT_DISTANCE:
        return None
    bytes = (best + 1) * stage
    return LoadSchedule(tuple(loads), best, max(work, busy), serial, bytes)


def schedule_loads(
    loop: aa.ForOp, loads: Sequence[PipelinedLoad], costs: TileCosts, smem: SmemEstimate
) -> LoadSchedule | None:
    """The schedule of the loads for which there is room, None if none pays or fits.

    Where not all fit, those that caches bring are left where they are, then the largest tiles.
    """
    ops = list(loop.body.block.ops)
    work = costs.performance.loop_overhead + sum(waited_cycles(op, costs) for op in ops)
    # Products read what many tile blocks read: it comes from L2.
    has_products = any(isinstance(op, aa.ProductOp) for op in ops)
    copy = Work.COPY_FROM_L2 if has_products else Work.COPY_FROM_MEMORY
    busy = {load.op: _memory_cycles(load, copy, costs) for load in loads}
    serial = work + sum(busy.values()) + max(load_latency(load, costs) for load in loads)
    if smem.ctas * sum(busy.values()) >= SATURATION * serial:
        return None
    resident = list(loads)
    while resident:
        chosen = [(load, busy[load.op], load_latency(load, costs)) for load in resident]
        # What is left where it is will be waited for in every iteration.
        left = max((load_latency(load, costs) for load in loads if load not in resident), default=0)
        if left >= max(load_latency(load, costs) for load in resident):
            return None
        found = _schedule(chosen, work + left, serial, costs.threads, smem.bytes)
        if found is not None:
            if found.interval > (1 - MIN_GAIN) * serial:
                return None
            return replace(found, is_cut=found.is_cut or len(resident) < len(loads))
        resident.remove(
            max(resident, key=lambda load: (load.shared, tensor_words(load.op.result.type)))
        )
    return None


def deepened(
    schedule: LoadSchedule, wanted: int, smem: int, threads: int, most: int = MAX_DISTANCE
) -> LoadSchedule:
    """The schedule with so many bytes on their way, as far as there is room; `most` iterations."""
    stage = sum(stage_bytes(load, threads) for load in schedule.loads)
    most = min(most, -(-wanted // stage), smem // stage - 1)
    if most <= schedule.distance:
        return schedule
    return replace(schedule, distance=most, bytes=(most + 1) * stage)


Timed = Sequence[tuple[PipelinedLoad, int, int]]
"""Loads, the cycles for which each keeps the way to memory busy, and those that it takes."""


def _schedule(timed: Timed, work: int, serial: int, threads: int, smem: int) -> LoadSchedule | None:
    """The shortest interval in which the loads fit."""
    loads = tuple(load for load, _, _ in timed)
    longest = max(latency for _, _, latency in timed)
    shortest = max(work, sum(cycles for _, cycles, _ in timed))
    stage = sum(stage_bytes(load, threads) for load in loads)
    is_cut = False
    for rounds in range(min(MAX_DISTANCE, -(-longest // shortest)), 0, -1):
        interval = max(shortest, -(-longest // rounds))
        times = _start_times(timed, work, interval)
        if times is None:
            continue
        distance = times[-1] // interval - min(times[:-1]) // interval
        if distance > MAX_DISTANCE:
            continue
        if (distance + 1) * stage <= smem:
            bytes, starts = (distance + 1) * stage, tuple(time % interval for time in times[:-1])
            return LoadSchedule(loads, distance, interval, serial, bytes, is_cut, starts=starts)
        is_cut = True
    return None


def _start_times(timed: Timed, work: int, interval: int) -> tuple[int, ...] | None:
    """When the loads and, last, the work start, by modulo scheduling.

    Loads are issued where an iteration begins: a latency ends with an interval.
    """
    copies = [Node(((Unit.MEMORY, cycles),)) for _, cycles, _ in timed]
    nodes = [*copies, Node(((Unit.ISSUE, work),))]
    edges = [
        Edge(number, len(timed), -(-latency // interval) * interval, 0)
        for number, (_, _, latency) in enumerate(timed)
    ]
    return modulo_schedule(nodes, edges, interval)


def _memory_cycles(load: PipelinedLoad, copy: Work, costs: TileCosts) -> int:
    """Cycles that the way to memory is busy; what caches bring takes none."""
    if load.shared:
        return 0
    return costs.performance.cycles(copy, 4 * tensor_words(load.op.result.type), Unit.MEMORY)


def waited_cycles(op: Operation, costs: TileCosts) -> int:
    """Cycles that one tile block alone takes for an operation, those within it included."""
    match op:
        case aa.DotOp() | aa.DotScaledOp():
            return costs.waited_product(op)
        case aa.ReduceOp() | aa.ScanOp():
            return costs.issue_cycles(op) + costs.performance.combine_latency
        case aa.ForOp() | aa.LoopOp():
            inside = sum(waited_cycles(inner, costs) for inner in op.body.block.ops)
            return costs.performance.memory_latency + inside
        case aa.IfOp():
            return max(
                sum(waited_cycles(inner, costs) for block in region.blocks for inner in block.ops)
                for region in op.regions
            )
        case _:
            return costs.issue_cycles(op)

"""The serial schedule: one stage, every operation after the one before it, as the program says."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation
from xdsl.traits import IsTerminator

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.schedule import is_repeatable
from tileiras.planning.schedule.costs import TileCosts
from tileiras.planning.schedule.prefetch_distance import waited_cycles


@dataclass(frozen=True)
class SerialSchedule:
    """The operations of a loop with the cycle in which each starts; `interval` is their sum."""

    starts: tuple[tuple[Operation, int], ...]
    interval: int


def serial_schedule(loop: aa.ForOp, costs: TileCosts) -> SerialSchedule:
    """The schedule of any loop. Loads wait for memory, products for the tensor cores."""
    starts: list[tuple[Operation, int]] = []
    clock = 0
    for op in loop.body.block.ops:
        if is_repeatable(op) or op.has_trait(IsTerminator):
            continue
        starts.append((op, clock))
        clock += waited_cycles(op, costs)
        if isinstance(op, aa.TiledLoadOp | aa.LoadOp):
            clock += costs.performance.memory_latency
    return SerialSchedule(tuple(starts), clock + costs.performance.loop_overhead)

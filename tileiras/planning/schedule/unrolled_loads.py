"""Loops whose loads are said to be quick: several iterations wait for them together.

The author's hint `latency` below the usual one says that other tile blocks keep memory busy. Then
stages in shared memory, which leave an SM fewer tile blocks, cost more than they bring, above all
where a row is one tile and the loop has one iteration. Registers hold the tiles of a few
iterations; a loop of fewer runs as it is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.analysis.register_pressure import tensor_words
from tileiras.dialects import nv_tileaa as aa
from tileiras.planning.hints import USUAL_LATENCY_HINT, forbids_unrolling, latency_hint
from tileiras.planning.schedule.costs import TileCosts
from tileiras.planning.schedule.pipelined_loads import PipelinedLoad
from tileiras.planning.schedule.prefetch_distance import LoadSchedule, waited_cycles

MOST_ITERATIONS = 8
"""Policy: iterations at a time."""
MOST_WORDS = 64
"""Policy: registers of a thread for the tiles of so many."""


def is_quick(load: PipelinedLoad) -> bool:
    """Whether a hint says that a load takes less time than most do."""
    hint = latency_hint(load.op)
    return hint is not None and hint < USUAL_LATENCY_HINT


def can_unroll(loop: aa.ForOp) -> bool:
    """Whether the loop counts by one, and its body is straight code without products."""
    step = loop.step.owner
    if not isinstance(step, aa.ConstantOp):
        return False
    if int.from_bytes(step.value.raw.data, "little") != 1:
        return False
    ops = list(loop.body.block.ops)
    if any(isinstance(op, aa.ProductOp) for op in ops):
        return False
    plain = all(not op.regions or isinstance(op, aa.ReduceOp | aa.ScanOp) for op in ops)
    return plain and isinstance(ops[-1], aa.ContinueOp)


def schedule_unrolled(
    loop: aa.ForOp, loads: Sequence[PipelinedLoad], costs: TileCosts
) -> LoadSchedule | None:
    """The iterations whose loads are waited for together; None if there is no gain or no room."""
    if not all(is_quick(load) for load in loads) or not can_unroll(loop):
        return None
    if any(forbids_unrolling(op) for op in loop.body.block.ops):
        return None
    work = sum(waited_cycles(op, costs) for op in loop.body.block.ops)
    if work > costs.performance.memory_latency:
        return None
    words = sum(-(-tensor_words(load.op.result.type) // costs.threads) for load in loads)
    count = MOST_ITERATIONS
    while count > 1 and count * words > MOST_WORDS:
        count //= 2
    if count == 1:
        return None
    return LoadSchedule(tuple(loads), 0, 0, 0, 0, unrolled=count)

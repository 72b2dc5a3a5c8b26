"""Loops whose loads are said to be quick: several iterations wait for them together.

The author's hint `latency` below the usual one says that other tile blocks keep memory busy. Then
stages in shared memory, which leave an SM fewer tile blocks, cost more than they bring, above all
where a row is one tile and the loop has one iteration. Registers hold the tiles of a few
iterations; a loop of fewer runs as it is written. Loops that load few bytes an iteration keep what
they have: there the registers of unrolled code cost more.

RMS norm on one H200, us (tile in bytes; the threshold is between the two parts):

    rows, tile                   main   unrolled   NVIDIA's
    f32 65536x2048 of 2048, 8 KB  380.7   264.6     270.9
    f32 65536x4096 of 2048, 8 KB  674.5   539.2     528.9
    f32 65536x4096 of 4096, 16 KB 726.7   538.6     543.5

    f32 65536x1024 of 512, 2 KB   129.9   151.9     199.5
    f16 65536x4096 of 1024, 2 KB  318.9   282.5     319.8
    f16 65536x1024 of 1024, 2 KB   71.5   126.6     170.6
    bf16 65536x2048 of 1024, 2 KB 130.7   180.7     241.6

On one H100, four iterations:

    f32 65536x1024 of 1024, 4 KB  265.0   198.2     184.2
    f32 1000x4000 of 1024, 4 KB    11.9     8.5       9.1
    f32 8192x8192 of 1024, 4 KB   239.2   231.0     276.0
    f32 128x65536 of 1024, 4 KB    41.8    46.2     120.4
    f16 65536x2048 of 2048, 4 KB  192.2   194.9     194.6
    f16 8192x16384 of 2048, 4 KB  293.9   232.4     265.3
"""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.analysis.register_pressure import tensor_words
from tileiras.dialects import nv_tileaa as aa
from tileiras.planning.hints import USUAL_LATENCY_HINT, forbids_unrolling, latency_hint
from tileiras.planning.schedule.costs import TileCosts
from tileiras.planning.schedule.pipelined_loads import PipelinedLoad
from tileiras.planning.schedule.prefetch_distance import (
    LoadSchedule,
    stage_bytes,
    waited_cycles,
)

MOST_ITERATIONS = 8
"""Policy: iterations at a time."""
FEW_ITERATIONS = 4
"""Policy: the same where an iteration loads less than `MANY_BYTES`: tile blocks of few registers
find more room."""
MOST_WORDS = 64
"""Policy: registers of a thread for the tiles of so many."""
LEAST_BYTES, MANY_BYTES = 4096, 8192
"""Policy: what an iteration loads, beside what caches bring."""


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


def waits_in_registers(loop: aa.ForOp, loads: Sequence[PipelinedLoad], costs: TileCosts) -> bool:
    """Whether a loop's tiles stay in registers only: its loads are quick, and large enough."""
    if not all(is_quick(load) for load in loads) or not can_unroll(loop):
        return False
    if any(forbids_unrolling(op) for op in loop.body.block.ops):
        return False
    if sum(waited_cycles(op, costs) for op in loop.body.block.ops) > (
        costs.performance.memory_latency
    ):
        return False
    return _streamed_bytes(loads, costs) >= LEAST_BYTES


def _streamed_bytes(loads: Sequence[PipelinedLoad], costs: TileCosts) -> int:
    """What an iteration loads from memory."""
    return sum(stage_bytes(load, costs.threads) for load in loads if not load.shared)


def schedule_unrolled(loads: Sequence[PipelinedLoad], costs: TileCosts) -> LoadSchedule | None:
    """The iterations whose loads are waited for together; None if there is room for one only."""
    words = sum(-(-tensor_words(load.op.result.type) // costs.threads) for load in loads)
    count = MOST_ITERATIONS if _streamed_bytes(loads, costs) >= MANY_BYTES else FEW_ITERATIONS
    while count > 1 and count * words > MOST_WORDS:
        count //= 2
    if count == 1:
        return None
    return LoadSchedule(tuple(loads), 0, 0, 0, 0, unrolled=count)

"""An example of every operation of `cutlass`."""

from __future__ import annotations

from tests.kernels.cute_operations import INT
from tests.kernels.cute_operations import row as cute_row


def row(name: str, operands: list[str], result: str) -> tuple[str, ...]:
    """As in `cute`, with the dialect's name."""
    return cute_row(f"cutlass.{name}", operands, result)


PIPELINE = "!cutlass.pipeline<tma_async, 4, 8192, (1,8)>"
STORES = "!cutlass.pipeline<tma_store, 2, 0, (1,1)>"
PRODUCER = "!cutlass.pipeline_state<4, producer>"
CONSUMER = "!cutlass.pipeline_state<4, consumer>"
STORAGE = "!cute.tensor<i64, smem, align<8>, 8:1>"
BARRIER = "!cute.ptr<i64, smem, align<8>>"
SCHEDULER = "!cutlass.tile_scheduler<16, n>"
COUNTER = "!cute.ptr<i32, gmem, align<4>>"
ANSWERS = "!cute.tensor<i32, smem, align<16>, (4,4):(1,4)>"
WORKS = "!cutlass.pipeline<clc, 4, 16, (1,3)>"
SEQUENCE = "!cutlass.sequence_barrier<2, 3, 128>"
ROUNDS = "!cutlass.pipeline_state<2, consumer>"

EXAMPLES: tuple[tuple[str, ...], ...] = (
    row("make_pipeline", [STORAGE], PIPELINE),
    row("make_pipeline", [], STORES),
    row("make_pipeline", [STORAGE], PIPELINE.replace("tma_async", "tma_umma_2sm")),
    row("make_pipeline", [STORAGE], "!cutlass.pipeline<umma_async_2sm, 4, 0, (1,8)>"),
    row("make_pipeline", [STORAGE], "!cutlass.pipeline<clc, 4, 16, (1,8)>"),
    row("pipeline_init_wait", [], ""),
    row("make_pipeline_state", [], PRODUCER),
    row("advance", [PRODUCER], PRODUCER),
    row("state_index", [CONSUMER], INT("?")),
    row("state_phase", [CONSUMER], INT("?")),
    row("state_count", [CONSUMER], INT("?")),
    row("producer_acquire", [PIPELINE, PRODUCER], ""),
    row("producer_acquire", [PIPELINE, PRODUCER, "!cute.bool<?>"], ""),
    row("producer_try_acquire", [PIPELINE, PRODUCER], "!cute.bool<?>"),
    row("producer_commit", [PIPELINE, PRODUCER], ""),
    row("producer_tail", [PIPELINE, PRODUCER], ""),
    row("producer_get_barrier", [PIPELINE, PRODUCER], BARRIER),
    row("consumer_wait", [PIPELINE, CONSUMER], ""),
    row("consumer_wait", [PIPELINE, CONSUMER, "!cute.bool<?>"], ""),
    row("consumer_try_wait", [PIPELINE, CONSUMER], "!cute.bool<?>"),
    row("consumer_release", [PIPELINE, CONSUMER], ""),
    row("consumer_release", [PIPELINE, CONSUMER, INT(1)], ""),
    row("consumer_get_barrier", [PIPELINE, CONSUMER], BARRIER),
    row("make_tile_scheduler", ["!cute.shape<(?,?,1)>"], SCHEDULER),
    row("initial_work", [SCHEDULER], INT("?")),
    row("work_step", [SCHEDULER], INT("?")),
    row("fetch_next_work", [SCHEDULER, COUNTER], INT("?")),
    row("request_next_work", [WORKS, PRODUCER, ANSWERS], ""),
    row("get_next_work", [SCHEDULER, WORKS, CONSUMER, ANSWERS], INT("?")),
    row("is_valid_work", [SCHEDULER, INT("?")], "!cute.bool<?>"),
    row("work_count", [SCHEDULER], INT("?")),
    row("get_current_work", [SCHEDULER, INT("?")], "!cute.coord<(?,?,?)>"),
    row("make_sequence_barrier", [STORAGE.replace("8:1", "6:1")], SEQUENCE),
    row("sequence_wait", [SEQUENCE, INT(0), ROUNDS], ""),
    row("sequence_arrive", [SEQUENCE, INT("?"), ROUNDS], ""),
)
"""(operation, operands' types, result's type, static parameters)."""

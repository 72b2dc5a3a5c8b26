"""Tile schedulers: a CTA computes tile after tile. A loop over its work is

    %s = cutlass.make_tile_scheduler(%tiles) -> !cutlass.tile_scheduler<16, n>
    %first = cutlass.initial_work(%s)
    %end = cutlass.work_count(%s)
    %step = cutlass.work_step(%s)
    cute.for %w = %first to %end step %step {
      %tile = cutlass.get_current_work(%s, %w)

which is static: work is w, w + gridDim, .. A dynamic one takes what is left when it is done,

    %begin = cutlass.is_valid_work(%s, %first)
    %end, %last = cute.while carries (%more = %begin, %w = %first) {
      ..
      %next = cutlass.fetch_next_work(%s, %counter)
      %valid = cutlass.is_valid_work(%s, %next)
      cute.yield(%valid, %next)

where one thread fetches, and tells the others through shared memory.

Where the grid has a CTA for each tile, one that has started can take over others that have not
(ClcDynamicPersistentTileScheduler): a producer requests work ahead, each consumer waits for it,

    %p = cutlass.make_pipeline(%bars) -> !cutlass.pipeline<clc, 2, 16, (1,6)>
    cutlass.request_next_work(%p, %ahead, %answers)
    ..
    cutlass.consumer_wait(%p, %state)
    %next = cutlass.get_next_work(%s, %p, %state, %answers)
    cutlass.consumer_release(%p, %state)

In a cluster the producers of all CTAs request, the first CTA's asks, and work is that of a cluster:
the first one is `cluster_idx<0>`.

With groups of S tiles along M, raster n, work w is tile (w mod S + S * (w / (S N)), w / S mod N).
The last group may reach beyond M: such tiles are nobody's, and copies by TMA leave them out.
"""

from __future__ import annotations

from dataclasses import replace

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.leaves import Leaf
from tileiras.dialects.cute.operation import CuteOp
from tileiras.dialects.cute.values import PointerInfo, Tensor
from tileiras.dialects.cute_nvgpu.launch_control import check_answers
from tileiras.dialects.cutlass.pipelines import check_state
from tileiras.dialects.cutlass.rows import effect, row
from tileiras.dialects.cutlass.values import UNKNOWN_LEAF, Pipeline, PipelineState, TileScheduler

RANK = 3


def _make(written: TileScheduler, tiles: object) -> TileScheduler:
    is_flat = isinstance(tiles, tuple) and not any(isinstance(part, tuple) for part in tiles)
    if not isinstance(tiles, tuple) or not is_flat or len(tiles) != RANK:
        raise AlgebraError(f"tiles are (M,N,L), found {tiles}")
    return replace(written, tiles=tiles)


def _fetch(scheduler: TileScheduler, counter: PointerInfo) -> Leaf:
    if (counter.element, counter.space) != ("i32", "gmem"):
        raise AlgebraError(
            f"the counter is an i32 in gmem, found {counter.element} in {counter.space}"
        )
    return UNKNOWN_LEAF


def _request(pipeline: Pipeline, state: PipelineState, answers: Tensor) -> None:
    _for_work(pipeline, answers)
    check_state(pipeline, state, "producer")


def _for_work(pipeline: Pipeline, answers: Tensor) -> None:
    if pipeline.kind != "clc":
        raise AlgebraError(f"work is requested through a pipeline clc, found {pipeline.kind}")
    check_answers(answers, pipeline.stages)


def _next(
    scheduler: TileScheduler, pipeline: Pipeline, state: PipelineState, answers: Tensor
) -> Leaf:
    _for_work(pipeline, answers)
    check_state(pipeline, state, "consumer")
    return UNKNOWN_LEAF


def _is_valid(scheduler: TileScheduler, work: Leaf) -> Leaf | bool:
    count = work_count(scheduler)
    if isinstance(count, int) and isinstance(work, int):
        return work < count
    return UNKNOWN_LEAF


def _work(scheduler: TileScheduler) -> Leaf:
    """A number of the launch."""
    return UNKNOWN_LEAF


def work_count(scheduler: TileScheduler) -> Leaf:
    """All tiles, those included that fill up the last group."""
    m, n, batches = scheduler.tiles
    if not (isinstance(m, int) and isinstance(n, int) and isinstance(batches, int)):
        return UNKNOWN_LEAF
    across, along = (n, m) if scheduler.raster == "m" else (m, n)
    size = scheduler.swizzle
    return -(-across // size) * size * along * batches


def tile_of(scheduler: TileScheduler, work: Leaf) -> tuple[Leaf, ...]:
    """(m, n, l) of a work's number; `?` where that is of run time."""
    m, n, _ = scheduler.tiles
    if not (isinstance(m, int) and isinstance(n, int) and isinstance(work, int)):
        return (UNKNOWN_LEAF,) * RANK
    across, along = (n, m) if scheduler.raster == "m" else (m, n)
    size = scheduler.swizzle
    groups = -(-across // size)
    rest, inside = divmod(work, size)
    rest, place = divmod(rest, along)
    batch, group = divmod(rest, groups)
    beside = inside + size * group
    return (place, beside, batch) if scheduler.raster == "m" else (beside, place, batch)


OPERATIONS: tuple[type[CuteOp], ...] = (
    row(
        "make_tile_scheduler",
        "shape -> scheduler",
        _make,
        "The tiles of a problem, in groups: `make_tile_scheduler((M,N,L))`.",
        given=True,
    ),
    effect(
        "initial_work",
        "scheduler -> int",
        _work,
        "The first work of this CTA: `initial_work(s) = blockIdx.x`.",
    ),
    effect(
        "work_step",
        "scheduler -> int",
        _work,
        "From one work of a CTA to its next: `work_step(s) = gridDim.x`.",
    ),
    effect(
        "fetch_next_work",
        "scheduler, ptr -> int",
        _fetch,
        "Work that no CTA has, by a counter that is 0 before the launch: "
        "`fetch(s, p) = gridDim.x + p[0], p[0] := p[0] + 1`.",
    ),
    effect(
        "request_next_work",
        "pipeline, state, tensor",
        _request,
        "Asks for a cluster that has not started, when its stage is empty: "
        "`A(stage) := next cluster, or none`.",
    ),
    effect(
        "get_next_work",
        "scheduler, pipeline, state, tensor -> int",
        _next,
        "The work of a cluster that was taken over, `work_count(s)` if there was none: "
        "`next(s, A) = x of A(stage) / CTAs of a cluster along x`.",
    ),
    row(
        "is_valid_work",
        "scheduler, int -> bool",
        _is_valid,
        "Whether there is such work: `is_valid(s, w) = w < work_count(s)`.",
    ),
    row(
        "work_count",
        "scheduler -> int",
        work_count,
        "How much work there is: `work_count(s) = M * N * L`, M or N in whole groups.",
    ),
    row(
        "get_current_work",
        "scheduler, int -> coord",
        tile_of,
        "The tile of a work: `get_current_work(s, w) = (m, n, l)`.",
    ),
)
"""The operations of this chapter."""

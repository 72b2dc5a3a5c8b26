"""How many stages pipelines would get, as far as that is known before consumers are placed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.exchange import CELL_BYTES
from tileiras.dialects.nv_tileaa.storage import value_bytes
from tileiras.dialects.nv_tileaa.views import memref_of
from tileiras.planning.hints import USUAL_LATENCY_HINT, latency_hint
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.model.pipelines import Pipeline
from tileiras.planning.operands.tma import OperandLoad, is_by_tma, place_bytes
from tileiras.planning.operands.tma_stores import own_store_bytes
from tileiras.planning.resources.cta import (
    FIXED_BYTES,
    LEAST_SCRATCH,
    STAGE_BARRIER_BYTES,
    WARP_THREADS,
    PipelineRequirements,
    most_stages,
    shared_bytes,
    stages_of_pipelines,
)
from tileiras.planning.resources.requirements import pipeline_requirements

UNLIMITED_BYTES = 2**31
"""Policy: more than all pipelines could use."""
BARRIER_BYTES = 384
"""Fixed: shared memory of a CTA for mbarriers, a pointer to the tensor maps, and gaps."""
STORE_BARRIER_BYTES = 128
"""Fixed: shared memory for the mbarriers of a store warp's first buffers and tensor maps."""
GAP_BYTES = 128
"""Fixed: for other mbarriers, a pointer to the tensor maps, and gaps."""
MAP_BYTES = 128
"""Fixed: a tensor map in shared memory."""
MOST_SCRATCH = 16 * 1024
"""Policy: larger layout changes are done in rounds, for the pipelines' sake."""


def extra_stages(pipeline: Pipeline) -> int:
    """Stages for the latency that hints promise beyond the usual one."""
    latency = max((latency_hint(load) or USUAL_LATENCY_HINT for load in pipeline.loads), default=0)
    return max(0, -(-(latency - USUAL_LATENCY_HINT) // USUAL_LATENCY_HINT))


def pipeline_smem(plan: RolePlan, target: GpuTarget) -> int:
    """Shared memory for the pipelines of a plan whose consumers are not placed yet."""
    return shared_bytes(plan.shape, target) - FIXED_BYTES - max(LEAST_SCRATCH, plan.scratch)


def has_spare_stages(plan: RolePlan, target: GpuTarget) -> bool:
    """Whether every pipeline that would use more stages than must be held at once gets some."""
    pipelines = pipeline_requirements(plan.pipelines, list(plan.dots.values()))
    stages = stages_of_pipelines(pipelines, pipeline_smem(plan, target))
    if stages is None:
        return False
    pairs = zip(pipelines, stages, strict=True)
    return all(count > pipeline.least for pipeline, count in pairs if pipeline.may_grow)


def fewest_stages(plan: RolePlan, target: GpuTarget) -> int:
    """The stages of the pipeline that has the fewest.

    Each is taken for the only one, as are those in one memory; 0 if one does not fit.
    """
    counts: list[int] = []
    for pipeline in plan.pipelines:
        own = pipeline_requirements([replace(pipeline, within=None)], list(plan.dots.values()))
        counts += stages_of_pipelines(own, pipeline_smem(plan, target)) or (0,)
    return min(counts, default=0)


def keeps_two_stages(func: aa.FuncOp, plan: RolePlan, target: GpuTarget) -> bool:
    """Whether a tile of every pipeline that loops fill may come while another one is read, beside
    the buffers of stores.
    """
    pipelines = pipeline_requirements(plan.pipelines, list(plan.dots.values()))
    room = pipeline_smem(plan, target) - own_store_bytes(func, plan, plan.stores)
    stages = stages_of_pipelines(pipelines, room)
    if stages is None:
        return False
    pairs = zip(pipelines, stages, strict=True)
    return all(count > 1 for pipeline, count in pairs if pipeline.may_grow)


def has_more_stages_without(plan: RolePlan, load: OperandLoad, target: GpuTarget) -> bool:
    """Whether the pipeline that brings a tile would have more stages if the tile did not come."""
    number = plan.pipeline_of(load)
    if number is None:
        return False
    counts: list[int] = []
    for absent in (0, place_bytes(load)):
        [pipeline] = pipeline_requirements([plan.pipelines[number]], list(plan.dots.values()))
        skipped = 0 if absent else pipeline.skipped_bytes
        smaller = replace(
            pipeline, stage_bytes=pipeline.stage_bytes - absent, skipped_bytes=skipped
        )
        stages = stages_of_pipelines([smaller], pipeline_smem(plan, target))
        counts += stages or (0,)
    return counts[1] > counts[0]


def fixed_bytes(
    pipelines: Iterable[PipelineRequirements],
    maps: int,
    has_store_warp: bool,
    available: int = UNLIMITED_BYTES,
) -> int:
    """Shared memory for mbarriers, for making `maps` tensor maps, and for handing a scalar on.

    No pipeline has more stages than fit what is `available`.
    """
    stages = sum(min(most_stages(one), available // one.stage_bytes) for one in pipelines)
    barriers = max(BARRIER_BYTES, GAP_BYTES + STAGE_BARRIER_BYTES * stages)
    barriers += STORE_BARRIER_BYTES if has_store_warp else 0
    return max(FIXED_BYTES, barriers + maps * MAP_BYTES)


def has_room(func: aa.FuncOp, plan: RolePlan, target: GpuTarget) -> bool:
    """Whether the least stages fit shared memory, whatever else the kernel turns out to need.

    With as many tensor maps as there may be, buffers of their own for stores by TMA, and what a
    cluster sends beside the pipelines if it is more than the largest of them holds.
    """
    dots = list(plan.dots.values())
    pipelines = pipeline_requirements(
        [replace(pipeline, within=None) for pipeline in plan.pipelines], dots
    )
    pairs = zip(pipelines, plan.pipelines, strict=True)
    own = [pipeline for pipeline, planned in pairs if planned.within is None]
    room = shared_bytes(plan.shape, target) - plan.smem_transpose - max(LEAST_SCRATCH, plan.scratch)
    room -= fixed_bytes(pipelines, _most_maps(func, plan), plan.has_store_warp)
    room -= own_store_bytes(func, plan, plan.stores) + _row_bytes(plan)
    stages = stages_of_pipelines(own, room)
    if stages is None:
        return False
    if func.cluster_size == 1:
        return True
    largest = max(pipeline.stage_bytes * count for pipeline, count in zip(own, stages, strict=True))
    sent = [_most_sent(op, plan, func) for op in func.walk() if isinstance(op, aa.ShareTilesOp)]
    room -= sum(size for size in sent if size + MOST_SCRATCH > largest)
    return stages_of_pipelines(own, room) is not None


def _row_bytes(plan: RolePlan) -> int:
    """Shared memory for tiles that leave row by row."""
    if not plan.row_stores:
        return 0
    from tileiras.planning.operands.row_stores import staged_bytes

    return staged_bytes(plan)


def _most_maps(func: aa.FuncOp, plan: RolePlan) -> int:
    """Tensor maps of loads and stores: of loads that CTAs share there may be one for each box."""
    loads = {
        (memref_of(load.view).result, load.view.type)
        for pipeline in plan.pipelines
        for load in pipeline.loads
        if isinstance(load, aa.TiledLoadOp) and is_by_tma(load)
    }
    stores = {store.view for store in plan.stores}
    return len(loads) * min(2, func.cluster_size) + len(stores)


def _most_sent(op: aa.ShareTilesOp, plan: RolePlan, func: aa.FuncOp) -> int:
    """Shared memory for tiles that a cluster sends to one CTA, spread over all its threads."""
    threads = plan.shape.consumer_warps * WARP_THREADS
    cells = sum(-(-value_bytes(tile) // (CELL_BYTES * threads)) for tile in op.tiles)
    return cells * CELL_BYTES * threads * func.cluster_size

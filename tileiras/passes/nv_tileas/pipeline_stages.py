"""How many stages pipelines get: what is left beside the consumers' other shared memory.

Decided when the consumers' program is written, so that what it needs is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Block, SSAValue

from tileiras.codegen.atoms.store_pieces import store_bytes
from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import tma_stores as ts
from tileiras.dialects.nv_tileas.plan import PLAN, KernelPlanAttr, PipelinePlanAttr
from tileiras.errors import CompileError, InternalError
from tileiras.passes.nv_tileas.consumer_memory import (
    least_scratch_bytes,
    most_held,
    row_bytes,
    sent_beside,
    wanted_scratch_bytes,
)
from tileiras.passes.nv_tileas.store_buffers import (
    choose_store_buffers,
    hold_tiles,
    piece_rows,
    place_tma_stores,
    stores_before_the_end,
)
from tileiras.planning.resources.cta import (
    LEAST_SCRATCH,
    MOST_PIPELINE_BYTES,
    PipelineRequirements,
    stages_of_pipelines,
)
from tileiras.planning.resources.stages import MOST_SCRATCH, UNLIMITED_BYTES, fixed_bytes

PASS_NAME = "tileas-optimize-alloc-tensor"


@dataclass(frozen=True)
class PlannedPipeline:
    """A pipeline with what was planned for it; `requirements` is that with its least stages."""

    op: pl.CreatePipelineOp
    requirements: PipelineRequirements

    @property
    def storage(self) -> SSAValue | None:
        """The pipeline in whose memory it lies."""
        return self.op.storage

    @classmethod
    def of(cls, op: pl.CreatePipelineOp, switch: pl.AgentSwitchOp) -> PlannedPipeline:
        """Raises CompileError where nothing was planned."""
        plan = op.attributes.get(PLAN)
        if not isinstance(plan, PipelinePlanAttr):
            raise CompileError(
                f"a pipeline is not planned: {PASS_NAME} comes after tileas-plan-cta", place_of(op)
            )
        # Of rows threads read little, each warp for itself.
        rows = plan.integer("rows")
        requirements = PipelineRequirements(
            op.stage_bytes.data,
            plan.integer("least"),
            bool(plan.integer("may_grow")),
            (op.consumers.data == switch.consumer_warps.data and not rows)
            or op.gather_threads.data > 0,
            op.shared is not None,
            plan.integer("prefetch"),
            plan.integer("skipped"),
            rows=rows,
        )
        return cls(op, requirements)


@dataclass(frozen=True)
class PlannedKernel:
    """A kernel whose warps have roles, with what was planned for it."""

    func: aa.FuncOp
    switch: pl.AgentSwitchOp
    plan: KernelPlanAttr
    pipelines: tuple[PlannedPipeline, ...]
    available: int
    """Shared memory that each CTA may have."""

    @classmethod
    def of(
        cls, func: aa.FuncOp, switch: pl.AgentSwitchOp, plan: KernelPlanAttr, target: GpuTarget
    ) -> PlannedKernel:
        """Raises CompileError where plans are missing."""
        made = [op for op in func.body.block.ops if isinstance(op, pl.CreatePipelineOp)]
        return cls(
            func,
            switch,
            plan,
            tuple(PlannedPipeline.of(op, switch) for op in made),
            target.shared_memory_of_each(switch.ctas.data),
        )

    @property
    def body(self) -> Block:
        """The consumers' program."""
        return self.switch.consumer.block

    @property
    def own(self) -> list[PlannedPipeline]:
        """The pipelines that have memory of their own."""
        return [pipeline for pipeline in self.pipelines if pipeline.storage is None]

    @property
    def has_store_warp(self) -> bool:
        """Whether a warp beside the producer's stores."""
        return self.switch.store is not None

    @property
    def row_bytes(self) -> int:
        """Shared memory for tiles that leave row by row."""
        return row_bytes(self.body, self.switch.consumer_warps.data)

    def forget_plan(self) -> None:
        """Takes away what was planned: it has been done."""
        self.func.attributes.pop(PLAN)
        for pipeline in self.pipelines:
            pipeline.op.attributes.pop(PLAN)

    def choose_stages(self) -> None:
        """Gives every pipeline its stages, and the buffers of stores what is left.

        Raises InternalError where the least stages do not fit: the plan knew too little then.
        """
        needs = self._requirements()
        available = self.available - self._bytes_beside(needs)
        scratch = self.plan.integer("scratch")
        wanted = min(MOST_SCRATCH, wanted_scratch_bytes(self.body))
        needed = min(scratch, least_scratch_bytes(self.body))
        own = [needs[pipeline.op.result] for pipeline in self.own]
        if self.row_bytes:
            # What operations may want is not worth a stage: most of it was for these rows.
            scratch = needed
        stages = _stages(own, available, scratch, wanted)
        if stages is None or _is_tight(own, stages):
            stages = self._fitting(_stages(own, available, needed, wanted))
        elif self.has_store_warp and not self._hold_tiles(own, stages, available):
            # The memory that nobody turns out to want is not what stores wait for.
            stages = self._fitting(_stages(own, available, needed, wanted))
        sizes = [one.stage_bytes * count for one, count in zip(own, stages, strict=True)]
        beside = sent_beside(self.func, self.switch, max(sizes, default=0))
        if beside:
            available -= beside
            stages = self._fitting(_stages(own, available, min(scratch, wanted), wanted))
        made = (pipeline.op.result for pipeline in self.own)
        chosen: dict[SSAValue, int] = dict(zip(made, stages, strict=True))
        for pipeline in self.pipelines:
            value = pipeline.op.result
            if value not in chosen:
                room = self._bytes_of(pipeline.storage, chosen)
                inside = stages_of_pipelines([needs[value]], room, self._most_inside(room))
                chosen[value] = self._fitting(inside)[0]
            pipeline.op.properties["stages"] = IntAttr(chosen[value])
        taken = sum(one.stage_bytes * count for one, count in zip(own, stages, strict=True))
        if self.has_store_warp:
            free = available - taken - max(wanted, needed, LEAST_SCRATCH)
            choose_store_buffers(self.func, self.switch, free)
        self._reuse_stages()

    def _most_inside(self, room: int) -> int:
        """What a pipeline in the memory of another one may take, which is there in any case.

        It is mostly for small grids, whose SMs do not drift apart: all of it behind rounds, where a
        tile block has one tile at most, and as much as a deep pipeline has elsewhere.
        """
        return room if self.func.static_tile_scheduler is not None else MOST_PIPELINE_BYTES

    def _hold_tiles(
        self, own: Sequence[PipelineRequirements], stages: Sequence[int], available: int
    ) -> bool:
        """Whether all that consumers store at once would have room beside these stages."""
        taken = sum(one.stage_bytes * count for one, count in zip(own, stages, strict=True))
        return hold_tiles(self.func, self.switch, available - taken - LEAST_SCRATCH)

    def _reuse_stages(self) -> None:
        """Says that the largest pipeline is what stores and scratch have once stages are free."""
        largest = max(
            (pipeline.op for pipeline in self.pipelines),
            key=lambda op: op.stages.data * op.stage_bytes.data,
        )
        place_tma_stores(self.func, self.switch, largest)
        for op in self.body.ops:
            if isinstance(op, pl.FreePipelinesOp):
                op.operands = [largest.result]

    def _requirements(self) -> dict[SSAValue, PipelineRequirements]:
        """What each pipeline needs for the consumers' program, which may hold more than planned."""
        held = most_held(self.body)
        late = {op.pipeline: 1 for op in self.body.walk() if isinstance(op, pl.HeldTileOp)}
        return {
            value: replace(
                requirements,
                least=max(requirements.least, held.get(value, 1)),
                held=late.get(value, 0),
            )
            for value, requirements in ((one.op.result, one.requirements) for one in self.pipelines)
        }

    def _fitting(self, stages: tuple[int, ...] | None) -> tuple[int, ...]:
        if stages is None:
            raise InternalError(
                f"the least stages do not fit into {self.available} bytes of shared memory",
                place_of(self.switch),
                PASS_NAME,
            )
        return stages

    def _bytes_beside(self, needs: Mapping[SSAValue, PipelineRequirements]) -> int:
        """Bytes for other things than stages and scratch: barriers, tiles on their way out."""
        pipelines = list(needs.values())
        pieces = store_bytes(self.plan.integer("warpgroups"), piece_rows(self.func))
        are_short = max(one.stage_bytes * one.least for one in pipelines) < pieces
        has_stores = any(isinstance(op, ts.TmaStoreOp) for op in self.body.walk())
        in_stages = has_stores and not are_short and not stores_before_the_end(self.body)
        have_own = self.has_store_warp or (has_stores and not in_stages)
        maps = sum(isinstance(op, pl.MakeTensorMapOp) for op in self.func.walk())
        return (
            fixed_bytes(pipelines, maps, self.has_store_warp, self.available)
            + self.plan.integer("smem_transpose")
            + (pieces if have_own else 0)
            + self.row_bytes
        )

    def _bytes_of(self, storage: SSAValue | None, chosen: Mapping[SSAValue, int]) -> int:
        """The bytes of a pipeline whose stages are chosen."""
        other = next(other for other in self.pipelines if other.op.result is storage)
        return chosen[other.op.result] * other.requirements.stage_bytes


def wanted_stages(kernel: PlannedKernel) -> tuple[int, ...]:
    """The stages that pipelines of their own memory would get if an SM had more shared memory."""
    is_shared = any(pipeline.requirements.is_shared for pipeline in kernel.own)
    pipelines = [
        replace(pipeline.requirements, extra_stages=0, is_shared=is_shared)
        for pipeline in kernel.own
    ]
    return stages_of_pipelines(pipelines, UNLIMITED_BYTES) or ()


def _stages(
    pipelines: Sequence[PipelineRequirements], available: int, least: int, wanted: int
) -> tuple[int, ...] | None:
    """The stages beside scratch memory: as much of it as is wanted, or half, down to the least."""
    scratch = max(least, wanted)
    while True:
        stages = stages_of_pipelines(pipelines, available - scratch)
        if stages is not None or scratch <= max(LEAST_SCRATCH, least):
            return stages
        scratch = max(least, scratch // 2)


def _is_tight(pipelines: Sequence[PipelineRequirements], stages: Sequence[int]) -> bool:
    """Whether a pipeline has no stage to spare: then it waits for each of its loads.

    Or but one, where part of each stage is not used.
    """
    pairs = zip(pipelines, stages, strict=True)
    return any(
        one.may_grow and count <= one.least + bool(one.skipped_bytes) for one, count in pairs
    )

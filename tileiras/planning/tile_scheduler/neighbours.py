"""What is known of two neighbouring tiles before a CTA computes both: from the program of one.

    %r = program_id 0; %c = program_id 1        tile blocks %r and %r + 1
    for %k { %a = load %A[%r, %k]               differs
             %b = load %B[%k, %c]               common: it is loaded once, for both
             dot %a, %b }                       twice

What depends on the number of the tile differs between neighbours. A load whose indices alone do
may turn out to bring the same tile (`operands/uniform`). From this follow the bytes of a stage for
both, and how products are best computed (`operands/swap_ab`), by the rules for kernels of two
tiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from xdsl.ir import Block, Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.views import memref_of
from tileiras.planning.model.dots import WgmmaDot
from tileiras.planning.model.pipelines import Pipeline
from tileiras.planning.operands.swap_ab import (
    VariationRate,
    is_wide_transposed,
    may_continue,
    rate_of,
    reads_less,
)
from tileiras.planning.operands.tma import OperandLoad, is_by_tma, is_for_threads, place_bytes
from tileiras.planning.operands.uniform import products_of
from tileiras.planning.resources.cta import (
    MAX_ACCUMULATORS,
    PipelineRequirements,
    stages_of_pipelines,
)
from tileiras.planning.resources.requirements import pipeline_requirements
from tileiras.planning.resources.stage_groups import stage_groups
from tileiras.planning.resources.stages import pipeline_smem
from tileiras.planning.tile_scheduler.joinable import TILES, is_same_for_both, product_loop

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget
    from tileiras.planning.model.kernel import RolePlan

Rates = Mapping[SSAValue, VariationRate]
"""The numbers that neighbours differ in, and how often what follows from each changes."""


@dataclass(frozen=True)
class Neighbours:
    """Two neighbouring tiles of a kernel, whose plan for one is known.

    `has_single`: a loop over K for one tile alone stands beside that for two. `stores_words`: the
    tiles are stored again and again, as 32-bit elements.
    """

    plan: RolePlan
    loop: aa.ForOp
    differing: frozenset[SSAValue]
    rates: Rates
    has_single: bool
    stores_words: bool

    @cached_property
    def loads(self) -> list[OperandLoad]:
        """The loads of the loop over K that pipelines bring."""
        return self.plan.loads_of(self.loop)

    def is_common(self, load: OperandLoad) -> bool:
        """Whether both tiles read the loaded tile, or two products of one did."""
        count = len(products_of(load))
        return count > 1 or (count > 0 and load.result not in self.differing)

    def may_be_common(self, load: OperandLoad) -> bool:
        """Whether both loads may turn out to bring the same tile: see `may_be_uniform`."""
        if load.result not in self.differing or not is_by_tma(load):
            return False
        if memref_of(load.view).result in self.differing:
            return False
        indices = self._differing_indices(load)
        block = self.loop.body.block
        return bool(indices) and not any(_is_made_in(index, block) for index in indices)

    def rate(self, load: OperandLoad) -> VariationRate:
        """How often neighbours load different tiles."""
        if not isinstance(load, aa.TiledLoadOp):
            return VariationRate.OFTEN
        return rate_of(self._differing_indices(load), self.rates)

    def _differing_indices(self, load: aa.TiledLoadOp) -> list[SSAValue]:
        return [index for index in load.indices if index in self.differing]

    # what both take

    def do_sums_fit(self) -> bool:
        """Whether the sums of both take no more registers than one sum may."""
        warpgroups = self.plan.warpgroups
        sums = [planned.accumulator_registers(warpgroups) for planned in self.plan.dots.values()]
        return TILES * sum(sums) <= MAX_ACCUMULATORS

    def have_in_common(self) -> bool:
        """Whether both read a tile in common, or may turn out to; copied views in any case."""
        common = [load for load in self.loads if self.is_common(load)]
        copied = [
            load for load in self.loads if isinstance(load, aa.TiledLoadOp) and not is_by_tma(load)
        ]
        if any(load not in common for load in copied):
            return False
        return bool(common) or any(map(self.may_be_common, self.loads))

    def has_spare_stages(self, target: GpuTarget) -> bool:
        """Whether every pipeline that would use more stages than must be held at once gets some."""
        wanted = list(self._requirements())
        stages = stages_of_pipelines(wanted, pipeline_smem(self.plan, target))
        if stages is None:
            return False
        pairs = zip(wanted, stages, strict=True)
        return all(count > pipeline.least for pipeline, count in pairs if pipeline.may_grow)

    def fewest_stages(self, target: GpuTarget) -> int:
        """The stages of the pipeline that has the fewest, each taken for the only one.

        Without the tile that the loop is known to have in common, where there are more then.
        """
        counts: list[int] = []
        for wanted, pipeline in zip(self._requirements(), self.plan.pipelines, strict=True):
            if any(load.parent_op() is self.loop for load in pipeline.loads):
                counts.append(self._stages(wanted, target))
                counts[-1] = max(counts[-1], *self._stages_with_common(wanted, pipeline, target))
        return min(counts, default=0)

    def _stages(self, wanted: PipelineRequirements, target: GpuTarget) -> int:
        return (stages_of_pipelines([wanted], pipeline_smem(self.plan, target)) or (0,))[0]

    def _stages_with_common(
        self, wanted: PipelineRequirements, pipeline: Pipeline, target: GpuTarget
    ) -> list[int]:
        """The stages of a pipeline without the second tile that is mostly the first one."""
        found = [load for load in self._uniform(pipeline) if isinstance(load, aa.TiledLoadOp)]
        rates = [self.rate(load) for load in found]
        likely = [load for load in found if self.rate(load) == min(rates) and self._is_left(load)]
        if not likely:
            return [0]
        less = wanted.stage_bytes - place_bytes(likely[0])
        return [self._stages(replace(wanted, stage_bytes=less, skipped_bytes=0), target)]

    def _is_left(self, load: OperandLoad) -> bool:
        """Whether a load brings the left operand of instructions."""
        left = (
            planned.rhs if self.is_transposed(planned) else planned.lhs
            for planned in self.plan.dots.values()
            if isinstance(planned, WgmmaDot)
        )
        return any(operand is not None and operand.load is load for operand in left)

    def _uniform(self, pipeline: Pipeline) -> list[OperandLoad]:
        """Loads of a stage that may turn out to bring what the other tile's brings."""
        content = [load for load in pipeline.loads if load.parent_op() is self.loop]
        if any(map(self.is_common, content)):
            return []
        return [load for load in content if self.may_be_common(load)]

    def _requirements(self) -> list[PipelineRequirements]:
        """What each pipeline asks of shared memory: stages for both tiles."""
        wanted = pipeline_requirements(self.plan.pipelines, list(self.plan.dots.values()))
        found: list[PipelineRequirements] = []
        for one, pipeline in zip(wanted, self.plan.pipelines, strict=True):
            if not any(load.parent_op() is self.loop for load in pipeline.loads):
                found.append(one)
                continue
            rows = [load for load in pipeline.loads if is_for_threads(load)]
            both = replace(
                one,
                stage_bytes=self._bytes(pipeline.loads),
                skipped_bytes=max(map(place_bytes, self._uniform(pipeline)), default=0),
                rows=self._bytes(rows),
            )
            found.append(both)
        return found

    def _bytes(self, loads: Sequence[OperandLoad]) -> int:
        """Bytes of the tiles that loads bring for both."""
        return sum(
            place_bytes(load) * (TILES if load.result in self.differing else 1) for load in loads
        )

    # how products are computed

    def is_transposed(self, planned: WgmmaDot) -> bool:
        """Whether the instructions compute a product transposed: see `swap_ab.oriented`."""
        if self.stores_words or not is_wide_transposed(planned):
            return False
        dots = [dot for dot in self.plan.dots.values() if isinstance(dot, WgmmaDot)]
        return any(
            all(map(is_wide_transposed, group))
            and (self._is_better_alone(group) or self._is_better_for_both(group))
            for group in stage_groups(dots)
        )

    def _is_better_alone(self, group: Sequence[WgmmaDot]) -> bool:
        return self.has_single and len(group) == 1 and reads_less(group[0], 1)

    def _is_better_for_both(self, group: Sequence[WgmmaDot]) -> bool:
        """Whether two products mostly share the right operand, and become one if transposed."""
        [planned, *others] = group
        if others or planned.lhs is None or not reads_less(planned, TILES):
            return False
        if not may_continue(planned):
            return False
        left, right = planned.lhs.load, planned.rhs.load
        if self.is_common(left) or self.is_common(right):
            return self.is_common(right)
        return self.may_be_common(right) and self.rate(right) < self.rate(left)

    def joined_plan(self) -> RolePlan:
        """The plan for one tile with the stages and the products of a kernel with two."""
        pairs = zip(self._requirements(), self.plan.pipelines, strict=True)
        pipelines = [replace(own, bytes=wanted.stage_bytes) for wanted, own in pairs]
        dots = {
            op: replace(planned, transposed=self.is_transposed(planned))
            if isinstance(planned, WgmmaDot) and planned.fragments is None
            else planned
            for op, planned in self.plan.dots.items()
        }
        return replace(self.plan, pipelines=tuple(pipelines), dots=dots)


def neighbours(
    plan: RolePlan,
    block: Block,
    rates: Rates,
    guard: SSAValue | None,
    *,
    has_single: bool,
    stores_words: bool,
) -> Neighbours | None:
    """The two tiles of a block with a loop over K, None if their loops differ.

    `guard`: what holds for both if it holds for one.
    """
    loop = product_loop(block)
    if loop is None:
        return None
    differing = differing_values(block, loop, rates, guard)
    if any(bound in differing for bound in (loop.lower_bound, loop.upper_bound, loop.step)):
        return None
    return Neighbours(plan, loop, differing, rates, has_single, stores_words)


def differing_values(
    block: Block, loop: aa.ForOp, rates: Rates, guard: SSAValue | None
) -> frozenset[SSAValue]:
    """What is another value for the next tile, of what is made before the loop or in it."""
    found: set[SSAValue] = set(rates)

    def look_at(op: Operation) -> None:
        if any(result in rates or result is guard for result in op.results):
            return
        if not is_same_for_both(op) or any(operand in found for operand in op.operands):
            found.update(op.results)

    for op in block.ops:
        if op is loop:
            break
        look_at(op)
    found.update(loop.body.block.args[1:])
    for op in loop.body.block.ops:
        look_at(op)
    return frozenset(found)


def _is_made_in(value: SSAValue, block: Block) -> bool:
    owner = value.owner
    return (owner.parent_block() if isinstance(owner, Operation) else owner) is block

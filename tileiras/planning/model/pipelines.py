"""Pipelines of stages in shared memory that a producer fills."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xdsl.ir import Operation

from tileiras.planning.model.dots import PlannedDot
from tileiras.planning.operands.tma import (
    OperandLoad,
    is_by_tma,
    is_for_threads,
    is_scale_load,
    place_bytes,
)


@dataclass(frozen=True)
class Pipeline:
    """A pipeline of at least `least` stages, each with one tile of every load of one of the
    `contents`.

    Loops that follow each other share a pipeline: their loads are different contents of it.
    `may_grow`: whether more stages would be used, which is so if the loads are in a loop. `within`:
    the pipeline in whose memory it lies, for one of them is used in a tile block, never both.
    """

    contents: tuple[tuple[OperandLoad, ...], ...]
    bytes: int
    least: int
    may_grow: bool
    within: int | None = None

    @property
    def loads(self) -> tuple[OperandLoad, ...]:
        """All loads that go through the pipeline."""
        return tuple(load for content in self.contents for load in content)

    @property
    def gathers(self) -> bool:
        """Whether a warpgroup copies operands into the stages, too, not TMA alone."""
        return not all(is_by_tma(load) or is_scale_load(load) for load in self.loads)

    @property
    def has_scales(self) -> bool:
        """Whether threads copy scales into the stages."""
        return any(is_scale_load(load) and not is_by_tma(load) for load in self.loads)

    def content(self, load: Operation) -> tuple[OperandLoad, ...]:
        """The loads that share a stage with this one, itself included, in the stage's order."""
        return next(content for content in self.contents if load in content)


def row_bytes(pipeline: Pipeline) -> int:
    """Bytes of a stage for tiles that no product reads: those of the content with most of them."""
    return max(
        sum(place_bytes(load) for load in content if is_for_threads(load))
        for content in pipeline.contents
    )


def is_read_by_threads(pipeline: Pipeline, dots: Iterable[PlannedDot]) -> bool:
    """Whether threads read tiles of the pipeline, warp by warp, before they multiply."""
    return any(
        operand is not None and operand.load in pipeline.loads
        for planned in dots
        if planned.is_read_by_warps
        for operand in (planned.lhs, planned.rhs)
    )

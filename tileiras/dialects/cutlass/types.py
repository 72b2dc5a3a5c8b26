"""The types of this dialect.

!cutlass.pipeline<tma_async, 4, 49152, (1,8)>   !cutlass.pipeline_state<4, producer>
!cutlass.tile_scheduler<16, n>                  !cutlass.sequence_barrier<1, 2, 128>
"""

from __future__ import annotations

from xdsl.irdl import irdl_attr_definition

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.expressions import evaluate
from tileiras.dialects.cute.operation import add_kind
from tileiras.dialects.cute.types import CuteType, SpelledType, split_parameters
from tileiras.dialects.cutlass.values import (
    Pipeline,
    PipelineState,
    SequenceBarrier,
    TileScheduler,
)


def _number(text: str, what: str) -> int:
    if not text.isdigit():
        raise AlgebraError(f"expected {what}, found '{text}'")
    return int(text)


@irdl_attr_definition
class PipelineType(SpelledType):
    """Kind, stages, bytes by TMA, arrivals: `!cutlass.pipeline<tma_async, 4, 8192, (1,8)>`."""

    name = "cutlass.pipeline"
    title = "a pipeline"

    @classmethod
    def read(cls, text: str) -> Pipeline:
        """`kind, stages, bytes, (producers, consumers)`."""
        parts = split_parameters(text)
        counts = evaluate(parts[3]) if len(parts) == 4 else None
        if not isinstance(counts, tuple) or len(counts) != 2:
            raise AlgebraError(f"expected 'kind, stages, bytes, (P,C)', found '{text}'")
        first, second = (_number(str(count), "a number of arrivals") for count in counts)
        stages, size = _number(parts[1], "a number of stages"), _number(parts[2], "bytes")
        return Pipeline(parts[0], stages, size, (first, second))


@irdl_attr_definition
class PipelineStateType(SpelledType):
    """Where a role is in a pipeline: `!cutlass.pipeline_state<4, producer>`."""

    name = "cutlass.pipeline_state"
    title = "a state"

    @classmethod
    def read(cls, text: str) -> PipelineState:
        """`stages, role`."""
        parts = split_parameters(text)
        if len(parts) != 2:
            raise AlgebraError(f"expected 'stages, role', found '{text}'")
        return PipelineState(_number(parts[0], "a number of stages"), parts[1])


@irdl_attr_definition
class TileSchedulerType(SpelledType):
    """Tiles of a group, and the dim along which it is gone: `!cutlass.tile_scheduler<16, n>`."""

    name = "cutlass.tile_scheduler"
    title = "a tile scheduler"

    @classmethod
    def read(cls, text: str) -> TileScheduler:
        """`swizzle, raster`."""
        parts = split_parameters(text)
        if len(parts) != 2:
            raise AlgebraError(f"expected 'swizzle, m or n', found '{text}'")
        return TileScheduler(_number(parts[0], "tiles of a group"), parts[1])


@irdl_attr_definition
class SequenceBarrierType(SpelledType):
    """Depth, groups and threads that arrive: `!cutlass.sequence_barrier<1, 2, 128>`."""

    name = "cutlass.sequence_barrier"
    title = "a sequence barrier"

    @classmethod
    def read(cls, text: str) -> SequenceBarrier:
        """`depth, length, arrivals`."""
        parts = split_parameters(text)
        if len(parts) != 3:
            raise AlgebraError(f"expected 'depth, groups, arrivals', found '{text}'")
        return SequenceBarrier(*(_number(part, "a number") for part in parts))


TYPES: tuple[type[CuteType], ...] = (
    PipelineType,
    PipelineStateType,
    TileSchedulerType,
    SequenceBarrierType,
)
"""All types of the dialect."""

add_kind("pipeline", PipelineType)
add_kind("state", PipelineStateType)
add_kind("scheduler", TileSchedulerType)
add_kind("sequence", SequenceBarrierType)

"""What values of this dialect hold. A type knows what is static of it; the rest is of run time.

A pipeline has two mbarriers for each stage, those of full stages first. The states of producers
and consumers are one number, how often they have been advanced: the stage is its remainder by the
number of stages, the parity of the phase that of its quotient. A producer waits for the phase
before: its first waits for empty stages are over at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.int_tuples import text_of
from tileiras.dialects.cute.algebra.leaves import UNKNOWN, Dynamic, Leaf
from tileiras.dialects.cute.values import PAIR_SUFFIX, RunTimeValue
from tileiras.dialects.cute_nvgpu.barriers import MAX_COUNT
from tileiras.dialects.cute_nvgpu.launch_control import ANSWER_BYTES

UNKNOWN_LEAF = Dynamic.symbol(UNKNOWN)

KINDS = (
    "async",
    "cp_async",
    "tma_async",
    "tma_umma",
    "tma_umma_2sm",
    "umma_async",
    "umma_async_2sm",
    "tma_store",
    "clc",
)
"""Who fills stages and who reads them: CUTLASS's PipelineAsync, PipelineCpAsync and so on. Those of
a pair of CTAs (`_2sm`) say what the tensor cores of both do: the first CTA of the pair multiplies.
"""
TMA_KINDS = ("tma_async", "tma_umma", "tma_umma_2sm", "clc")
"""Those whose stages TMA fills, or answers to requests for work: the producer announces bytes, and
the copies arrive themselves."""
ROLES = ("producer", "consumer")
MAX_STAGES = 64
"""More stages than shared memory has room for."""
RASTERS = ("m", "n")


@dataclass(frozen=True)
class Pipeline(RunTimeValue):
    """Stages that producers fill and consumers read; `pointer` is that to its barriers.

    `bytes` arrive in a stage by TMA; so many producers and consumers arrive in a phase.
    """

    kind: str
    stages: int
    bytes: int
    arrivals: tuple[int, int]
    pointer: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise AlgebraError(f"a pipeline is {', '.join(KINDS)}, found '{self.kind}'")
        if not 1 <= self.stages <= MAX_STAGES:
            raise AlgebraError(f"a pipeline has 1 to {MAX_STAGES} stages, found {self.stages}")
        if (self.bytes > 0) != (self.kind in TMA_KINDS) or self.bytes > MAX_COUNT:
            wanted = f"1 to {MAX_COUNT}" if self.kind in TMA_KINDS else "0"
            raise AlgebraError(f"TMA brings {wanted} bytes to {self.kind}, found {self.bytes}")
        if self.kind == "clc" and self.bytes != ANSWER_BYTES:
            raise AlgebraError(f"an answer has {ANSWER_BYTES} bytes, found {self.bytes}")
        if any(not 1 <= count <= MAX_COUNT for count in self.arrivals):
            raise AlgebraError(f"1 to {MAX_COUNT} arrive in a phase, found {self.arrivals}")

    @property
    def family(self) -> str:
        """The kind, whether of one CTA or of two."""
        return self.kind.removesuffix(PAIR_SUFFIX)

    @property
    def ctas(self) -> int:
        """The CTAs whose tensor cores act together."""
        return 2 if self.kind.endswith(PAIR_SUFFIX) else 1

    @property
    def barriers(self) -> int:
        """The mbarriers that it needs."""
        return 0 if self.kind == "tma_store" else 2 * self.stages

    def __str__(self) -> str:
        return f"{self.kind}, {self.stages}, {self.bytes}, {text_of(self.arrivals)}"


@dataclass(frozen=True)
class PipelineState(RunTimeValue):
    """Where a producer or a consumer is: how often it has been advanced."""

    stages: int
    role: str
    count: Leaf = field(default=UNKNOWN_LEAF, compare=False)

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise AlgebraError(f"a state is of a producer or a consumer, found '{self.role}'")
        if not 1 <= self.stages <= MAX_STAGES:
            raise AlgebraError(f"a state has 1 to {MAX_STAGES} stages, found {self.stages}")

    @property
    def flip(self) -> int:
        """What the parity of the first phase is: 1 of a producer."""
        return int(self.role == "producer")

    @property
    def carried(self) -> Leaf:
        """The number that a loop carries for it."""
        return self.count

    def with_carried(self, number: Leaf) -> PipelineState:
        """The state of such a number."""
        return replace(self, count=number)

    def __str__(self) -> str:
        return f"{self.stages}, {self.role}"


@dataclass(frozen=True)
class TileScheduler(RunTimeValue):
    """Which CTA computes which tiles of (M,N,L): all of them in turn, groups of `swizzle`.

    Along the dim `raster` one group is gone through, then the next.
    """

    swizzle: int
    raster: str
    tiles: tuple[Leaf, ...] = field(default=(UNKNOWN_LEAF,) * 3, compare=False)

    def __post_init__(self) -> None:
        if self.raster not in RASTERS:
            raise AlgebraError(f"a scheduler goes along m or n, found '{self.raster}'")
        if self.swizzle < 1:
            raise AlgebraError(f"groups have at least 1 tile, found {self.swizzle}")

    def __str__(self) -> str:
        return f"{self.swizzle}, {self.raster}"


@dataclass(frozen=True)
class SequenceBarrier(RunTimeValue):
    """`depth` places that groups of threads pass one after the other, each place for itself."""

    depth: int
    length: int
    arrivals: int
    pointer: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not 1 <= self.depth <= MAX_STAGES or not 2 <= self.length <= MAX_STAGES:
            raise AlgebraError(
                f"a sequence has a depth of 1 to {MAX_STAGES} and 2 to {MAX_STAGES} groups, found "
                f"{self.depth} and {self.length}"
            )
        if not 1 <= self.arrivals <= MAX_COUNT:
            raise AlgebraError(f"1 to {MAX_COUNT} arrive in a phase, found {self.arrivals}")

    @property
    def barriers(self) -> int:
        """The mbarriers that it needs."""
        return self.depth * self.length

    def __str__(self) -> str:
        return f"{self.depth}, {self.length}, {self.arrivals}"

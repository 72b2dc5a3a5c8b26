"""What the rules of the interpreter see: values, the running block, and what a run leaves behind.

A value is a numpy array in the shape of its tile (rank 0 for scalars), a view, or None for a token:
blocks run one after another and operations in program order, so tokens order nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from xdsl.ir import Attribute, Operation, Region, SSAValue

from tileiras.dialects.cuda_tile.types import ViewType
from tileiras.errors import SourceLocation
from tileiras.interpreter.formats import Array
from tileiras.interpreter.memory import SimulatedMemory

PureRule = Callable[..., Any]
"""`rule(op, *operands)` gives the value of the only result."""


@dataclass(frozen=True)
class TensorView:
    """A tensor in memory: address of its first element, sizes and strides in elements."""

    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element_type: Attribute


@dataclass(frozen=True)
class TileView:
    """A tensor seen through tiles: a partition, strided or gather/scatter view."""

    tensor: TensorView
    type: ViewType


@dataclass(frozen=True)
class AssertionFailure:
    """A failed `assert`: in which tile block, which elements, and where in the source."""

    message: str
    block_id: tuple[int, int, int]
    elements: tuple[tuple[int, ...], ...]
    location: SourceLocation | None


@dataclass
class RunLog:
    """What a run printed and which assertions failed, in order."""

    printed: list[str] = field(default_factory=list)
    failures: list[AssertionFailure] = field(default_factory=list)


@dataclass(frozen=True)
class Exit:
    """How a block of operations ended: at which terminator and with which values."""

    terminator: Operation
    values: tuple[Any, ...]


@dataclass
class LoadGroups:
    """Groups of pipelined loads: how many were closed, how many are known to be over."""

    committed: int = 0
    finished: int = 0


class BlockRun(Protocol):
    """One tile block's run, as rules with effects or regions see it."""

    memory: SimulatedMemory
    log: RunLog
    block_id: tuple[int, int, int]
    grid: tuple[int, int, int]
    cluster_rank: int
    globals: dict[str, int]
    allocas: dict[Operation, int]
    loads: LoadGroups
    sent: dict[tuple[Operation, int], list[Any]]
    """Tiles that the CTAs of the cluster have sent so far, by operation and rank."""
    launched: tuple[int, int, int]
    """The grid, where `grid` is how many tile blocks divide its work."""

    def value(self, ssa: SSAValue) -> Any:
        """The value of an SSA value that was computed before."""
        ...

    def values(self, ssa: Sequence[SSAValue]) -> list[Any]:
        """The values of several SSA values."""
        ...

    def run_region(self, region: Region, arguments: Sequence[Any]) -> Exit:
        """Runs a region's only block on arguments, up to the terminator that ends it."""
        ...


EffectRule = Callable[[BlockRun, Any], Sequence[Any]]
"""`rule(run, op)` gives the values of all results."""


def scalar(value: Array) -> int:
    """The Python integer in a rank-0 tile."""
    return int(value)

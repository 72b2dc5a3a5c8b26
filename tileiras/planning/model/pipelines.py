"""Rings of slots in shared memory that a producer fills."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xdsl.ir import Operation

from tileiras.planning.model.dots import PlannedDot
from tileiras.planning.operands.tma import OperandLoad, is_by_tma


@dataclass(frozen=True)
class Pipeline:
    """A ring of at least `least` slots, each with one tile of every load of one of the `fillings`.

    Loops that follow each other share a ring: their loads are different fillings of it. `may_grow`:
    whether more slots would be used, which is so if the loads are in a loop. `within`: the ring in
    whose memory it lies, for one of them is used in a tile block, never both.
    """

    fillings: tuple[tuple[OperandLoad, ...], ...]
    bytes: int
    least: int
    may_grow: bool
    within: int | None = None

    @property
    def loads(self) -> tuple[OperandLoad, ...]:
        """All loads that go through the ring."""
        return tuple(load for filling in self.fillings for load in filling)

    @property
    def gathers(self) -> bool:
        """Whether threads copy into the slots, too, not TMA alone."""
        return not all(map(is_by_tma, self.loads))

    def filling(self, load: Operation) -> tuple[OperandLoad, ...]:
        """The loads that share a slot with this one, itself included, in the slot's order."""
        return next(filling for filling in self.fillings if load in filling)


def is_read_by_threads(ring: Pipeline, dots: Iterable[PlannedDot]) -> bool:
    """Whether threads read tiles of the ring, warp by warp, before they multiply."""
    return any(
        operand is not None and operand.load in ring.loads
        for planned in dots
        if planned.is_read_by_warps
        for operand in (planned.lhs, planned.rhs)
    )

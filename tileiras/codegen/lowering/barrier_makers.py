"""Who makes which mbarriers: one thread makes all, or one of each warp of several makes some."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tileiras.codegen.llvmir.builder import ThreadBuilder


@dataclass(frozen=True)
class MadeHere:
    """The number of a stage whose mbarriers this thread makes, if it `exists` (None: it does)."""

    number: SSAValue
    exists: SSAValue | None


class BarrierMakers:
    """Deals stages out to `warps` warps from `first` on, a power of two; the next pipeline goes on
    where one ends.

    Each mbarrier takes some 25 cycles, one after the other in a warp whatever its lanes do (H200).
    """

    def __init__(self, b: ThreadBuilder, warps: int, first: int = 0):
        self.b = b
        self.warps = warps
        self.warp = b.sub(b.lshr(b.thread_id(), b.i32(5)), b.i32(first))
        self.next = 0

    @property
    def is_first(self) -> SSAValue | None:
        """i1: whether this is the first of the warps; None if it is the only one."""
        return self.b.icmp("eq", self.warp, self.b.i32(0)) if self.warps > 1 else None

    def share(self, stages: int) -> Iterator[MadeHere]:
        """This warp's part of the stages of a pipeline."""
        b = self.b
        if self.warps == 1:
            for number in range(stages):
                yield MadeHere(b.i32(number), None)
            return
        place = self.warp
        if self.next:
            place = b.and_(b.add(place, b.i32(self.warps - self.next)), b.i32(self.warps - 1))
        for first in range(0, stages, self.warps):
            number = b.add(place, b.i32(first))
            is_last = first + self.warps > stages
            yield MadeHere(number, b.icmp("ult", number, b.i32(stages)) if is_last else None)
        self.next = (self.next + stages) % self.warps

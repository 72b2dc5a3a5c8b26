"""Which tile blocks a CTA runs where several take the same lock, for `join-lock-sharers`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import i1, i32
from xdsl.ir import Block, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
    RoundingMode,
    RoundingModeAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.passes.nv_tileaa.lock_sharer_bodies import SharerBodies
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder

if TYPE_CHECKING:
    from tileiras.planning.lock_sharers import LockSharers

_UNSIGNED = SignednessAttr(Signedness.UNSIGNED)


class SharerGrid(ScalarBuilder, ABC):
    """A kernel whose CTAs run several of its tile blocks, or none."""

    def __init__(self, func: aa.FuncOp, found: LockSharers):
        super().__init__()
        self.func = func
        self.found = found
        self.location = found.loop.location
        from tileiras.planning.lock_sharers import is_number

        *ops, self.last = func.body.block.ops
        early = [op for op in ops if op in found.shared or is_number(op, found.axis)]
        self.ops = [op for op in ops if op not in early]

    def run(self) -> None:
        """Replaces the function's body, but for what all tile blocks may do at once."""
        self.build()
        self.put_before(self.last)
        for op in reversed(self.ops):
            op.detach()
            op.erase()

    @abstractmethod
    def build(self) -> None:
        """Appends what takes the place of the body."""

    def bodies(self, numbers: list[SSAValue]) -> None:
        """What tile blocks with these numbers do side by side; appended to the block."""
        bodies = SharerBodies(self.found, numbers)
        bodies.block = self.block
        for op in self.ops:
            bodies.add(op)

    def several(self, first: SSAValue, step: SSAValue, count: int) -> list[SSAValue]:
        """The numbers of so many tile blocks, from the first one on."""
        numbers = [first]
        while len(numbers) < count:
            numbers.append(self.binary(aa.AddIOp, numbers[-1], step))
        return numbers

    def divisor(self) -> SSAValue:
        """What numbers differ by where tile blocks have the same lock."""
        return self.found.divisor or self.integer(1, i32)

    def quotient(self, value: SSAValue, by: SSAValue) -> SSAValue:
        """An unsigned division."""
        rounding = RoundingModeAttr(RoundingMode.ZERO)
        properties = {"signedness": _UNSIGNED, "rounding": rounding}
        return self.emit(aa.DivIOp, [value, by], [value.type], properties).results[0]

    def less(self, value: SSAValue, end: SSAValue) -> SSAValue:
        """i1: a comparison of unsigned numbers."""
        predicate = ComparisonPredicateAttr(ComparisonPredicate.LESS_THAN)
        properties = {"comparison_predicate": predicate, "signedness": _UNSIGNED}
        return self.emit(aa.CmpIOp, [value, end], [i1], properties).results[0]


class JoinedGrid(SharerGrid):
    """Two versions: for several tile blocks, and for one of those that are left."""

    def build(self) -> None:
        """Appends both."""
        together, divisor = self.found.together, self.divisor()
        number = self.place(aa.GetProgramIdOp, self.found.axis)
        count = self.place(aa.GetNumProgramsOp, self.found.axis)
        chunks = self.quotient(self.quotient(count, self.integer(together, i32)), divisor)
        first = self.binary(aa.MulIOp, chunks, divisor)
        is_joined = self.less(number, first)
        outer, self.block = self.block, Block()
        chunk = self.quotient(number, divisor)
        before = self.scaled(self.binary(aa.MulIOp, chunk, divisor), together - 1)
        self.bodies(self.several(self.binary(aa.AddIOp, number, before), divisor, together))
        joined, self.block = self.block, Block()
        alone = self.binary(aa.AddIOp, number, self.scaled(first, together - 1))
        with self.only_where(self.less(alone, count)):
            self.bodies([alone])
        left, self.block = self.block, outer
        self.either(is_joined, joined, left)

"""One product of a warpgroup by wgmma: where its left operand is, how its sums are kept.

Sums of f8 products may have to leave the tensor core at every K tile: inside, they keep about 14
bits of the accumulator. Then a partial sum runs over at most 128 of K, starts from zero, and is
added to the accumulator by ordinary additions. The result is computed in chunks of columns, so that
partial sums take few registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from xdsl.ir import SSAValue

from tileiras.codegen.atoms.shared_operands import Major, SharedOperand
from tileiras.codegen.atoms.wgmma import (
    PARTIAL_K,
    PARTIAL_REGISTERS,
    WgmmaAtom,
    WgmmaFamily,
)
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.wgmma_fragments import FragmentReader
from tileiras.dialects.llvm.types import bit_width, lanes_of, scalar_of

ACCUMULATORS_BESIDE_TWO = 64
"""Accumulators of a thread up to which two partial sums are in flight, if nobody else computes."""
_FRAGMENT_BITS = 128
"""Bits that a thread holds of 64 rows and one K step."""


@dataclass(frozen=True)
class OperandA:
    """What instructions get: a descriptor with the way to K steps and row blocks, or fragments."""

    value: SSAValue
    offsets: Sequence[int] | None = None
    row_stride: int = 0
    major: Major = "k"


class LeftOperand(Protocol):
    """The left operand of one warpgroup."""

    def part(self, blocks: range, steps: range) -> OperandA:
        """Some steps along K of some blocks of 64 rows."""
        ...


@dataclass(frozen=True)
class LeftInShared:
    """A tile that wgmma reads; `descriptor` is that of the warpgroup's first rows."""

    descriptor: SSAValue
    offsets: Sequence[int]
    row_stride: int
    major: Major

    def part(self, blocks: range, steps: range) -> OperandA:
        """The descriptor, and the bytes to what is wanted."""
        start = blocks.start * self.row_stride
        offsets = [start + self.offsets[step] for step in steps]
        return OperandA(self.descriptor, offsets, self.row_stride, self.major)


@dataclass(frozen=True)
class LeftInRegisters:
    """A vector of fragments: `steps` of them along K for each block of rows."""

    ctx: KernelLowering
    fragments: SSAValue
    steps: int

    def part(self, blocks: range, steps: range) -> OperandA:
        """The fragments that are wanted."""
        size = _FRAGMENT_BITS // bit_width(scalar_of(self.fragments.type))
        slices = [
            self.ctx.b.slice(
                self.fragments, (block * self.steps + steps.start) * size, len(steps) * size
            )
            for block in blocks
        ]
        return OperandA(self.ctx.b.concat(slices))


@dataclass(frozen=True)
class LeftByThreads:
    """A tile in shared memory that the threads read, part by part.

    `is_whole`: there are registers for all of it, so that no part waits for another's product.
    """

    ctx: KernelLowering
    reader: FragmentReader
    is_whole: bool = False

    def part(self, blocks: range, steps: range) -> OperandA:
        """Reads what is wanted."""
        read = [self.reader.fragments(block, step) for block in blocks for step in steps]
        return OperandA(self.ctx.b.concat(read))


@dataclass(frozen=True)
class Product:
    """`left @ right`: `right` is the descriptor of `rhs`; `row_blocks` blocks of 64 rows.

    `columns` are a warpgroup's, of those of `rhs`.
    """

    ctx: KernelLowering
    family: WgmmaFamily
    left: LeftOperand
    right: SSAValue
    rhs: SharedOperand
    row_blocks: int
    columns: int

    @property
    def _steps(self) -> range:
        return range(len(self.rhs.k_offsets))

    def accumulated(
        self, acc: SSAValue, pending: int | None, adds: SSAValue | None = None
    ) -> SSAValue:
        """`acc` plus the product; `pending` groups of instructions stay unfinished, None: all may.

        `adds` false: the product alone.

        What threads read is read a step ahead of the instructions, while the step before runs. The
        registers of a step are written again, by the next product of a loop at the latest, when all
        but the newest group is over. Of a tile with registers for all of it nothing is waited for:
        it runs on beside what comes next, which waits for it (`transposed_words`).
        """
        blocks = range(self.row_blocks)
        atom = WgmmaAtom(self.family, self.columns)
        if not isinstance(self.left, LeftByThreads):
            left = self.left.part(blocks, self._steps)
            return self._multiply(atom, left, self._steps, acc, adds=adds, wait=pending)
        between, at_last = 1, pending
        if self.left.is_whole:
            between, at_last = None, None if pending else 0
        ahead = self.left.part(blocks, range(1))
        for step in self._steps:
            is_last = step == self._steps[-1]
            here = range(step, step + 1)
            acc = self._multiply(atom, ahead, here, acc, wait=at_last if is_last else between)
            if not is_last:
                ahead = self.left.part(blocks, range(step + 1, step + 2))
        return acc

    def from_zero(self, pending: int | None) -> SSAValue:
        """The product of one block of rows that need not be read, with nothing added to it.

        ptxas writes zeros to the accumulators of instructions with a left operand in registers, and
        of those of a second product behind a loop, as a wait is: with a wait for the first (C7517).
        """
        atom = WgmmaAtom(self.family, self.columns)
        left = self.left.part(range(1), self._steps)
        return self._multiply(atom, left, self._steps, None, wait=pending)

    def two_level(self, acc: SSAValue) -> SSAValue:
        """`acc`, a vector of f32, plus the product, summed up by itself first.

        The registers of a finished partial sum are given to the next one. That starts from zero,
        too, but by a predicate that ptxas cannot decide: else ptxas puts the additions off to the
        end of the loop, with registers of their own for every partial sum, and spills.
        """
        b = self.ctx.b
        size = lanes_of(acc.type) or 0
        is_alone = self.ctx.num_warps == 4
        is_read = isinstance(self.left, LeftByThreads)
        # What is read of a block of rows serves all its columns, which may be halved then.
        in_flight = 2 if is_read or (is_alone and size <= ACCUMULATORS_BESIDE_TWO) else 1
        columns = min(self.rhs.extent, 2 * PARTIAL_REGISTERS // in_flight)
        atom = WgmmaAtom(self.family, columns)
        elements = atom.accumulator_elements
        parts = [b.slice(acc, start, elements) for start in range(0, size, elements)]
        running: list[tuple[int, SSAValue]] = []
        finished: list[SSAValue] = []

        def finish_oldest() -> tuple[int, SSAValue]:
            number, partial = running.pop(0)
            return number, b.wgmma_wait(len(running), partial)[0]

        def add(number: int, result: SSAValue) -> None:
            parts[number] = b.fadd(parts[number], result)
            finished.append(result)

        chunks = list(self._chunks(columns))
        ahead, left = self._early_part(chunks[0]), None
        for index, (block, column, steps) in enumerate(chunks):
            if len(running) == in_flight:
                add(*finish_oldest())
            late: list[tuple[int, SSAValue]] = []
            if left is None or not is_read or column == 0:
                # Fragments come into registers of which instructions still read the ones before.
                late += [finish_oldest() for _ in range(len(running) if is_read else 0)]
                left = self._with_rest(ahead, chunks[index])
            number = block * (self.rhs.extent // columns) + column // columns
            registers = finished.pop(0) if finished else None
            running.append((number, self._sum(atom, left, steps, registers, column)))
            for done in late:
                add(*done)
            if index + 1 < len(chunks) and chunks[index + 1][1] == 0:
                ahead = self._early_part(chunks[index + 1])
        while running:
            add(*finish_oldest())
        return b.concat(parts)

    def _sum(
        self,
        atom: WgmmaAtom,
        left: OperandA,
        steps: range,
        registers: SSAValue | None,
        column: int,
    ) -> SSAValue:
        """Starts a partial sum, in registers of which the contents do not matter."""
        if registers is None:
            return self._multiply(atom, left, steps, None, column)
        never = self.ctx.threads.never()
        return self._multiply(atom, left, steps, registers, column, adds=never)

    def _early_part(self, chunk: tuple[int, int, range]) -> OperandA | None:
        """What threads read of the rows of a partial sum while the instructions before run.

        The first half of its steps, if there are two: registers for all of two sums would leave too
        few. Of several blocks of rows none: with 128 accumulators ptxas spills beside another loop.
        """
        block, _, steps = chunk
        early = steps[: len(steps) // 2]
        if not isinstance(self.left, LeftByThreads) or not early or self.row_blocks > 1:
            return None
        return self.left.part(range(block, block + 1), early)

    def _with_rest(self, early: OperandA | None, chunk: tuple[int, int, range]) -> OperandA:
        """All rows and steps of a partial sum, the rest of which is read now."""
        block, _, steps = chunk
        rows = range(block, block + 1)
        if early is None:
            return self.left.part(rows, steps)
        rest = self.left.part(rows, steps[len(steps) // 2 :])
        return OperandA(self.ctx.b.concat([early.value, rest.value]))

    def _chunks(self, columns: int) -> Iterator[tuple[int, int, range]]:
        """Row block, first column and K steps of every partial sum."""
        per_sum = PARTIAL_K // self.family.k
        for first in range(0, len(self._steps), per_sum):
            for block in range(self.row_blocks):
                for column in range(0, self.rhs.extent, columns):
                    yield block, column, self._steps[first : first + per_sum]

    def _multiply(
        self,
        atom: WgmmaAtom,
        left: OperandA,
        steps: range,
        acc: SSAValue | None,
        column: int = 0,
        adds: SSAValue | None = None,
        wait: int | None = None,
    ) -> SSAValue:
        """Some K steps for the columns of one instruction, as a group; `adds` false: to zero."""
        b = self.ctx.b
        elements = atom.accumulator_elements
        blocks = 1 if acc is None else (lanes_of(acc.type) or 0) // elements
        return b.wgmma(
            atom.name,
            left.value,
            b.advance_descriptor(self.right, self.rhs.extent_offset(column)),
            acc,
            a_offsets=left.offsets,
            b_offsets=[self.rhs.k_offsets[step] for step in steps],
            reps_m=blocks,
            m_stride=left.row_stride if blocks > 1 else 0,
            a_major=left.major,
            b_major=self.rhs.major,
            scale_d=adds,
            fence=True,
            commit=True,
            wait=wait,
        )

"""Products of f8 whose sums leave the tensor core at every K tile: partial sums, added in f32.

Inside the tensor core an f8 product keeps about 14 bits of the accumulator. So a partial sum runs
over at most 128 of K, starts from zero, and is added to the accumulator by ordinary additions. The
result is computed in chunks of columns, so that partial sums take few registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tileiras.codegen.atoms.shared_operands import Major, SharedOperand
from tileiras.codegen.atoms.wgmma import WARPGROUP, WgmmaAtom, WgmmaFamily
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.dialects.llvm.types import lanes_of

MAX_K = 128
"""Elements of K in one partial sum."""
PARTIAL_REGISTERS = 64
"""Registers of a thread for all partial sums that are in flight."""


@dataclass(frozen=True)
class LeftOperand:
    """The left operand: fragments, or a descriptor with the way to its K steps and row blocks."""

    value: SSAValue
    offsets: Sequence[int] | None = None
    row_stride: int = 0
    major: Major = "k"


@dataclass(frozen=True)
class _Chunk:
    """A partial sum: a block of 64 rows by the columns of one instruction, over some K steps."""

    row_block: int
    column: int
    steps: range


def promoted_product(
    ctx: KernelLowering,
    family: WgmmaFamily,
    left: LeftOperand,
    right: SSAValue,
    rhs: SharedOperand,
    acc: SSAValue,
    row_blocks: int,
) -> SSAValue:
    """`left @ right + acc`; the accumulator is a vector of f32, row block after row block."""
    b = ctx.b
    in_flight = 1 if ctx.num_warps > 4 else 2
    atom = WgmmaAtom(family, _chunk_columns(rhs.extent, in_flight))
    size = atom.accumulator_elements
    parts = [b.slice(acc, at, size) for at in range(0, lanes_of(acc.type) or 0, size)]
    pending: list[tuple[int, SSAValue]] = []

    def add_oldest(left_running: int) -> None:
        number, partial = pending.pop(0)
        (finished,) = b.wgmma_wait(left_running, partial)
        parts[number] = b.fadd(parts[number], finished)

    for chunk in _chunks(row_blocks, rhs.extent, atom, len(rhs.k_offsets)):
        if len(pending) == in_flight:
            add_oldest(in_flight - 1)
        number = chunk.row_block * (rhs.extent // atom.n) + chunk.column // atom.n
        pending.append((number, _start(ctx, atom, left, right, rhs, chunk)))
    while pending:
        add_oldest(len(pending) - 1)
    return b.concat(parts)


def _chunk_columns(columns: int, in_flight: int) -> int:
    """Columns of a partial sum: two of them are a register for each thread of 64 rows."""
    return min(columns, 2 * PARTIAL_REGISTERS // in_flight)


def _chunks(row_blocks: int, columns: int, atom: WgmmaAtom, steps: int) -> Iterator[_Chunk]:
    """All partial sums; those of one part of the accumulator stand far apart."""
    per_sum = MAX_K // atom.family.k
    for first in range(0, steps, per_sum):
        for row_block in range(row_blocks):
            for column in range(0, columns, atom.n):
                yield _Chunk(row_block, column, range(first, min(steps, first + per_sum)))


def _start(
    ctx: KernelLowering,
    atom: WgmmaAtom,
    left: LeftOperand,
    right: SSAValue,
    rhs: SharedOperand,
    chunk: _Chunk,
) -> SSAValue:
    """Starts a partial sum, as a group of its own."""
    b = ctx.b
    a_value, a_offsets = left.value, None
    if left.offsets is not None:
        start = chunk.row_block * left.row_stride
        a_offsets = [start + left.offsets[step] for step in chunk.steps]
    else:
        words = ROW_BLOCK_WORDS_PER_STEP
        first = chunk.row_block * len(rhs.k_offsets) + chunk.steps.start
        a_value = b.slice(left.value, first * words, len(chunk.steps) * words)
    return b.wgmma(
        atom.name,
        a_value,
        b.advance_descriptor(right, rhs.extent_offset(chunk.column)),
        None,
        a_offsets=a_offsets,
        b_offsets=[rhs.k_offsets[step] for step in chunk.steps],
        a_major=left.major,
        fence=True,
        commit=True,
    )


ROW_BLOCK_WORDS_PER_STEP = 64 * 32 // WARPGROUP
"""Elements of f8 that one thread holds of 64 rows and one K step."""

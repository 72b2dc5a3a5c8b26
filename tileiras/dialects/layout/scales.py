"""Where the scales of block-scaled mma.sync lie.

An instruction takes the scales of each operand from one 32-bit register. A word has four scales
that follow each other along K; `byte-id` says with which of its bytes an atom begins. Of each quad
of lanes, two hold the words of row g and g + 8 of A, one that of column g of B; `thread-id` says
which of two pairs, or of four lanes, these are. So a register of a warp has room for the words of
two fragments of A, or four of B. PTX ISA, "Block scaling for mma.sync": "Scale Vector A matrix",
"Scale Vector B matrix", byte-id and thread-id.

A warp holds the words of its part of a tile in this order: first those along K, then those of its
fragments one below (A) or beside (B) the other. The lowest bits of a word's number are `thread-id`,
the others count registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tileiras.dialects.layout.errors import LayoutError
from tileiras.dialects.layout.linear_layout import LinearLayout, checked_shape

WORD_SCALES = 4
"""Scales of 8 bits in a register."""
_WORD_BITS = 2
_THREAD_BITS = {"A": 1, "B": 2}
"""Bits of thread-id: {0, 1} for A, {0, 1, 2, 3} for B."""
_FRAGMENT = {"A": 16, "B": 8}
"""Rows or columns of an instruction."""


@dataclass(frozen=True)
class Selector:
    """The scales of one instruction: `word` of the thread's registers, byte-id, thread-id."""

    word: int
    byte: int
    thread: int


@dataclass(frozen=True)
class ScaleWords:
    """The words of scales of an operand of which a tile has `blocks` along K."""

    which: Literal["A", "B"]
    blocks: int

    @property
    def along_k(self) -> int:
        """Words along K."""
        return max(1, self.blocks // WORD_SCALES)

    def select(self, fragment: int, block: int) -> Selector:
        """Where an instruction on a fragment finds its scales, the first of which is `block`."""
        number = fragment * self.along_k + block // WORD_SCALES
        threads = 1 << _THREAD_BITS[self.which]
        return Selector(number // threads, block % WORD_SCALES, number % threads)


def scale_layout(
    shape: Sequence[int], warps: tuple[int, int], which: Literal["A", "B"]
) -> LinearLayout:
    """Where the threads hold a tile of scales: M x K/V of A, K/V x N of B; leading dims: batches.

    `warps` are those along M and N, as in `mma_operand_layout`, and so is the order of fragments.
    Lanes and warps without scales of their own hold copies. LayoutError if the tile is smaller than
    an instruction.
    """
    return _scale_layout(checked_shape(shape), checked_shape(warps), which)


@lru_cache(maxsize=256)
def _scale_layout(
    shape: tuple[int, ...], warps: tuple[int, ...], which: Literal["A", "B"]
) -> LinearLayout:
    """`scale_layout` on hashable arguments."""
    rows, blocks = shape[-2:] if which == "A" else (shape[-1], shape[-2])
    extent = _FRAGMENT[which]
    if len(shape) < 2 or rows < extent:
        raise LayoutError(f"scales of shape {shape} are fewer than an instruction takes")

    def row(at: int) -> tuple[int, int]:
        return (at, 0) if which == "A" else (0, at)

    def block(at: int) -> tuple[int, int]:
        return (0, at) if which == "A" else (at, 0)

    warp_bases: list[tuple[int, int]] = []
    for axis, count in zip("AB", warps, strict=True):
        for _ in range(count.bit_length() - 1):
            is_split = axis == which and extent < rows
            warp_bases.append(row(extent) if is_split else (0, 0))
            extent *= 2 if is_split else 1
    along_k = [block(1 << bit) for bit in range(blocks.bit_length() - 1)]
    numbers = along_k[_WORD_BITS:]
    while extent < rows:
        numbers.append(row(extent))
        extent *= 2
    threads = _THREAD_BITS[which]
    selected = [*numbers[:threads], *[(0, 0)] * (threads - len(numbers[:threads]))]
    pair = [row(8)] if which == "A" else []
    lane = [*pair, *selected, row(1), row(2), row(4)]
    bases = {"register": [*along_k[:_WORD_BITS], *numbers[threads:]], "lane": lane}
    layout = LinearLayout(bases | {"warp": warp_bases}, shape[-2:])
    for _ in shape[:-2]:
        layout = layout.expand_dims(0)
    return layout.with_registers_for(shape)

"""The left operand of wgmma read from a shared tile whose *rows* are contiguous in memory.

Operands of 8 and 32 bits must have K contiguous in shared memory; others come from registers, as
fragments that each warp reads by itself. Which row of the tile an instruction takes for its row i
is free, as long as the accumulator is understood the same way. `tile_row_bits` chooses the rows so
that one access brings a thread several of its rows, without bank conflicts under the 128-byte
swizzle (PTX ISA, "Swizzling modes": 16-byte chunk c of line k lies at chunk `c ^ k % 8`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tileiras.dialects.layout.errors import LayoutError
from tileiras.dialects.layout.linear_layout import LinearLayout
from tileiras.dialects.layout.mma import (
    M16N8K8_TF32,
    M16N8K32_S8,
    mma_operand_layout,
    wgmma_accumulator,
)

_FRAGMENTS = {8: M16N8K32_S8, 32: M16N8K8_TF32}
_LANE_ROWS, _PAIR_ROW, _WARP_ROWS = (0, 1, 2), 3, (4, 5)
"""Bits of an instruction's row: lane / 4; the second register, 8 rows below; the warp."""


def tile_row_bits(rows: int, element_bits: int, warpgroups: int) -> tuple[int, ...]:
    """For each bit of the row number of the instructions the bit of the row number of the tile.

    32 bits: a 16-byte chunk holds rows of one thread (the pair, and two blocks of 64 rows if there
    are), and neighbouring chunks belong to neighbouring `lane / 4`, the first two four chunks
    apart: four lanes that read K 0 to 3 there meet all eight chunks of the banks.
    8 bits: `ldmatrix` gives a thread two neighbouring rows, the pair; its eight columns of two rows
    are `lane / 4`.
    """
    count = rows.bit_length() - 1
    blocks = range(5 + warpgroups, count)
    if element_bits == 8:
        first = {_PAIR_ROW: 0, 0: 1, 1: 2, 2: 3}
    elif element_bits == 32:
        inner = [_PAIR_ROW, *blocks[:1]]
        first = {bit: position for position, bit in enumerate(inner)} | {0: 4}
    else:
        raise LayoutError(f"operands of {element_bits} bits have no rows to permute")
    free = iter(position for position in range(count) if position not in first.values())
    for bit in (*_LANE_ROWS, _PAIR_ROW, *range(4, count)):
        if bit not in first:
            first[bit] = next(free)
    return tuple(first[bit] for bit in range(count))


def register_rows_fragments(
    shape: tuple[int, int], element_bits: int, warpgroups: int
) -> LinearLayout:
    """Where the threads hold a left operand of `shape` = (rows, K): the fragments, rows permuted.

    Registers: those of an instruction, steps along K, blocks of 64 rows.
    """
    fragments = _FRAGMENTS[element_bits].a
    layout = mma_operand_layout(fragments, shape, (4 * warpgroups, 1), "A")
    return _with_rows(layout, tile_row_bits(shape[0], element_bits, warpgroups))


def register_rows_accumulator(
    shape: tuple[int, int], element_bits: int, warpgroups: int
) -> LinearLayout:
    """The accumulator of a product whose left operand is read that way; `shape` = (rows, N)."""
    layout = wgmma_accumulator(shape, warpgroups)
    return _with_rows(layout, tile_row_bits(shape[0], element_bits, warpgroups))


@lru_cache(maxsize=256)
def _with_rows(layout: LinearLayout, bits: Sequence[int]) -> LinearLayout:
    """The layout with bit i of its row number moved to bit `bits[i]`."""
    bases = {
        name: [(_moved(row, bits), column) for row, column in vectors]
        for name, vectors in layout.bases
    }
    return LinearLayout(bases, layout.shape)


def _moved(row: int, bits: Sequence[int]) -> int:
    """A row number with its bits in other places."""
    return sum(1 << place for bit, place in enumerate(bits) if row >> bit & 1)

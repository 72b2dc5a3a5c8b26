"""A product of 8-bit operands whose K runs in another order, the same in both of them.

A right operand of 8 bits must have K contiguous in shared memory. One that has not is transposed by
the threads: a transposing `ldmatrix` of 16-bit elements gives a thread K 2 i and 2 i + 1 of two
columns (i = lane % 4), and with that of the next eight lines it has four K of each: 2 i, 2 i + 1, 8
+ 2 i and 9 + 2 i. Written as one word, place 4 i + j of 16 holds the j-th of them. Any order will
do for the product; this one is that of an accumulator: a thread that holds a result of 64xN has
columns 2 i, 2 i + 1, 8 + 2 i and 9 + 2 i of each row, and takes them as its four K as they are.
"""

from __future__ import annotations

from tileiras.dialects.layout.linear_layout import LinearLayout
from tileiras.dialects.layout.mma import M16N8K32_S8, mma_operand_layout

SMEM_TRANSPOSE_COLUMNS = 64
"""Columns that the warps of a warpgroup transpose side by side, 16 each."""
K_OF_PLACE = (1, 8, 2, 4)
"""The K at the places 1, 2, 4 and 8 of 16; the others follow (the map is linear)."""


def smem_transposed_fragments(shape: tuple[int, ...], warpgroups: int) -> LinearLayout:
    """Where the threads hold a left operand of 8 bits, (rows, K), in that order of K."""
    plain = mma_operand_layout(M16N8K32_S8.a, shape, (4 * warpgroups, 1), "A")
    bases = {
        name: [(row, k_of_place(place)) for row, place in vectors] for name, vectors in plain.bases
    }
    return LinearLayout(bases, shape)


def k_of_place(place: int) -> int:
    """The K that lies at a place of the transposed operand."""
    moved = place & ~15
    for bit, k in enumerate(K_OF_PLACE):
        if place >> bit & 1:
            moved ^= k
    return moved

"""How a fragment moves between registers and shared memory with stmatrix and ldmatrix.

The instructions move 8x8 matrices of 16-bit elements: lane l holds in word i the elements 2 * (l %
4) and 2 * (l % 4) + 1 of row l / 4 of matrix i, and gives the address of row l % 8 of matrix l / 8.
Rows are 16 bytes long. Source: PTX ISA, "ldmatrix", "stmatrix".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tileiras.dialects.layout.blocked import LANE_BITS
from tileiras.dialects.layout.gf2 import matvec
from tileiras.dialects.layout.linear_layout import LinearLayout
from tileiras.dialects.layout.offsets import offset_bases

_ROW_BITS = 3
_ROW_BYTES = 16


@dataclass(frozen=True)
class MatrixTiles:
    """A fragment as groups of `count` matrices; all offsets are in bytes.

    Group g moves the words [g * count, (g + 1) * count) of the thread's fragment. This thread's
    address for it is `offsets[g]` `^` the `lane[b]` of its lane's set bits `^` the `warp[b]` of its
    warp's.
    """

    count: int
    transposed: bool
    lane: tuple[int, ...]
    warp: tuple[int, ...]
    offsets: tuple[int, ...]

    @property
    def thread_mask(self) -> int:
        """Offset bits that depend on lane or warp."""
        mask = 0
        for vector in (*self.lane, *self.warp):
            mask |= vector
        return mask


def plan_matrix_tiles(
    distributed: LinearLayout, shared: LinearLayout, element_bits: int
) -> MatrixTiles | None:
    """The plan that moves a distributed tile to or from `shared`, or None if none does.

    `distributed` maps (register, lane, warp) to coordinates, without duplicates; `shared` maps
    offsets. Elements of 8 and 32 bits move as parts or pairs of 16-bit ones, never transposed.
    """
    if element_bits not in (8, 16, 32) or distributed.in_bits("lane") != LANE_BITS:
        return None
    bases = offset_bases(distributed, shared)
    size = element_bits // 8
    register = [vector * size for vector in bases.vectors("register")]
    lane = [vector * size for vector in bases.vectors("lane")]
    warp = [vector * size for vector in bases.vectors("warp")] if "warp" in bases.in_dims else []
    word_bits = (4 // size).bit_length() - 1
    words = register[word_bits:]
    for transposed, inside, rows in (
        (False, [*register[:word_bits], *lane[:2]], lane[2:]),
        (True, lane[2:], [*register[:1], *lane[:2]]),
    ):
        if transposed and element_bits != 16:
            continue
        units = [size << bit for bit in range(len(inside))]
        aligned = all(vector % _ROW_BYTES == 0 for vector in (*rows, *words, *warp))
        if inside == units and size << len(inside) == _ROW_BYTES and aligned:
            return _tiles(transposed, rows, words, warp)
    return None


def _tiles(
    transposed: bool, rows: Sequence[int], words: Sequence[int], warp: Sequence[int]
) -> MatrixTiles:
    """Up to two bits of the word index become matrices of one instruction, the rest groups."""
    bits = min(2, len(words))
    groups = words[bits:]
    lane = [*rows, *words[:bits], *[0] * (LANE_BITS - _ROW_BITS - bits)]
    offsets = tuple(matvec(groups, group) for group in range(1 << len(groups)))
    return MatrixTiles(1 << bits, transposed, tuple(lane), tuple(warp), offsets)

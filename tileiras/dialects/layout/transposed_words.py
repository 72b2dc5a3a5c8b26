"""An operand of wgmma in 32-bit words, (K, columns) with columns contiguous, transposed by threads.

Lanes run along the columns: a load of one word reads a whole line of 32 banks. A thread holds four
K of its column, which are a 16-byte chunk of the transposed tile. Of the eight lanes that store
together each has another column, so the swizzle puts their chunks on different banks (PTX ISA,
"Swizzling modes": 16-byte chunk c of row n lies at chunk `c ^ n % 8`, for narrower swizzles in the
part of a line that the row has). K keeps its order: the left operand's fragments are those that
`wgmma_rows` reads without conflicts as it is.
"""

from __future__ import annotations

from tileiras.dialects.layout.blocked import LANE_BITS
from tileiras.dialects.layout.errors import LayoutError
from tileiras.dialects.layout.linear_layout import LinearLayout

CHUNK_WORDS = 4
"""Words along K that a thread stores at once."""
_LANES = 1 << LANE_BITS


def is_word_transposable(shape: tuple[int, int], warps: int) -> bool:
    """Whether so many warps divide a tile of (K, columns), each with work of its own."""
    k, columns = shape
    return columns % _LANES == 0 and k * columns >= CHUNK_WORDS * _LANES * warps


def transposed_words(shape: tuple[int, int], warps: int) -> LinearLayout:
    """Which words of the tile a thread transposes; four registers each are a chunk.

    Warps lie side by side along the columns first, then along K.
    """
    if not is_word_transposable(shape, warps):
        raise LayoutError(f"{warps} warps cannot transpose a tile of {shape} words")
    k, columns = shape
    blocks = [(0, step) for step in _doubling(_LANES, columns)]
    blocks += [(step, 0) for step in _doubling(CHUNK_WORDS, k)]
    warp_bits = warps.bit_length() - 1
    bases = {
        "register": [(step, 0) for step in _doubling(1, CHUNK_WORDS)] + blocks[warp_bits:],
        "lane": [(0, step) for step in _doubling(1, _LANES)],
        "warp": blocks[:warp_bits],
    }
    return LinearLayout(bases, shape)


def _doubling(first: int, end: int) -> list[int]:
    """`first`, twice that, and so on below `end`."""
    return [first << bit for bit in range((end // first).bit_length() - 1)]

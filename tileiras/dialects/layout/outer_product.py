"""The layout of a product whose threads add up outer products: a block of the result in each.

For every k a thread multiplies each of its rows of A with each of its columns of B, so what it
reads is the sum of rows and columns and what it computes is their product: blocks as square as can
be read least. Rows and columns come in vectors of four; neighbouring lanes hold neighbouring
vectors, along the columns and the rows in turn, so that of two lanes one may read for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tileiras.dialects.layout.blocked import LANE_BITS
from tileiras.dialects.layout.linear_layout import LinearLayout, checked_shape

_VECTOR_BITS = 2
"""Four elements of 4 bytes are what a thread reads at once."""


def outer_product(shape: Sequence[int], num_warps: int) -> LinearLayout:
    """The layout of a result of `shape` (rows and columns last, batches before).

    outer_product((64, 64), 4): 8 rows of 4 columns a thread, in vectors of 4 rows and 4 columns.
    """
    return _outer_product(checked_shape(shape), num_warps)


@lru_cache(maxsize=1024)
def _outer_product(shape: tuple[int, ...], num_warps: int) -> LinearLayout:
    """`outer_product` on hashable arguments."""
    columns = [1 << bit for bit in range(_bits(shape[-1]))]
    rows = [shape[-1] << bit for bit in range(_bits(shape[-2]))]
    matrix = shape[-1] * shape[-2]
    total = sum(_bits(size) for size in shape)
    batches = [matrix << bit for bit in range(total - len(rows) - len(columns))]
    warp_bits = _bits(num_warps)
    held = max(0, total - LANE_BITS - warp_bits)
    held_columns, held_rows = _share(held, len(columns), len(rows))
    held_batches = held - held_columns - held_rows
    column_vector, column_rest, columns = _split(columns, held_columns)
    row_vector, row_rest, rows = _split(rows, held_rows)
    batches, batch_rest = (
        batches[: len(batches) - held_batches],
        batches[len(batches) - held_batches :],
    )
    lanes: list[int] = []
    while len(lanes) < LANE_BITS and (rows or columns):
        take_rows = bool(rows) and (not columns or len(lanes) % 2 == 1)
        lanes.append((rows if take_rows else columns).pop(0))
    others = [*rows, *columns, *batches]
    missing = LANE_BITS - len(lanes)
    lanes += others[:missing]
    warps = others[missing:]
    return LinearLayout.from_index_bases(
        {
            "register": [*column_vector, *row_vector, *column_rest, *row_rest, *batch_rest],
            "lane": lanes + [0] * (LANE_BITS - len(lanes)),
            "warp": warps + [0] * (warp_bits - len(warps)),
        },
        shape,
    )


def _bits(size: int) -> int:
    """The logarithm of a power of two."""
    return size.bit_length() - 1


def _share(held: int, columns: int, rows: int) -> tuple[int, int]:
    """How many of `held` bits go to columns and to rows: as equally as their numbers allow."""
    taken_columns = min(columns, max((held + 1) // 2, held - rows))
    return taken_columns, min(rows, held - taken_columns)


def _split(bits: list[int], held: int) -> tuple[list[int], list[int], list[int]]:
    """The bits of a thread's vector, its other bits (the highest), and what is left."""
    vector = min(_VECTOR_BITS, held)
    rest = held - vector
    return bits[:vector], bits[len(bits) - rest :], bits[vector : len(bits) - rest]

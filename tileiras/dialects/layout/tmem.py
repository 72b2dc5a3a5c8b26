"""Where threads hold what they load from tensor memory.

An accumulator of up to 128 rows has row r in lane r (64 rows: the first 16 lanes of every 32), and
one column of 32 bits for each of its columns; further rows lie in further columns (PTX ISA, "Data
path layout"). Warp w reaches lanes 32 (w % 4) and on. So warps w and w + 4 have the same lanes, and
share columns out, or blocks of 128 rows where there are several.
"""

from __future__ import annotations

from functools import cache

from tileiras.dialects.layout.errors import LayoutError
from tileiras.dialects.layout.linear_layout import LinearLayout

BLOCK_ROWS = 128
"""Rows that lie in lanes; more lie beside them."""
HALF_ROWS = 64
"""Rows of the smaller accumulator."""
TMEM_COLUMNS = 512
"""The most that a target has (PTX ISA, "Tensor Memory"): what text is checked against."""
TMEM_COLUMN_BITS = 32
"""Of a lane's part of a column (PTX ISA, "Tensor Memory")."""
_LANES = {
    "16x256b": ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0)),
    "32x32b": ((1, 0), (2, 0), (4, 0), (8, 0), (16, 0)),
}
_REGISTERS = {"16x256b": ((0, 1), (8, 0)), "32x32b": ()}
_COLUMNS = {"16x256b": 8, "32x32b": 1}


@cache
def tmem_accumulator(shape: tuple[int, int], shape_name: str, warpgroups: int) -> LinearLayout:
    """Where threads of 1 or 2 warpgroups hold an accumulator loaded by `tcgen05.ld`.

    Registers run through the columns of a warp's lanes first, then to its other 16 lanes (16x256b),
    then to the next 128 rows. LayoutError for a tile that has no such place.
    """
    rows, columns = shape
    is_half = rows == HALF_ROWS
    blocks = rows // BLOCK_ROWS
    splits_rows = warpgroups > 1 and blocks >= warpgroups
    own = columns if splits_rows else columns // warpgroups
    least = _COLUMNS[shape_name]
    if rows % BLOCK_ROWS and not is_half:
        raise LayoutError(f"an accumulator has 64 rows or a multiple of 128, found {rows}")
    if own < least or (is_half and shape_name == "32x32b"):
        raise LayoutError(f"{shape_name} loads no tile of {shape} for {warpgroups} warpgroups")
    registers = [*_REGISTERS[shape_name], *_powers(least, own, 1)]
    if shape_name == "16x256b" and not is_half:
        registers.append((16, 0))
    first = BLOCK_ROWS * warpgroups if splits_rows else BLOCK_ROWS
    registers += _powers(first, rows, 0)
    lane_rows = 16 if is_half else 32
    warps = [(lane_rows, 0), (2 * lane_rows, 0)]
    if splits_rows:
        warps += _powers(BLOCK_ROWS, first, 0)
    else:
        warps += _powers(own, columns, 1)
    bases = {"register": registers, "lane": list(_LANES[shape_name]), "warp": warps}
    return LinearLayout(bases, shape)


def _powers(start: int, end: int, axis: int) -> list[tuple[int, int]]:
    """Basis vectors along an axis, from a distance on, each twice the one before."""
    found: list[tuple[int, int]] = []
    while start < end:
        found.append((start, 0) if axis == 0 else (0, start))
        start *= 2
    return found

"""Pieces in which a warpgroup's part of a tile leaves by TMA, through shared memory.

how warpgroups hold the tile                piece                   the next warpgroup's
rows of 64 (wgmma)                          64 rows, a span         64 rows further
64 rows for two of them                     64 rows, a span         behind its columns
columns, of a transposed product            64 rows, 64 columns     64 columns further
pairs of columns, of one that threads read  64 rows, 64 columns     64 columns further
lanes of tensor memory, blocks of rows      128 rows, a span        128 rows further
lanes of tensor memory, parts of columns    all rows, a span        behind its columns
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tileiras.codegen.atoms.shared_operands import SWIZZLE_BYTES, widest_swizzle
from tileiras.codegen.atoms.wgmma import ROWS
from tileiras.dialects.layout import LayoutError, LinearLayout
from tileiras.dialects.layout.mma import divides_columns, wgmma_accumulator
from tileiras.dialects.layout.tmem import BLOCK_ROWS, tmem_accumulator
from tileiras.dialects.layout.wgmma_rows import register_rows_accumulator

PIECE_BYTES = ROWS * SWIZZLE_BYTES
"""The rows of one wgmma by the widest swizzle span: tiles with shorter rows have smaller pieces."""
BUFFERS = 2
"""Pieces of a warpgroup in memory of their own: one is written while TMA reads the other."""
LOAD_SHAPES = ("16x256b", "32x32b")
"""Loads from tensor memory that leave a tile as pieces want it."""


def piece_bytes(rows: int = ROWS) -> int:
    """Shared memory of a piece of so many rows."""
    return rows * SWIZZLE_BYTES


def store_bytes(warpgroups: int, rows: int = ROWS) -> int:
    """Shared memory for tiles on their way out, whose pieces have so many rows at most."""
    return warpgroups * BUFFERS * piece_bytes(rows)


class Held(StrEnum):
    """How warpgroups divide a tile."""

    ROWS = "rows"
    COLUMNS = "columns"
    PAIRS = "pairs"
    LANES = "lanes"

    @property
    def is_across(self) -> bool:
        """Whether a warpgroup has columns of all rows."""
        return self in (Held.COLUMNS, Held.PAIRS)


@dataclass(frozen=True)
class PieceForm:
    """The pieces of a tile: what the first warpgroup has, and where the next one's begin."""

    rows: int
    span: int
    """Columns of a piece."""
    swizzle: int
    """Bytes of a row of a piece."""
    corners: tuple[tuple[int, int], ...]
    """Row and column where the first warpgroup's pieces begin."""
    step: int
    """Rows, or columns where `is_across`, from a warpgroup's piece to the next warpgroup's."""
    is_across: bool


def piece_form(shape: Sequence[int], warpgroups: int, bits: int, held: Held) -> PieceForm | None:
    """How a tile of elements of so many bits is cut; None where no pieces make it up."""
    rows, columns = shape[-2:]
    own, steps, ends = ROWS, (ROWS * warpgroups, 1), (rows, columns)
    if held.is_across:
        steps = (ROWS, warpgroups)
    elif held is Held.ROWS and divides_columns(rows, warpgroups):
        steps, ends = (ROWS, 1), (rows, columns // warpgroups)
    elif held is Held.LANES:
        own = min(rows, BLOCK_ROWS)
        splits_rows = warpgroups > 1 and rows >= BLOCK_ROWS * warpgroups
        steps = (own * warpgroups if splits_rows else own, 1)
        ends = (rows, columns if splits_rows else columns // warpgroups)
    swizzle = widest_swizzle(ends[1] * bits // 8)
    if swizzle is None:
        return None
    span = swizzle * 8 // bits
    # A warpgroup's columns of a transposed tile are a span.
    if held.is_across and span != ROWS:
        return None
    if own % ROWS or ends[0] % steps[0] or ends[1] % (steps[1] * span):
        return None
    corners = tuple(
        (row, column)
        for row in range(0, ends[0], steps[0])
        for column in range(0, ends[1], span * steps[1])
    )
    is_across = held.is_across or ends[1] < columns
    step = own
    if is_across:
        step = span if held.is_across else ends[1]
    return PieceForm(own, span, swizzle, corners, step, is_across)


def stored_layout(shape: Sequence[int], warpgroups: int, held: Held) -> LinearLayout:
    """Where the threads hold a tile from which pieces are cut: as a product leaves it.

    Pairs of columns are those of a product whose left operand of 8 bits threads read
    (`dialects/layout/wgmma_rows`): which column of 16 a row of the instruction is.
    """
    rows, columns = shape[-2:]
    match held:
        case Held.PAIRS:
            matrix = register_rows_accumulator((columns, rows), 8, warpgroups).permute((1, 0))
        case Held.COLUMNS:
            matrix = wgmma_accumulator((columns, rows), warpgroups).permute((1, 0))
        case _:
            matrix = wgmma_accumulator((rows, columns), warpgroups)
    return matrix.reshape(tuple(shape))


def stored_layouts(shape: Sequence[int], warpgroups: int, transposed: bool) -> list[LinearLayout]:
    """All such layouts of products that are computed transposed, or that are not."""
    ways = (Held.COLUMNS, Held.PAIRS) if transposed else (Held.ROWS,)
    return [stored_layout(shape, warpgroups, held) for held in ways]


def loaded_layouts(shape: Sequence[int], warpgroups: int) -> dict[str, LinearLayout]:
    """Where the threads hold a tile that they have loaded from tensor memory, by the load."""
    rows, columns = shape[-2:]
    found: dict[str, LinearLayout] = {}
    for load in LOAD_SHAPES:
        try:
            layout = tmem_accumulator((rows, columns), load, warpgroups)
        except LayoutError:
            continue
        found[load] = layout.reshape(tuple(shape))
    return found


def held_layout(shape: Sequence[int], warpgroups: int, held: Held) -> LinearLayout:
    """Where threads hold a tile; after the first load from tensor memory: all have its pieces."""
    if held is Held.LANES:
        return next(iter(loaded_layouts(shape, warpgroups).values()))
    return stored_layout(shape, warpgroups, held)

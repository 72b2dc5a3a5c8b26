"""Scales that TMA has brought, a row of 16 bytes behind the other, are put in chunks in place.

A lane of the warp that issues products has row r of each 32, and so all that goes to row r of every
chunk (`dialects/layout/scale_factors`): it loads whole rows, and stores whole rows of chunks.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from tileiras.codegen.lowering.context import KernelLowering
from tileiras.dialects.layout.scale_factors import (
    CHUNK_BYTES,
    CHUNK_ROWS,
    LANE_ROWS,
    ROW_BYTES,
    WORD_BLOCKS,
    chunk_number,
)
from tileiras.dialects.llvm.types import vector_type

_WORDS = ROW_BYTES // WORD_BLOCKS
"""Of a row, before and after."""


def put_in_chunks(ctx: KernelLowering, operands: Sequence[tuple[SSAValue, int]]) -> SSAValue:
    """All lanes of a warp move scales, at an address, of so many rows; i32: this lane's, or-ed.

    The tensor core sees them when the warp has passed a proxy fence and a barrier. All are loaded
    before any is stored, for loads to be under way together.
    """
    b, seen = ctx.b, list[SSAValue]()
    lane = b.zext(b.mul(b.and_(b.thread_id(), b.i32(LANE_ROWS - 1)), b.i32(ROW_BYTES)), i64)
    places = [b.gep(scales, lane) for scales, _ in operands]
    rows = [_rows(ctx, place, count) for place, (_, count) in zip(places, operands, strict=True)]
    b.warp_barrier()
    for place, mine in zip(places, rows, strict=True):
        _store_chunks(ctx, place, mine)
        seen += [word for row in mine for word in row]
    found = seen[0]
    for word in seen[1:]:
        found = b.or_(found, word)
    return found


def _rows(ctx: KernelLowering, place: SSAValue, count: int) -> list[list[SSAValue]]:
    """The words of every row of this lane."""
    b, type = ctx.b, vector_type(i32, _WORDS)
    starts = range(0, count * ROW_BYTES, LANE_ROWS * ROW_BYTES)
    loaded = [b.load(b.gep(place, start), type, ROW_BYTES) for start in starts]
    return [[b.extract(row, word) for word in range(_WORDS)] for row in loaded]


def _store_chunks(ctx: KernelLowering, place: SSAValue, rows: Sequence[list[SSAValue]]) -> None:
    """This lane's row of every chunk."""
    b, each = ctx.b, CHUNK_ROWS // LANE_ROWS
    for word in range(_WORDS):
        for first in range(0, len(rows), each):
            mine = [row[word] for row in rows[first : first + each]]
            mine += [b.i32(0)] * (each - len(mine))
            number = chunk_number(first * LANE_ROWS, word * WORD_BLOCKS, len(rows) * LANE_ROWS)
            b.store(b.build(mine), b.gep(place, number * CHUNK_BYTES), ROW_BYTES)

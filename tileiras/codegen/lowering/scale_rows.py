"""Scales that TMA has brought, a row of 16 bytes behind the other, are put in chunks where they lie.

A lane of the warp that issues products has row r of each 32, and so all that goes to row r of every
chunk (`dialects/layout/scale_factors`): it loads whole rows, and stores whole rows of chunks.
"""

from __future__ import annotations

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


def put_in_chunks(ctx: KernelLowering, scales: SSAValue, rows: int) -> SSAValue:
    """All lanes of a warp move the scales of an operand; i32: all of this lane's, or-ed.

    The tensor core sees them when the warp has passed a proxy fence and a barrier.
    """
    b = ctx.b
    lane = b.and_(b.thread_id(), b.i32(LANE_ROWS - 1))
    place = b.gep(scales, b.zext(b.mul(lane, b.i32(ROW_BYTES)), i64))
    type, found, parts = vector_type(i32, _WORDS), b.i32(0), list[list[SSAValue]]()
    for start in range(0, rows, LANE_ROWS):
        row = b.load(b.gep(place, start * ROW_BYTES), type, ROW_BYTES)
        parts.append([b.extract(row, word) for word in range(_WORDS)])
        for word in parts[-1]:
            found = b.or_(found, word)
    b.warp_barrier()
    each = CHUNK_ROWS // LANE_ROWS
    for block in range(_WORDS):
        for first in range(0, rows, CHUNK_ROWS):
            mine = [part[block] for part in parts[first // LANE_ROWS :][:each]]
            mine += [b.i32(0)] * (each - len(mine))
            number = chunk_number(first, block * WORD_BLOCKS, rows)
            b.store(b.build(mine), b.gep(place, number * CHUNK_BYTES), ROW_BYTES)
    return found

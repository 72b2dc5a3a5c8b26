"""A tile in the registers of a product, cut into the pieces in which TMA stores it.

A piece is 64 rows of one swizzle span: what a warpgroup holds in a power of two of registers.
16-bit elements go to shared memory by stmatrix, 32-bit ones in pairs. Of a product that is computed
transposed a warpgroup holds 64 columns of all rows, and stmatrix transposes. What comes from tensor
memory has pieces of 128 rows: with a row in four lanes (16x256b) it goes the same ways, with a row
in one thread (32x32b) in vectors of 16 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from tileiras.codegen.atoms.matrix_tiles import plan_matrix_tiles
from tileiras.codegen.atoms.shared_operands import SharedOperand
from tileiras.codegen.atoms.store_pieces import (
    Held,
    loaded_layouts,
    piece_form,
    stored_layout,
)
from tileiras.codegen.atoms.wgmma import ROWS, WARPGROUP
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.lowering.addressing import register_coordinates
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.staging import store_tile
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.mma import divides_columns
from tileiras.errors import InternalError

PAIR = 2
"""Neighbouring columns that a thread holds of a product."""
ROWS_IN_THREADS = "32x32b"
"""The load from tensor memory that leaves a row in a thread."""
VECTOR_BITS = 128
"""Neighbouring columns that are written at once where a thread holds a row."""


@dataclass(frozen=True)
class Piece:
    """Rows and columns of a tile that a warpgroup stores at once; for the first warpgroup."""

    row: int
    column: int
    registers: tuple[int, ...]


@dataclass(frozen=True)
class CutTile:
    """The pieces of a tile that each warpgroup holds, in the order of their registers.

    The registers of a piece are in the order of `layout`. Rows have `swizzle` bytes. The next
    warpgroup's piece is `step` rows further, or columns (`is_across`). What stmatrix does not write
    is written in vectors.
    """

    pieces: tuple[Piece, ...]
    layout: LinearLayout
    element_bits: int
    swizzle: int
    step: int
    is_across: bool
    vector: int

    def place(
        self, b: ThreadBuilder, piece: Piece, group: SSAValue | int
    ) -> tuple[SSAValue, SSAValue]:
        """Row and column in the tile where a warpgroup's piece starts."""
        step = self.step
        own = b.i32(group * step) if isinstance(group, int) else b.mul(group, b.i32(step))
        row, column = b.i32(piece.row), b.i32(piece.column)
        return (row, b.add(own, column)) if self.is_across else (b.add(own, row), column)

    def write(self, ctx: KernelLowering, value: SSAValue, piece: Piece, base: SSAValue) -> None:
        """A piece into its buffer; the warps of a warpgroup share it."""
        part = ctx.b.shuffle(value, None, piece.registers)
        bits, (rows, span) = self.element_bits, self.layout.shape
        shared = SharedOperand("k", rows, span, bits, self.swizzle).layout()
        tiles = plan_matrix_tiles(self.layout, shared, bits)
        if tiles is not None:
            ctx.b.store_matrices(part, base, ctx.threads.linear(tiles.lane, tiles.warp), tiles)
        else:
            store_tile(ctx, part, base, self.layout, shared, self.vector)


def cut_tile(layout: LinearLayout, warpgroups: int, element_bits: int) -> CutTile:
    """The pieces of a tile as a product leaves it, plain or transposed, or as it was loaded from
    tensor memory.
    """
    shape = layout.shape
    held, load = _held(layout, warpgroups)
    form = piece_form(shape, warpgroups, element_bits, held)
    if form is None:
        raise InternalError(f"a tile that no pieces store: {layout}", where="tile_pieces")
    size = (form.rows, form.span)
    if held is Held.LANES:
        local = loaded_layouts(size, 1)[load]
    else:
        local = stored_layout(size, 1, held)
    axis = len(shape) - 2
    places = zip(
        register_coordinates(layout, axis), register_coordinates(layout, axis + 1), strict=True
    )
    register = {place: number for number, place in enumerate(places)}
    inner = list(zip(register_coordinates(local, 0), register_coordinates(local, 1), strict=True))
    pieces = tuple(
        Piece(row, column, tuple(register[row + r, column + c] for r, c in inner))
        for row, column in form.corners
    )
    vector = VECTOR_BITS // element_bits if load == ROWS_IN_THREADS else PAIR
    return CutTile(pieces, local, element_bits, form.swizzle, form.step, form.is_across, vector)


def _held(layout: LinearLayout, warpgroups: int) -> tuple[Held, str]:
    """How warpgroups share a tile out, and by which load from tensor memory it came."""
    shape = layout.shape
    for held in (Held.ROWS, Held.COLUMNS, Held.PAIRS):
        is_divided = held is Held.ROWS and divides_columns(shape[-2], warpgroups)
        if shape[-1 if held.is_across else -2] % (ROWS * warpgroups) and not is_divided:
            continue
        if layout == stored_layout(shape, warpgroups, held):
            return held, ""
    for load, loaded in loaded_layouts(shape, warpgroups).items():
        if layout == loaded:
            return Held.LANES, load
    raise InternalError(f"a tile that no pieces store: {layout}", where="tile_pieces")


def warpgroup_number(ctx: KernelLowering) -> SSAValue:
    """Which warpgroup of the consumers this thread is in."""
    return ctx.b.lshr(ctx.b.thread_id(), ctx.b.i32(WARPGROUP.bit_length() - 1))

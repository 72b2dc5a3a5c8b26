"""A tile in the registers of a product, cut into the pieces in which TMA stores it.

A piece is 64 rows of one swizzle span: what a warpgroup holds in a power of two of registers.
16-bit elements go to shared memory by stmatrix, 32-bit ones in pairs. Of a product that is computed
transposed a warpgroup holds 64 columns of all rows, and stmatrix transposes.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from tileiras.codegen.atoms.matrix_tiles import plan_matrix_tiles
from tileiras.codegen.atoms.shared_operands import SharedOperand, widest_swizzle
from tileiras.codegen.atoms.store_pieces import stored_layout
from tileiras.codegen.atoms.wgmma import ROWS, WARPGROUP
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.lowering.addressing import register_coordinates
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.staging import store_tile
from tileiras.dialects.layout import LinearLayout
from tileiras.errors import InternalError

PAIR = 2
"""Neighbouring columns that a thread holds of a product."""


@dataclass(frozen=True)
class Piece:
    """Rows and columns of a tile that a warpgroup stores at once; for the first warpgroup."""

    row: int
    column: int
    registers: tuple[int, ...]


@dataclass(frozen=True)
class CutTile:
    """The pieces of a tile that each warpgroup holds, in the order of their registers.

    The registers of a piece are in the order of `layout`. Rows have `swizzle` bytes.
    """

    pieces: tuple[Piece, ...]
    layout: LinearLayout
    element_bits: int
    swizzle: int
    transposed: bool

    def place(
        self, b: ThreadBuilder, piece: Piece, group: SSAValue | int
    ) -> tuple[SSAValue, SSAValue]:
        """Row and column in the tile where a warpgroup's piece starts."""
        own = b.i32(group * ROWS) if isinstance(group, int) else b.mul(group, b.i32(ROWS))
        row, column = b.i32(piece.row), b.i32(piece.column)
        return (row, b.add(own, column)) if self.transposed else (b.add(own, row), column)

    def write(self, ctx: KernelLowering, value: SSAValue, piece: Piece, base: SSAValue) -> None:
        """A piece into its buffer; the warps of a warpgroup share it."""
        part = ctx.b.shuffle(value, None, piece.registers)
        bits, span = self.element_bits, self.layout.shape[1]
        shared = SharedOperand("k", ROWS, span, bits, self.swizzle).layout()
        tiles = plan_matrix_tiles(self.layout, shared, bits)
        if tiles is not None:
            ctx.b.store_matrices(part, base, ctx.threads.linear(tiles.lane, tiles.warp), tiles)
        else:
            store_tile(ctx, part, base, self.layout, shared, PAIR)


def cut_tile(layout: LinearLayout, warpgroups: int, element_bits: int) -> CutTile:
    """The pieces of a tile that has the layout of a product, plain or transposed."""
    shape = layout.shape
    rows, columns = shape[-2:]
    swizzle = widest_swizzle(columns * element_bits // 8)
    transposed = layout != stored_layout(shape, warpgroups, False)
    if swizzle is None or (transposed and layout != stored_layout(shape, warpgroups, True)):
        raise InternalError(f"a tile that no pieces store: {layout}", where="tile_pieces")
    span = swizzle * 8 // element_bits
    if transposed and span != ROWS:
        raise InternalError("a warpgroup's columns are no span", where="tile_pieces")
    local = stored_layout((ROWS, span), 1, transposed)
    axis = len(shape) - 2
    places = zip(
        register_coordinates(layout, axis), register_coordinates(layout, axis + 1), strict=True
    )
    register = {place: number for number, place in enumerate(places)}
    inner = list(zip(register_coordinates(local, 0), register_coordinates(local, 1), strict=True))
    row_step, column_step = ROWS, span
    if transposed:
        column_step *= warpgroups
    else:
        row_step *= warpgroups
    pieces = tuple(
        Piece(row, column, tuple(register[row + r, column + c] for r, c in inner))
        for row in range(0, rows, row_step)
        for column in range(0, columns, column_step)
    )
    return CutTile(pieces, local, element_bits, swizzle, transposed)


def warpgroup_number(ctx: KernelLowering) -> SSAValue:
    """Which warpgroup of the consumers this thread is in."""
    return ctx.b.lshr(ctx.b.thread_id(), ctx.b.i32(WARPGROUP.bit_length() - 1))

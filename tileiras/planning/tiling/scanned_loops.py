"""Loops that scan tile after tile along rows, of which two iterations side by side wait less.

    for %i { %s = scan %x[%i]; store %s + %before; %before += sum %x[%i] }
    -> for %i step 2 { both loads; scan %x[%i]; ..; scan %x[%i + 1]; .. }, and what is left

An iteration waits for its tile, for shuffles of each step of the scan, and at barriers. What the
next one does before it needs what comes before its tile does not depend on that.
"""

from __future__ import annotations

from math import prod

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.schedule import REMAINDER
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.planning.schedule.unrolled_loads import can_unroll

TOGETHER = 2
"""Policy: iterations side by side."""
LEAST_ELEMENTS, MOST_ELEMENTS = 1024, 4096
"""Policy: of a tile. Two larger ones have no room in the registers of eight warps."""
LEAST_ROWS, MANY_ROWS = 8, 32
"""Policy: of tiles that are scanned along rows: with fewer an SM has many tile blocks."""
SHORT_BYTES, LONG_BYTES = 128, 1024
"""Policy: rows between them gain only in tiles of `MANY_ROWS` that are not the largest. 8192x8192,
us on one H200, one tile and two: f16 16x64 79.6, 75.8; 16x256 71.5, 73.1; f32 16x128 139.8, 143.0;
16x256 149.8, 140.1; 8x256 144.4, 138.6; 64x64 143.6, 144.6; 32x64 154.7, 143.9; f16 64x64 81.5,
76.2; 32x64 98.5, 73.9; 32x128 75.0, 75.7; 128x64 81.2, 93.1.
"""


def scans_side_by_side(loop: aa.ForOp) -> bool:
    """Whether two iterations of a loop are to be computed side by side."""
    if REMAINDER in loop.attributes or not can_unroll(loop):
        return False
    ops = list(loop.body.block.ops)
    scans = [op for op in ops if isinstance(op, aa.ScanOp)]
    loads = [op for op in ops if isinstance(op, aa.TiledLoadOp)]
    if len(scans) != 1 or len(loads) != 1:
        return False
    [scan], [load] = scans, loads
    shape, dim, view = shape_of(scan.operands[0]), scan.dim.value.data, view_type_of(load.view)
    if shape != tuple(view.tile_shape) or not LEAST_ELEMENTS <= prod(shape) <= MOST_ELEMENTS:
        return False
    if not goes_along_rows(view, dim):
        return False
    bits, elements = storage_bits(view.memref.element_type), prod(shape)
    rows = elements // shape[dim]
    if SHORT_BYTES < shape[dim] * bits // 8 < LONG_BYTES:
        return rows >= MANY_ROWS and elements < MOST_ELEMENTS
    return rows >= LEAST_ROWS


def goes_along_rows(view: aa.TiledViewType, dim: int) -> bool:
    """Whether elements along a dim of a view's tiles lie side by side."""
    return view.memref.strides[view.dim_map[dim]] == 1

"""Scans and places of extremes over each axis, whole rows at once and in loops over tiles."""

from __future__ import annotations

import cuda.tile as ct

Int = ct.Constant[int]


@ct.kernel
def scan_rows(x, out, rows: Int, columns: Int):
    """Prefix sums along rows, whole rows in one tile."""
    place = (ct.bid(0), 0)
    tile = ct.load(x, place, (rows, columns)).astype(ct.float32)
    ct.store(out, place, ct.cumsum(tile, axis=1).astype(out.dtype))


@ct.kernel
def scan_rows_in_tiles(x, out, rows: Int, columns: Int):
    """Prefix sums along rows, tile after tile."""
    row, before = ct.bid(0), ct.zeros((rows, 1), ct.float32)
    for j in range(ct.cdiv(x.shape[1], columns)):
        tile = ct.load(x, (row, j), (rows, columns)).astype(ct.float32)
        ct.store(out, (row, j), (ct.cumsum(tile, axis=1) + before).astype(out.dtype))
        before += ct.sum(tile, axis=1, keepdims=True)


@ct.kernel
def scan_columns_in_tiles(x, out, rows: Int, columns: Int):
    """Prefix sums down columns, tile after tile."""
    column, before = ct.bid(0), ct.zeros((1, columns), ct.float32)
    for j in range(ct.cdiv(x.shape[0], rows)):
        tile = ct.load(x, (j, column), (rows, columns)).astype(ct.float32)
        ct.store(out, (j, column), (ct.cumsum(tile, axis=0) + before).astype(out.dtype))
        before += ct.sum(tile, axis=0, keepdims=True)


@ct.kernel
def argmax_rows(x, out, rows: Int, columns: Int):
    """Places of the largest elements of rows, whole rows in one tile."""
    tile = ct.load(x, (ct.bid(0), 0), (rows, columns))
    ct.store(out, (ct.bid(0),), ct.argmax(tile, axis=1).astype(out.dtype))


@ct.kernel
def argmax_columns_in_tiles(x, out, rows: Int, columns: Int):
    """Places of the largest elements of columns, tile after tile; the first of equal ones."""
    column = ct.bid(0)
    top = ct.full((columns,), -float("inf"), x.dtype)
    where = ct.zeros((columns,), ct.int32)
    for j in range(ct.cdiv(x.shape[0], rows)):
        tile = ct.load(x, (j, column), (rows, columns))
        here = ct.argmax(tile, axis=0).astype(ct.int32) + j * rows
        highest = ct.max(tile, axis=0)
        where = ct.where(highest > top, here, where)
        top = ct.maximum(top, highest)
    ct.store(out, (column,), where)

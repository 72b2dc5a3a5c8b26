"""Kernels with products in other loops than one `for` over K, as users write them."""

from __future__ import annotations

import cuda.tile as ct
from kernel_parts import ZERO, Int, expert_tile, tile_of_block


@ct.kernel
def grouped_lists(a, b, out, blocks: Int, tm: Int, tn: Int, tk: Int):
    """out[g] = a[g] @ b[g] for lists of matrices; blocks walk over the tiles of all of them."""
    tile, end = ct.bid(0), 0
    for group in range(len(a)):
        left, right, result = a[group], b[group], out[group]
        steps = ct.num_tiles(left, 1, (tm, tk))
        columns = ct.num_tiles(right, 1, (tk, tn))
        count = ct.num_tiles(left, 0, (tm, tk)) * columns
        while tile >= end and tile < end + count:
            row, column = (tile - end) // columns, (tile - end) % columns
            total = ct.zeros((tm, tn), ct.float32)
            for k in range(steps):
                mine = ct.load(left, (row, k), (tm, tk), padding_mode=ZERO)
                other = ct.load(right, (k, column), (tk, tn), padding_mode=ZERO)
                total = ct.mma(mine, other, total)
            ct.store(result, (row, column), total.astype(result.dtype))
            tile += blocks
        end = end + count


@ct.kernel
def while_gemm(a, b, out, tm: Int, tn: Int, tk: Int, group: Int):
    """out = a @ b; a `while` walks over K."""
    row_tiles, column_tiles = ct.cdiv(a.shape[0], tm), ct.cdiv(b.shape[1], tn)
    row, column = tile_of_block(ct.bid(0), row_tiles, column_tiles, group)
    total = ct.zeros((tm, tn), ct.float32)
    k, left = 0, a.shape[1]
    while left > 0:
        mine = ct.load(a, (row, k), (tm, tk), padding_mode=ZERO)
        other = ct.load(b, (k, column), (tk, tn), padding_mode=ZERO)
        total = ct.mma(mine, other, total)
        left -= tk
        k += 1
    ct.store(out, (row, column), total.astype(out.dtype))


@ct.kernel
def break_gemm(a, b, out, tm: Int, tn: Int, tk: Int, group: Int):
    """out = a @ b; the loop over K ends by `break` in its middle."""
    row_tiles, column_tiles = ct.cdiv(a.shape[0], tm), ct.cdiv(b.shape[1], tn)
    row, column = tile_of_block(ct.bid(0), row_tiles, column_tiles, group)
    total = ct.zeros((tm, tn), ct.float32)
    k = 0
    while True:
        mine = ct.load(a, (row, k), (tm, tk), padding_mode=ZERO)
        other = ct.load(b, (k, column), (tk, tn), padding_mode=ZERO)
        total = ct.mma(mine, other, total)
        k += 1
        if k * tk >= a.shape[1]:
            break
    ct.store(out, (row, column), total.astype(out.dtype))


@ct.kernel
def masked_gemm(a, b, out, mask, tm: Int, tn: Int, tk: Int, group: Int):
    """out = a @ b, of a the tiles that the mask keeps."""
    row_tiles, column_tiles = ct.cdiv(a.shape[0], tm), ct.cdiv(b.shape[1], tn)
    row, column = tile_of_block(ct.bid(0), row_tiles, column_tiles, group)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(tm, tk))):
        if ct.load(mask, (row, k), ()) > 0:
            mine = ct.load(a, (row, k), (tm, tk), padding_mode=ZERO)
            other = ct.load(b, (k, column), (tk, tn), padding_mode=ZERO)
            total = ct.mma(mine, other, total)
    ct.store(out, (row, column), total.astype(out.dtype))


@ct.kernel
def guarded_gemm(a, b, out, tm: Int, tn: Int, tk: Int, group: Int):
    """out = a @ b; blocks past the last tile do nothing: the whole loop under a condition."""
    row_tiles, column_tiles = ct.cdiv(a.shape[0], tm), ct.cdiv(b.shape[1], tn)
    row, column = tile_of_block(ct.bid(0), row_tiles, column_tiles, group)
    if row < row_tiles:
        total = ct.zeros((tm, tn), ct.float32)
        for k in range(ct.num_tiles(a, axis=1, shape=(tm, tk))):
            mine = ct.load(a, (row, k), (tm, tk), padding_mode=ZERO)
            other = ct.load(b, (k, column), (tk, tn), padding_mode=ZERO)
            total = ct.mma(mine, other, total)
        ct.store(out, (row, column), total.astype(out.dtype))


@ct.kernel
def routed_gemm(tokens, weights, out, slots, experts, chosen: Int, tm: Int, tn: Int, tk: Int):
    """`kernels.expert_gemm` in the client's order of blocks: 8 tiles of rows at a time."""
    row_tiles, column_tiles = ct.cdiv(slots.shape[0], tm), ct.cdiv(weights.shape[1], tn)
    first = ct.bid(0) // (8 * column_tiles) * 8
    rows = min(row_tiles - first, 8)
    row, column = first + ct.bid(0) % rows, ct.bid(0) % (8 * column_tiles) // rows
    expert_tile(tokens, weights, out, slots, experts, row, column, chosen, tm, tn, tk)

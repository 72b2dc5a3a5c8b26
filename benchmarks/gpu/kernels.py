"""The benchmark's kernels, written for cuTile Python; importing this needs its package."""

from __future__ import annotations

import cuda.tile as ct
from kernel_parts import (
    LOG2_E,
    ZERO,
    Bool,
    Int,
    divided,
    expert_tile,
    product,
    softmax_step,
    tile_of_block,
)


@ct.kernel
def gemm(a, b, out, tm: Int, tn: Int, tk: Int, group: Int):
    """out = a @ b, one tile a block."""
    row_tiles, column_tiles = ct.cdiv(a.shape[0], tm), ct.cdiv(b.shape[1], tn)
    row, column = tile_of_block(ct.bid(0), row_tiles, column_tiles, group)
    total = product(a, b, row, column, tm, tn, tk, 0, 1)
    ct.store(out, (row, column), total.astype(out.dtype))


@ct.kernel
def f32_gemm(a, b, out, tm: Int, tn: Int, tk: Int, group: Int):
    """out = a @ b of f32 that stays f32, one tile a block."""
    row_tiles, column_tiles = ct.cdiv(a.shape[0], tm), ct.cdiv(b.shape[1], tn)
    row, column = tile_of_block(ct.bid(0), row_tiles, column_tiles, group)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(tm, tk))):
        left = ct.load(a, (row, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (k, column), (tk, tn), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, right, total)
    ct.store(out, (row, column), total)


@ct.kernel
def persistent_gemm(a, b, out, tm: Int, tn: Int, tk: Int, group: Int):
    """out = a @ b by as many blocks as fit on the GPU; each walks over tiles."""
    row_tiles, column_tiles = ct.cdiv(a.shape[0], tm), ct.cdiv(b.shape[1], tn)
    for tile in range(ct.bid(0), row_tiles * column_tiles, ct.num_blocks(0)):
        row, column = tile_of_block(tile, row_tiles, column_tiles, group)
        total = product(a, b, row, column, tm, tn, tk, 0, 1)
        ct.store(out, (row, column), total.astype(out.dtype))


@ct.kernel
def split_gemm(a, b, out, locks, turns, tm: Int, tn: Int, tk: Int, group: Int, parts: Int):
    """out = a @ b, the depth shared by `parts` blocks that add to the tile under a lock."""
    row_tiles, column_tiles = ct.cdiv(a.shape[0], tm), ct.cdiv(b.shape[1], tn)
    tile = ct.bid(0)
    row, column = tile_of_block(tile, row_tiles, column_tiles, group)
    total = product(a, b, row, column, tm, tn, tk, ct.bid(1), parts).astype(out.dtype)
    while ct.atomic_cas(locks, tile, 0, 1, memory_order=ct.MemoryOrder.ACQUIRE) == 1:
        pass
    turn = ct.gather(turns, tile)
    if turn == 0:
        ct.store(out, (row, column), total)
    else:
        ct.store(out, (row, column), ct.load(out, (row, column), (tm, tn)) + total)
    ct.scatter(turns, tile, (turn + 1) % parts)
    ct.atomic_xchg(locks, tile, 0, memory_order=ct.MemoryOrder.RELEASE)


@ct.kernel
def split_gemm_atomic(a, b, out, tm: Int, tn: Int, tk: Int, group: Int, parts: Int):
    """out += a @ b, the depth shared by `parts` blocks that add to the tile atomically."""
    row_tiles, column_tiles = ct.cdiv(a.shape[0], tm), ct.cdiv(b.shape[1], tn)
    row, column = tile_of_block(ct.bid(0), row_tiles, column_tiles, group)
    total = product(a, b, row, column, tm, tn, tk, ct.bid(1), parts)
    out.tiled_view((tm, tn)).atomic_store_add((row, column), total)


@ct.kernel
def batched_gemm(a, b, out, tm: Int, tn: Int, tk: Int):
    """out[i] = a[i] @ b[i]; sums in the type of integers or f32."""
    batch, row, column = ct.bid(2), ct.bid(1), ct.bid(0)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[2], tk)):
        left = ct.load(a, (batch, row, k), (1, tm, tk), padding_mode=ZERO)
        right = ct.load(b, (batch, k, column), (1, tk, tn), padding_mode=ZERO)
        total = ct.mma(left.reshape((tm, tk)), right.reshape((tk, tn)), total)
    ct.store(out, (batch, row, column), total.astype(out.dtype).reshape((1, tm, tn)))


@ct.kernel
def grouped_gemm(a, b, out, groups, tm: Int, tn: Int, tk: Int, group: Int):
    """out = a @ b[g], where `groups` names the g of each tile of rows; persistent."""
    row_tiles, column_tiles = ct.cdiv(a.shape[0], tm), ct.cdiv(b.shape[2], tn)
    for tile in range(ct.bid(0), row_tiles * column_tiles, ct.num_blocks(0)):
        row, column = tile_of_block(tile, row_tiles, column_tiles, group)
        mine = ct.load(groups, index=row, shape=())
        total = ct.zeros((tm, tn), ct.float32)
        for k in range(ct.cdiv(a.shape[1], tk)):
            left = ct.load(a, (row, k), (tm, tk), padding_mode=ZERO)
            right = ct.load(b, (mine, k, column), (1, tk, tn), padding_mode=ZERO)
            total = ct.mma(left, right.reshape((tk, tn)), total)
        ct.store(out, (row, column), total.astype(out.dtype))


@ct.kernel
def integer_gemm(a, b, out, tm: Int, tn: Int, tk: Int, group: Int):
    """out = a @ b for int8 operands, in int32."""
    row_tiles, column_tiles = ct.cdiv(a.shape[0], tm), ct.cdiv(b.shape[1], tn)
    row, column = tile_of_block(ct.bid(0), row_tiles, column_tiles, group)
    total = ct.zeros((tm, tn), ct.int32)
    for k in range(ct.num_tiles(a, axis=1, shape=(tm, tk))):
        left = ct.load(a, (row, k), (tm, tk), padding_mode=ZERO)
        right = ct.load(b, (k, column), (tk, tn), padding_mode=ZERO)
        total = ct.mma(left, right, total)
    ct.store(out, (row, column), total)


@ct.kernel
def expert_gemm(tokens, weights, out, slots, experts, chosen: Int, tm: Int, tn: Int, tk: Int):
    """out[slot] = tokens[slot // chosen] @ weights[expert].T, one tile a block."""
    row, column = ct.bid(1), ct.bid(0)
    expert_tile(tokens, weights, out, slots, experts, row, column, chosen, tm, tn, tk)


@ct.kernel
def attention(
    q, k, v, out, scale: float, tm: Int, tn: Int, depth: Int, heads: Int, share: Int, causal: Bool
):
    """Softmax attention in one pass; `share` query heads read one key head."""
    block = ct.bid(0)
    batch, head = ct.bid(1) // heads, ct.bid(1) % heads
    scale = scale * LOG2_E
    queries = ct.load(q, (batch, head, block, 0), (1, 1, tm, depth)).reshape((tm, depth))
    tops = ct.full((tm, 1), -float("inf"), ct.float32)
    sums = ct.zeros((tm, 1), ct.float32)
    total = ct.zeros((tm, depth), ct.float32)
    length = k.shape[2]
    end = min((block + 1) * tm, length) if causal else length
    rows = block * tm + ct.arange(tm, dtype=ct.int32)[:, None]
    for j in range(ct.cdiv(end, tn)):
        keys = ct.load(
            k, (batch, head // share, 0, j), (1, 1, depth, tn), order=(0, 1, 3, 2), latency=2
        )
        scores = ct.mma(queries, keys.reshape((depth, tn)), ct.zeros((tm, tn), ct.float32))
        if causal and j >= block * tm // tn:
            columns = j * tn + ct.arange(tn, dtype=ct.int32)[None, :]
            scores += ct.where(rows >= columns, 0.0, -float("inf"))
        powers, fade, tops, sums = softmax_step(scores, scale, tops, sums)
        values = ct.load(v, (batch, head // share, j, 0), (1, 1, tn, depth), latency=4)
        total = ct.mma(powers.astype(q.dtype), values.reshape((tn, depth)), total * fade)
    result = divided(total, sums)
    ct.store(out, (batch, head, block, 0), result.astype(out.dtype).reshape((1, 1, tm, depth)))


@ct.kernel
def decode(q, k, v, out, scale: float, tm: Int, tn: Int, depth: Int, heads: Int):
    """Attention of one new token: the query heads that share a key head are the rows."""
    batch, head = ct.bid(0) // heads, ct.bid(0) % heads
    scale = scale * LOG2_E
    queries = ct.load(q, (batch, head, 0, 0), (1, 1, tm, depth), padding_mode=ZERO)
    queries = queries.reshape((tm, depth))
    tops = ct.full((tm, 1), -float("inf"), ct.float32)
    sums = ct.zeros((tm, 1), ct.float32)
    total = ct.zeros((tm, depth), ct.float32)
    for j in range(ct.cdiv(k.shape[2], tn)):
        keys = ct.load(k, (batch, head, 0, j), (1, 1, depth, tn), order=(0, 1, 3, 2))
        scores = ct.mma(queries, keys.reshape((depth, tn)), ct.zeros((tm, tn), ct.float32))
        powers, fade, tops, sums = softmax_step(scores, scale, tops, sums)
        values = ct.load(v, (batch, head, j, 0), (1, 1, tn, depth)).reshape((tn, depth))
        total = ct.mma(powers.astype(q.dtype), values, total * fade)
    result = divided(total, sums)
    ct.store(out, (batch, head, 0, 0), result.astype(out.dtype).reshape((1, 1, tm, depth)))


@ct.kernel
def vector_add(a, b, out, tile: Int):
    """out = a + b."""
    block = ct.bid(0)
    ct.store(out, (block,), ct.load(a, (block,), (tile,)) + ct.load(b, (block,), (tile,)))


@ct.kernel
def transpose(source, out, rows: Int, columns: Int):
    """out = source transposed, tile by tile."""
    tile = ct.load(source, (ct.bid(1), ct.bid(0)), (rows, columns))
    ct.store(out, (ct.bid(0), ct.bid(1)), ct.transpose(tile))


@ct.kernel
def column_sums(source, out, rows: Int, columns: Int):
    """Sums of columns, a block for `columns` of them."""
    column, total = ct.bid(0), ct.zeros((rows, columns), ct.float32)
    for j in range(ct.cdiv(source.shape[0], rows)):
        total += ct.load(source, (j, column), (rows, columns), padding_mode=ZERO)
    ct.store(out, (column,), ct.sum(total, axis=0))


@ct.kernel
def row_softmax(source, out, rows: Int, columns: Int):
    """Softmax of each row, whole rows in one tile."""
    index = (ct.bid(0), 0)
    tile = ct.load(source, index, (rows, columns), padding_mode=ct.PaddingMode.NEG_INF)
    wide = tile.astype(ct.float32)
    powers = ct.exp(wide - ct.max(wide, axis=1, keepdims=True))
    ct.store(out, index, (powers / ct.sum(powers, axis=1, keepdims=True)).astype(out.dtype))


@ct.kernel
def layer_norm(x, weight, bias, out, eps: float, columns: Int):
    """Layer norm of one row a block, in three passes over tiles of the row."""
    row, length = ct.bid(0), x.shape[1]
    total = ct.zeros((1, columns), ct.float32)
    for j in range(ct.cdiv(length, columns)):
        total += ct.load(x, (row, j), (1, columns), padding_mode=ZERO).astype(ct.float32)
    centre = ct.sum(total, axis=1) / length
    squares = ct.zeros((1, columns), ct.float32)
    for j in range(ct.cdiv(length, columns)):
        tile = ct.load(x, (row, j), (1, columns), padding_mode=ZERO).astype(ct.float32)
        is_inside = j * columns + ct.arange(columns, dtype=ct.int32) < length
        distance = ct.where(is_inside, tile - centre, 0.0)
        squares += distance * distance
    scale = ct.rsqrt(ct.sum(squares, axis=1) / length + eps)
    for j in range(ct.cdiv(length, columns)):
        tile = ct.load(x, (row, j), (1, columns), padding_mode=ZERO).astype(ct.float32)
        gain = ct.load(weight, (j,), (columns,), padding_mode=ZERO).astype(ct.float32)
        shift = ct.load(bias, (j,), (columns,), padding_mode=ZERO).astype(ct.float32)
        ct.store(out, (row, j), ((tile - centre) * scale * gain + shift).astype(out.dtype))


@ct.kernel
def rms_norm(x, weight, out, eps: float, columns: Int):
    """RMS norm of one row a block, whole rows in one tile."""
    row, length = ct.bid(0), x.shape[1]
    tile = ct.load(x, (row, 0), (1, columns), padding_mode=ZERO).astype(ct.float32)
    gain = ct.load(weight, (0,), (columns,), padding_mode=ZERO).astype(ct.float32)
    scale = ct.rsqrt(ct.sum(tile * tile, axis=1, keepdims=True) / length + eps)
    ct.store(out, (row, 0), (tile * scale * gain).astype(out.dtype))


@ct.kernel
def persistent_rms_norm(x, weight, out, eps: float, rows: Int, columns: Int):
    """RMS norm by as many blocks as fit on the GPU; each walks over groups of rows."""
    length = x.shape[1]
    gain = ct.load(weight, (0,), (columns,), padding_mode=ZERO).astype(ct.float32)
    for group in range(ct.bid(0), ct.cdiv(x.shape[0], rows), ct.num_blocks(0)):
        tile = ct.load(x, (group, 0), (rows, columns), padding_mode=ZERO).astype(ct.float32)
        scale = ct.rsqrt(ct.sum(tile * tile, axis=1, keepdims=True) / length + eps)
        ct.store(out, (group, 0), (tile * scale * gain).astype(out.dtype))


@ct.kernel
def chunked_softmax(source, out, columns: Int):
    """Softmax of one row a block, in tiles: the largest element and the sum first."""
    row, length = ct.bid(0), source.shape[1]
    padding = ct.PaddingMode.NEG_INF
    top = ct.full((1, columns), -float("inf"), ct.float32)
    total = ct.zeros((1, columns), ct.float32)
    for j in range(ct.cdiv(length, columns)):
        tile = ct.load(source, (row, j), (1, columns), padding_mode=padding).astype(ct.float32)
        higher = ct.maximum(ct.maximum(top, tile), -1e30)
        total = total * ct.exp(top - higher) + ct.exp(tile - higher)
        top = higher
    highest = ct.max(top, axis=1, keepdims=True)
    total = ct.sum(total * ct.exp(top - highest), axis=1, keepdims=True)
    for j in range(ct.cdiv(length, columns)):
        tile = ct.load(source, (row, j), (1, columns), padding_mode=padding).astype(ct.float32)
        ct.store(out, (row, j), (ct.exp(tile - highest) / total).astype(out.dtype))


@ct.kernel
def rms_norm_gather(x, weight, out, eps: float, columns: Int):
    """RMS norm of one row a block, through pointers."""
    row, length = ct.bid(0), x.shape[1]
    places = ct.arange(columns, dtype=ct.int32)
    tile = ct.gather(x, (row, places)).astype(ct.float32)
    gain = ct.gather(weight, places).astype(ct.float32)
    scale = ct.rsqrt(ct.sum(tile * tile) / length + eps)
    ct.scatter(out, (row, places), (tile * scale * gain).astype(out.dtype))

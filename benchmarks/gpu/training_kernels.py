"""Kernels of rows that training of language models has beside products and norms."""

from __future__ import annotations

import cuda.tile as ct

Int = ct.Constant[int]
ROOT_2_OVER_PI = 0.7978845608028654


@ct.kernel
def geglu(gate, up, out, tile: Int):
    """out = gelu(gate) * up, GELU by its approximation with tanh; a part of a row a block."""
    place = (ct.bid(0), ct.bid(1))
    value = ct.load(gate, place, (1, tile)).astype(ct.float32)
    other = ct.load(up, place, (1, tile)).astype(ct.float32)
    inner = ROOT_2_OVER_PI * (value + 0.044715 * value * value * value)
    ct.store(out, place, (0.5 * value * (1.0 + ct.tanh(inner)) * other).astype(out.dtype))


@ct.kernel
def cross_entropy(scores, targets, out, columns: Int):
    """out[i] = log(sum(exp(scores[i]))) - scores[i, targets[i]], one row a block, in tiles."""
    row, length = ct.bid(0), scores.shape[1]
    padding = ct.PaddingMode.NEG_INF
    top = ct.full((1, columns), -1e30, ct.float32)
    total = ct.zeros((1, columns), ct.float32)
    for j in range(ct.cdiv(length, columns)):
        tile = ct.load(scores, (row, j), (1, columns), padding_mode=padding).astype(ct.float32)
        higher = ct.maximum(top, tile)
        total = total * ct.exp(top - higher) + ct.exp(tile - higher)
        top = higher
    highest = ct.max(top, axis=1, keepdims=True)
    total = ct.sum(total * ct.exp(top - highest), axis=1, keepdims=True)
    target = ct.load(targets, index=row, shape=())
    chosen = ct.load(scores, (row, target), (1, 1)).astype(ct.float32)
    ct.store(out, (row,), (ct.log(total) + highest - chosen).reshape((1,)))


@ct.kernel
def embedding(table, indices, out, columns: Int):
    """out[i] = table[indices[i]], a part of a row a block."""
    token, part = ct.bid(0), ct.bid(1)
    mine = ct.load(indices, index=token, shape=())
    ct.store(out, (token, part), ct.load(table, (mine, part), (1, columns)))


@ct.kernel
def index_add(source, indices, out, columns: Int):
    """out[indices[i]] += source[i], the gradient of `embedding`; a part of a row a block."""
    token, part = ct.bid(0), ct.bid(1)
    mine = ct.load(indices, index=token, shape=())
    tile = ct.load(source, (token, part), (1, columns)).astype(ct.float32)
    out.tiled_view((1, columns)).atomic_store_add((mine, part), tile)


@ct.kernel
def layer_norm_backward(dw, db, dx, dy, x, weight, mean, rstd, locks, columns: Int):
    """dx, and dw and db summed up in as many rows as there are locks; a row a block, in tiles."""
    row, length, group = ct.bid(0), x.shape[1], ct.bid(0) % dw.shape[0]
    place, zero = (1, columns), ct.PaddingMode.ZERO
    center = ct.load(mean, (row,), (1,)).reshape((1, 1))
    scale = ct.load(rstd, (row,), (1,)).reshape((1, 1))
    along = ct.zeros(place, ct.float32)
    across = ct.zeros(place, ct.float32)
    for j in range(ct.cdiv(length, columns)):
        slope = ct.load(dy, (row, j), place, padding_mode=zero).astype(ct.float32)
        slope = slope * ct.load(weight, (j,), (columns,), padding_mode=zero).astype(ct.float32)
        value = ct.load(x, (row, j), place, padding_mode=zero).astype(ct.float32)
        along += slope * (value - center) * scale
        across += slope
    along = ct.sum(along, axis=1, keepdims=True) / length
    across = ct.sum(across, axis=1, keepdims=True) / length
    for j in range(ct.cdiv(length, columns)):
        given = ct.load(dy, (row, j), place, padding_mode=zero).astype(ct.float32)
        gain = ct.load(weight, (j,), (columns,), padding_mode=zero).astype(ct.float32)
        value = ct.load(x, (row, j), place, padding_mode=zero).astype(ct.float32)
        normal = (value - center) * scale
        result = (given * gain - normal * along - across) * scale
        ct.store(dx, (row, j), result.astype(dx.dtype))
        while ct.atomic_cas(locks, group, 0, 1, memory_order=ct.MemoryOrder.ACQUIRE) == 1:
            pass
        ct.store(dw, (group, j), ct.load(dw, (group, j), place) + given * normal)
        ct.store(db, (group, j), ct.load(db, (group, j), place) + given)
        ct.atomic_xchg(locks, group, 0, memory_order=ct.MemoryOrder.RELEASE)

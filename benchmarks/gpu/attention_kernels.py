"""Variants of attention, and its gradients; the plain forward kernels are in `kernels.py`."""

from __future__ import annotations

import cuda.tile as ct
from kernel_parts import LOG2_E, ZERO, Bool, Int, divided, softmax_step


@ct.kernel
def variant_attention(
    q,
    k,
    v,
    extra,
    out,
    scale: float,
    tm: Int,
    tn: Int,
    depth: Int,
    wide: Int,
    heads: Int,
    share: Int,
    causal: Bool,
    window: Int,
    cap: Int,
    sinks: Bool,
    slopes: Bool,
):
    """Attention with what models add to it: each constant but `causal` is 0 or False for none.

    `wide` is the depth of values, `window` how many keys a query sees, `cap` the largest score,
    and `extra` has a number for each head: the score of a sink, or the slope of its bias.
    """
    block = ct.bid(0)
    batch, head = ct.bid(1) // heads, ct.bid(1) % heads
    queries = ct.load(q, (batch, head, block, 0), (1, 1, tm, depth), padding_mode=ZERO)
    queries = queries.reshape((tm, depth))
    tops = ct.full((tm, 1), -float("inf"), ct.float32)
    sums = ct.zeros((tm, 1), ct.float32)
    if sinks:
        tops = ct.full((tm, 1), 0.0, ct.float32) + ct.load(extra, index=head, shape=()) * LOG2_E
        sums = ct.full((tm, 1), 1.0, ct.float32)
    total = ct.zeros((tm, wide), ct.float32)
    length = k.shape[2]
    first, end = 0, ct.cdiv(min((block + 1) * tm, length) if causal else length, tn)
    if window > 0:
        first = max(block * tm - window + 1, 0) // tn
    rows = block * tm + ct.arange(tm, dtype=ct.int32)[:, None]
    for j in range(first, end):
        keys = ct.load(
            k,
            (batch, head // share, 0, j),
            (1, 1, depth, tn),
            order=(0, 1, 3, 2),
            padding_mode=ZERO,
        )
        scores = ct.mma(queries, keys.reshape((depth, tn)), ct.zeros((tm, tn), ct.float32))
        columns = j * tn + ct.arange(tn, dtype=ct.int32)[None, :]
        if cap > 0:
            scores = ct.tanh(scores * (scale / cap)) * (cap * LOG2_E)
        else:
            scores = scores * (scale * LOG2_E)
        if slopes:
            slope = ct.load(extra, index=head, shape=()) * LOG2_E
            scores += slope * (columns - rows).astype(ct.float32)
        if causal and j >= block * tm // tn:
            scores = ct.where(rows >= columns, scores, -float("inf"))
        if window > 0 and j * tn < (block + 1) * tm - window:
            scores = ct.where(rows - columns < window, scores, -float("inf"))
        top = max(tops, ct.max(scores, axis=1, keepdims=True))
        if window > 0:
            top = max(top, -1e30)
        powers = ct.exp2(scores - top, flush_to_zero=True)
        fade = ct.exp2(tops - top, flush_to_zero=True)
        sums = sums * fade + ct.sum(powers, axis=1, keepdims=True)
        values = ct.load(
            v, (batch, head // share, j, 0), (1, 1, tn, wide), padding_mode=ZERO
        ).reshape((tn, wide))
        total = ct.mma(powers.astype(q.dtype), values, total * fade)
        tops = top
    result = divided(total, sums).astype(out.dtype)
    ct.store(out, (batch, head, block, 0), result.reshape((1, 1, tm, wide)))


@ct.kernel
def paged_decode(q, k, v, pages, out, scale: float, tm: Int, page: Int, depth: Int, heads: Int):
    """Attention of one new token to keys in pages: `pages` lists those of each sequence."""
    batch, head = ct.bid(0) // heads, ct.bid(0) % heads
    scale = scale * LOG2_E
    queries = ct.load(q, (batch, head, 0, 0), (1, 1, tm, depth), padding_mode=ZERO)
    queries = queries.reshape((tm, depth))
    tops = ct.full((tm, 1), -float("inf"), ct.float32)
    sums = ct.zeros((tm, 1), ct.float32)
    total = ct.zeros((tm, depth), ct.float32)
    for j in range(pages.shape[1]):
        place = ct.load(pages, index=(batch, j), shape=())
        keys = ct.load(k, (place, 0, head, 0), (1, page, 1, depth)).reshape((page, depth))
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((tm, page), ct.float32))
        powers, fade, tops, sums = softmax_step(scores, scale, tops, sums)
        values = ct.load(v, (place, 0, head, 0), (1, page, 1, depth)).reshape((page, depth))
        total = ct.mma(powers.astype(q.dtype), values, total * fade)
    result = divided(total, sums).astype(out.dtype)
    ct.store(out, (batch, head, 0, 0), result.reshape((1, 1, tm, depth)))


@ct.kernel
def latent_decode(
    q, q_rope, kv, k_rope, out, scale: float, tm: Int, tn: Int, depth: Int, rope: Int
):
    """Attention of one new token to latent vectors, which are keys and values of all heads."""
    batch, block = ct.bid(0), ct.bid(1)
    scale = scale * LOG2_E
    queries = ct.load(q, (batch, block, 0), (1, tm, depth)).reshape((tm, depth))
    turned = ct.load(q_rope, (batch, block, 0), (1, tm, rope)).reshape((tm, rope))
    tops = ct.full((tm, 1), -float("inf"), ct.float32)
    sums = ct.zeros((tm, 1), ct.float32)
    total = ct.zeros((tm, depth), ct.float32)
    for j in range(ct.cdiv(kv.shape[1], tn)):
        latent = ct.load(kv, (batch, j, 0), (1, tn, depth)).reshape((tn, depth))
        keys = ct.load(k_rope, (batch, j, 0), (1, tn, rope)).reshape((tn, rope))
        scores = ct.mma(queries, ct.transpose(latent), ct.zeros((tm, tn), ct.float32))
        scores = ct.mma(turned, ct.transpose(keys), scores)
        powers, fade, tops, sums = softmax_step(scores, scale, tops, sums)
        total = ct.mma(powers.astype(q.dtype), latent, total * fade)
    result = divided(total, sums).astype(out.dtype)
    ct.store(out, (batch, block, 0), result.reshape((1, tm, depth)))


@ct.kernel
def attention_queries_backward(
    q,
    k,
    v,
    dy,
    tops,
    means,
    dq,
    scale: float,
    tm: Int,
    tn: Int,
    depth: Int,
    heads: Int,
    causal: Bool,
):
    """Gradients of queries: a block for `tm` of them walks over the keys.

    `tops` are logarithms to base 2 of a row's sum of powers, `means` sums of products of a row's
    gradient and result.
    """
    block = ct.bid(0)
    batch, head = ct.bid(1) // heads, ct.bid(1) % heads
    queries = ct.load(q, (batch, head, block, 0), (1, 1, tm, depth)).reshape((tm, depth))
    slope = ct.load(dy, (batch, head, block, 0), (1, 1, tm, depth)).reshape((tm, depth))
    top = ct.load(tops, (batch, head, block), (1, 1, tm)).reshape((tm, 1))
    mean = ct.load(means, (batch, head, block), (1, 1, tm)).reshape((tm, 1))
    total = ct.zeros((tm, depth), ct.float32)
    rows = block * tm + ct.arange(tm, dtype=ct.int32)[:, None]
    end = min((block + 1) * tm, k.shape[2]) if causal else k.shape[2]
    for j in range(ct.cdiv(end, tn)):
        keys = ct.load(k, (batch, head, j, 0), (1, 1, tn, depth)).reshape((tn, depth))
        values = ct.load(v, (batch, head, j, 0), (1, 1, tn, depth)).reshape((tn, depth))
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((tm, tn), ct.float32))
        powers = ct.exp2(scores * (scale * LOG2_E) - top, flush_to_zero=True)
        if causal and j >= block * tm // tn:
            columns = j * tn + ct.arange(tn, dtype=ct.int32)[None, :]
            powers = ct.where(rows >= columns, powers, 0.0)
        weights = ct.mma(slope, ct.transpose(values), ct.zeros((tm, tn), ct.float32))
        change = (powers * (weights - mean)).astype(q.dtype)
        total = ct.mma(change, keys, total)
    ct.store(
        dq, (batch, head, block, 0), (total * scale).astype(dq.dtype).reshape((1, 1, tm, depth))
    )


@ct.kernel
def attention_keys_backward(
    q,
    k,
    v,
    dy,
    tops,
    means,
    dk,
    dv,
    scale: float,
    tm: Int,
    tn: Int,
    depth: Int,
    heads: Int,
    causal: Bool,
):
    """Gradients of keys and values: a block for `tn` of them walks over the queries."""
    block = ct.bid(0)
    batch, head = ct.bid(1) // heads, ct.bid(1) % heads
    keys = ct.load(k, (batch, head, block, 0), (1, 1, tn, depth)).reshape((tn, depth))
    values = ct.load(v, (batch, head, block, 0), (1, 1, tn, depth)).reshape((tn, depth))
    keys_total = ct.zeros((tn, depth), ct.float32)
    values_total = ct.zeros((tn, depth), ct.float32)
    columns = block * tn + ct.arange(tn, dtype=ct.int32)[:, None]
    first = block * tn // tm if causal else 0
    for i in range(first, ct.cdiv(q.shape[2], tm)):
        queries = ct.load(q, (batch, head, i, 0), (1, 1, tm, depth)).reshape((tm, depth))
        slope = ct.load(dy, (batch, head, i, 0), (1, 1, tm, depth)).reshape((tm, depth))
        top = ct.load(tops, (batch, head, i), (1, 1, tm)).reshape((1, tm))
        mean = ct.load(means, (batch, head, i), (1, 1, tm)).reshape((1, tm))
        scores = ct.mma(keys, ct.transpose(queries), ct.zeros((tn, tm), ct.float32))
        powers = ct.exp2(scores * (scale * LOG2_E) - top, flush_to_zero=True)
        if causal and i * tm < (block + 1) * tn:
            rows = i * tm + ct.arange(tm, dtype=ct.int32)[None, :]
            powers = ct.where(rows >= columns, powers, 0.0)
        values_total = ct.mma(powers.astype(q.dtype), slope, values_total)
        weights = ct.mma(values, ct.transpose(slope), ct.zeros((tn, tm), ct.float32))
        change = (powers * (weights - mean)).astype(q.dtype)
        keys_total = ct.mma(change, queries, keys_total)
    keys_total = (keys_total * scale).astype(dk.dtype)
    ct.store(dk, (batch, head, block, 0), keys_total.reshape((1, 1, tn, depth)))
    ct.store(dv, (batch, head, block, 0), values_total.astype(dv.dtype).reshape((1, 1, tn, depth)))

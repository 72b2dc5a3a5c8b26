"""Attention in one pass, and what `tileiras-tune` is to try for it."""

import cuda.tile as ct
import numpy as np

BATCH, HEADS, LENGTH, DEPTH = 2, 16, 2048, 128
SCALE = DEPTH**-0.5
LOG2_E = 1.4426950408889634
Int = ct.Constant[int]


@ct.kernel
def attention(q, k, v, out, scale: float, tm: Int, tn: Int, depth: Int, heads: Int, latency: Int):
    """out = softmax(q @ k.T * scale) @ v, for `tm` queries a block, keys in tiles of `tn`."""
    block, batch, head = ct.bid(0), ct.bid(1) // heads, ct.bid(1) % heads
    scale = scale * LOG2_E
    queries = ct.load(q, (batch, head, block, 0), (1, 1, tm, depth)).reshape((tm, depth))
    tops = ct.full((tm, 1), -float("inf"), ct.float32)
    sums = ct.zeros((tm, 1), ct.float32)
    total = ct.zeros((tm, depth), ct.float32)
    for j in range(ct.cdiv(k.shape[2], tn)):
        keys = ct.load(
            k, (batch, head, 0, j), (1, 1, depth, tn), order=(0, 1, 3, 2), latency=latency
        )
        scores = ct.mma(queries, keys.reshape((depth, tn)), ct.zeros((tm, tn), ct.float32))
        top = max(tops, ct.max(scores, axis=1, keepdims=True) * scale)
        powers = ct.exp2(scores * scale - top, flush_to_zero=True)
        fade = ct.exp2(tops - top, flush_to_zero=True)
        sums = sums * fade + ct.sum(powers, axis=1, keepdims=True)
        values = ct.load(v, (batch, head, j, 0), (1, 1, tn, depth), latency=latency)
        total = ct.mma(powers.astype(q.dtype), values.reshape((tn, depth)), total * fade)
        tops = top
    result = total / sums
    ct.store(out, (batch, head, block, 0), result.astype(out.dtype).reshape((1, 1, tm, depth)))


def reference(q, k, v, out, scale):
    """The same in numpy."""
    for batch, head in np.ndindex(BATCH, HEADS):
        queries, keys, values = (one[batch, head].astype("float32") for one in (q, k, v))
        scores = queries @ keys.T * np.float32(scale)
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        out[batch, head] = (powers @ values) / powers.sum(axis=1, keepdims=True)


SHAPE = ("float16", BATCH, HEADS, LENGTH, DEPTH)
TUNE = {
    "kernel": attention,
    "space": {
        "tm": [64, 128, 256],
        "tn": [32, 64, 128],
        "latency": [2, 4, 8],
        "occupancy": [None, 1, 2],
        "num_ctas": [None, 2],
    },
    "defaults": {"tm": 64, "tn": 64, "latency": 2},
    "constants": {"depth": DEPTH, "heads": HEADS},
    "arguments": {**dict.fromkeys(("q", "k", "v", "out"), SHAPE), "scale": SCALE},
    "grid": lambda p: (ct.cdiv(LENGTH, p["tm"]), BATCH * HEADS),
    "reference": reference,
    "relative": 1e-2,
    "absolute": 1e-3,
}

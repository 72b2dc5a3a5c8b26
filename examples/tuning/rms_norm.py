"""RMS norm of rows, and what `tileiras-tune` is to try for it."""

import cuda.tile as ct
import numpy as np

ROWS, COLUMNS = 8192, 4096
Int = ct.Constant[int]


@ct.kernel
def rms_norm(x, weight, out, eps: float, columns: Int, latency: Int):
    """RMS norm of one row a block: its squares in tiles, then its tiles again."""
    row, length = ct.bid(0), x.shape[1]
    squares = ct.zeros((1, columns), ct.float32)
    for j in range(ct.cdiv(length, columns)):
        tile = ct.load(x, (row, j), (1, columns), latency=latency).astype(ct.float32)
        squares += tile * tile
    scale = ct.rsqrt(ct.sum(squares, axis=1, keepdims=True) / length + eps)
    for j in range(ct.cdiv(length, columns)):
        tile = ct.load(x, (row, j), (1, columns), latency=latency).astype(ct.float32)
        gain = ct.load(weight, (j,), (columns,)).astype(ct.float32)
        ct.store(out, (row, j), (tile * scale * gain).astype(out.dtype))


def reference(x, weight, out, eps):
    """The same in numpy."""
    wide = x.astype("float32")
    scale = 1 / np.sqrt((wide * wide).mean(axis=1, keepdims=True) + eps)
    out[:] = wide * scale * weight.astype("float32")


TUNE = {
    "kernel": rms_norm,
    "space": {
        "columns": [256, 512, 1024, 2048, 4096],
        "latency": [2, 4, 8],
        "occupancy": [None, 2, 4, 8, 16],
        "num_worker_warps": [None, 4, 8],
    },
    "defaults": {"columns": 1024, "latency": 2},
    "arguments": {
        "x": ("float16", ROWS, COLUMNS),
        "weight": ("float16", COLUMNS),
        "out": ("float16", ROWS, COLUMNS),
        "eps": 1e-5,
    },
    "grid": lambda p: ROWS,
    "reference": reference,
    "relative": 4e-3,
    "absolute": 1e-3,
}

"""The softmax of rows, and what `tileiras-tune` is to try for it."""

import cuda.tile as ct
import numpy as np

ROWS, COLUMNS = 8192, 4096
Int = ct.Constant[int]


@ct.kernel
def softmax(source, out, rows: Int, columns: Int, latency: Int):
    """Softmax of each row; a block walks over groups of `rows` whole rows."""
    for group in range(ct.bid(0), ct.cdiv(source.shape[0], rows), ct.num_blocks(0)):
        tile = ct.load(source, (group, 0), (rows, columns), latency=latency).astype(ct.float32)
        powers = ct.exp(tile - ct.max(tile, axis=1, keepdims=True))
        result = powers / ct.sum(powers, axis=1, keepdims=True)
        ct.store(out, (group, 0), result.astype(out.dtype))


def reference(source, out):
    """The same in numpy."""
    wide = source.astype("float32")
    powers = np.exp(wide - wide.max(axis=1, keepdims=True))
    out[:] = powers / powers.sum(axis=1, keepdims=True)


TUNE = {
    "kernel": softmax,
    "space": {
        "rows": [1, 2, 4, 8],
        "latency": [2, 4, 8],
        "occupancy": [None, 1, 2, 4, 8],
        "num_worker_warps": [None, 4, 8],
    },
    "launch": {"blocks": [132, 264, 528, 1056, ROWS]},
    "defaults": {"rows": 1, "blocks": ROWS, "latency": 2},
    "constants": {"columns": COLUMNS},
    "where": lambda p: p["blocks"] * p["rows"] <= ROWS,
    "arguments": {"source": ("float16", ROWS, COLUMNS), "out": ("float16", ROWS, COLUMNS)},
    "grid": lambda p: p["blocks"],
    "reference": reference,
    "relative": 4e-3,
    "absolute": 1e-6,
}

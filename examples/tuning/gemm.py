"""A matrix product of f16, and what `tileiras-tune` is to try for it."""

import cuda.tile as ct

M = N = K = 4096
Int = ct.Constant[int]


@ct.kernel
def gemm(a, b, out, tm: Int, tn: Int, tk: Int, group: Int, latency: Int):
    """out = a @ b, one tile a block; blocks that run together share operands."""
    rows, columns = ct.cdiv(a.shape[0], tm), ct.cdiv(b.shape[1], tn)
    block = ct.bid(0)
    first = block // (group * columns) * group
    some = min(rows - first, group)
    place = block % (group * columns)
    row, column = first + place % some, place // some
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        left = ct.load(a, (row, k), (tm, tk), latency=latency)
        right = ct.load(b, (k, column), (tk, tn), latency=latency)
        total = ct.mma(left, right, total)
    ct.store(out, (row, column), total.astype(out.dtype))


def reference(a, b, out):
    """The same in numpy."""
    out[:] = a.astype("float32") @ b.astype("float32")


TUNE = {
    "kernel": gemm,
    "space": {
        "tm": [64, 128, 256],
        "tn": [64, 128, 256],
        "tk": [32, 64, 128],
        "group": [1, 8, 16],
        "latency": [2, 4, 8],
        "occupancy": [None, 1, 2],
        "num_ctas": [None, 2],
    },
    "defaults": {"tm": 128, "tn": 128, "tk": 64, "group": 8, "latency": 4},
    "where": lambda p: p["tm"] * p["tn"] <= 128 * 256,
    "arguments": {"a": ("float16", M, K), "b": ("float16", K, N), "out": ("float16", M, N)},
    "grid": lambda p: ct.cdiv(M, p["tm"]) * ct.cdiv(N, p["tn"]),
    "reference": reference,
    "relative": 2e-3,
    "absolute": 0.25,
}

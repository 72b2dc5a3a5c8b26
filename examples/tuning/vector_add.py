"""A vector addition, and what `tileiras-tune` is to try for it."""

import cuda.tile as ct

LENGTH = 1 << 24


@ct.kernel
def vector_add(a, b, out, tile: ct.Constant[int]):
    """out = a + b, one tile a block."""
    block = ct.bid(0)
    left, right = ct.load(a, (block,), (tile,)), ct.load(b, (block,), (tile,))
    ct.store(out, (block,), left + right)


def reference(a, b, out):
    """The same in numpy."""
    out[:] = a + b


TUNE = {
    "kernel": vector_add,
    "space": {
        "tile": [256, 512, 1024, 2048, 4096, 8192, 16384],
        "occupancy": [None, 2, 4, 8, 16],
        "num_worker_warps": [None, 4, 8],
    },
    "defaults": {"tile": 1024},
    "arguments": dict.fromkeys(("a", "b", "out"), ("float32", LENGTH)),
    "grid": lambda p: LENGTH // p["tile"],
    "reference": reference,
    "relative": 0.0,
    "absolute": 0.0,
}

"""A kernel of cuTile Python that is right, hangs, breaks the context or is wrong, as it is told."""

import cuda.tile as ct
import numpy as np

SIZE = 1024
FAR = 1 << 28
"""An element 1 GiB behind the array."""


@ct.kernel
def add_one(a, locks, out, way: ct.Constant[int]):
    """out = a + 1, if way is 0."""
    block = ct.bid(0)
    if way == 1:
        while ct.atomic_cas(locks, 0, 1, 1) != 0:
            pass
    if way == 2:
        ct.scatter(out, block + FAR, 1.0, check_bounds=False)
    more = 2.0 if way == 3 else 1.0
    ct.store(out, (block,), ct.load(a, (block,), (128,)) + more)


def reference(a, locks, out):
    """The same in numpy."""
    out[:] = a + 1


TUNE = {
    "kernel": add_one,
    "space": {"way": [0, 1, 2, 3]},
    "arguments": {
        "a": ("float32", SIZE),
        "locks": np.ones(16, "int32"),
        "out": ("float32", SIZE),
    },
    "grid": lambda p: SIZE // 128,
    "reference": reference,
    "relative": 0.0,
    "absolute": 0.0,
}

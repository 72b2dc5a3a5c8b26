"""The kernel of docs/tutorial.md, and how its bytecode was made.

    python examples/tutorial/axpy.py

writes axpy.tileirbc (lengths that are multiples of 16) and axpy_any.tileirbc (any length) beside
this file. It needs the package cuda-tile; no GPU and no compiler. A program that launches the
kernel never does this: the client exports the bytecode and calls the compiler by itself.
"""

from pathlib import Path

import cuda.tile as ct
from cuda.tile.compilation import (
    ArrayConstraint,
    CallingConvention,
    KernelSignature,
    ScalarConstraint,
    export_kernel,
)

TILE = 1024


@ct.kernel
def axpy(x, y, out, a):
    """out = a * x + y, a tile of 1024 elements for each tile block."""
    i = ct.bid(0)
    tx = ct.load(x, index=(i,), shape=(TILE,))
    ty = ct.load(y, index=(i,), shape=(TILE,))
    ct.store(out, index=(i,), tile=a * tx + ty)


def export(name, multiple):
    """Writes the bytecode for vectors of f32 whose lengths are multiples of a number."""
    vector = ArrayConstraint(
        ct.float32,
        1,
        index_dtype=ct.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
        stride_constant=[1],
        stride_divisible_by=[1],
        shape_divisible_by=[multiple],
        base_addr_divisible_by=16,
    )
    signature = KernelSignature(
        [vector, vector, vector, ScalarConstraint(ct.float32)],
        CallingConvention.cutile_python_v1(),
        "axpy",
    )
    with open(Path(__file__).with_name(name), "wb") as file:
        export_kernel(
            axpy,
            [signature],
            file,
            gpu_code="sm_90",
            output_format="tileir_bytecode",
            bytecode_version="13.3",
        )


if __name__ == "__main__":
    export("axpy.tileirbc", 16)
    export("axpy_any.tileirbc", 1)

"""The second kernel of docs/tutorial.md, and how its bytecode was made.

    python examples/tutorial/product.py

writes product.tileirbc (rows that begin at multiples of 16 bytes) and product_any.tileirbc (rows
that begin anywhere) beside this file. It needs the package cuda-tile; no GPU and no compiler.
"""

from pathlib import Path

import cuda.tile as ct
from cuda.tile.compilation import (
    ArrayConstraint,
    CallingConvention,
    KernelSignature,
    export_kernel,
)

TILE = 128
DEPTH = 64


@ct.kernel
def product(a, b, out):
    """out = a @ b, a tile of 128x128 elements for each tile block."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((TILE, TILE), ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(TILE, DEPTH))):
        ta = ct.load(a, index=(i, k), shape=(TILE, DEPTH), padding_mode=ct.PaddingMode.ZERO)
        tb = ct.load(b, index=(k, j), shape=(DEPTH, TILE), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(ta, tb, total)
    ct.store(out, index=(i, j), tile=total)


def matrix(dtype, multiple):
    """A matrix whose rows are a multiple of so many elements apart."""
    return ArrayConstraint(
        dtype,
        2,
        index_dtype=ct.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
        stride_constant=[None, 1],
        stride_divisible_by=[multiple, 1],
        shape_divisible_by=[1, 1],
        base_addr_divisible_by=16,
    )


def export(name, multiple):
    """Writes the bytecode of f16 by f16 to f32, for operands with such rows."""
    operand = matrix(ct.float16, multiple)
    signature = KernelSignature(
        [operand, operand, matrix(ct.float32, 16)],
        CallingConvention.cutile_python_v1(),
        "product",
    )
    with open(Path(__file__).with_name(name), "wb") as file:
        export_kernel(
            product,
            [signature],
            file,
            gpu_code="sm_90",
            output_format="tileir_bytecode",
            bytecode_version="13.3",
        )


if __name__ == "__main__":
    export("product.tileirbc", 16)
    export("product_any.tileirbc", 1)

"""A product with a bias, as clients write it."""

from __future__ import annotations

import numpy as np

from tests.kernels.gemm import aligned, gemm

TWO_STORES = """%i = iota : tile<CxI32>
    %e = itof %i signed : tile<CxI32> -> tile<CxF32>
    %e1 = reshape %e : tile<CxF32> -> tile<1xCxF32>
    %e2 = broadcast %e1 : tile<1xCxF32> -> tile<RxCxF32>
    %sum = addf %acc, %e2 : tile<RxCxF32>
    %h = ftof %sum : tile<RxCxF32> -> tile<RxCxF16>
    %bn = addi %bx, %c1 : tile<i32>
    %most = maxf %sum, %z : tile<RxCxF32>
    %g = ftof %most : tile<RxCxF32> -> tile<RxCxF16>
    %s1 = store_view_tko weak %g, %pc[%bn, %by] token = %t0
      : tile<RxCxF16>, VIEW, tile<i32> -> token
    %s ="""


def biased_gemm(rows: int, columns: int, depth: int) -> bytes:
    """An aligned product that stores two tiles of f16: the sum with a row, and its positive part.

    The second one lies below the first.
    """
    text = aligned(gemm(rows, columns, depth)).decode()
    head, tail = text.split("%h = ftof")
    tail = tail[tail.index("%s =") + len("%s =") :]
    view = f"partition_view<tile=({rows}x{columns}), padding_value = zero, "
    view += "tensor_view<?x?xf16, strides=[?,1]>>"
    epilogue = TWO_STORES.replace("VIEW", view).replace("RxC", f"{rows}x{columns}")
    for name in ("I32", "F32", "F16"):
        epilogue = epilogue.replace(f"Cx{name}", f"{columns}x{name}").replace(name, name.lower())
    return (head + epilogue + tail).encode()


def biased_arguments(rows: int, columns: int, depth: int) -> list:
    """Small whole numbers; the result has two tiles."""
    random = np.random.default_rng(3)
    left = random.integers(-2, 3, (2 * rows, depth)).astype(np.float16)
    right = random.integers(-2, 3, (depth, columns)).astype(np.float16)
    result = np.zeros((2 * rows, columns), np.float16)
    memory = [array.reshape(-1) for array in (left, right, result)]
    return [*memory, *(np.int32(size) for size in (2 * rows, columns, depth))]

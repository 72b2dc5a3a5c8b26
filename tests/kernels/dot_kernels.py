"""Kernels of one product, and whether they compute what numpy does."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, bf16, f8E4M3FN, f16, f32, f64, i8, i32

from tests.kernels.kernel_builder import SIGNED, UNSIGNED, Kernel
from tests.kernels.lowered import lower_to_llvm, run_lowered
from tileiras.codegen.target import GpuTarget
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.types import PointerType, TileType

DTYPES: dict[Any, Any] = {
    f16: np.float16,
    bf16: ml_dtypes.bfloat16,
    f8E4M3FN: ml_dtypes.float8_e4m3fn,
    f32: np.float32,
    f64: np.float64,
    i8: np.int8,
    i32: np.int32,
}


def dot_kernel(
    m: int, n: int, k: int, operand: Any, acc: Any, transposed: tuple[bool, bool], batch: int = 0
) -> Kernel:
    """c = a @ b + c; a transposed operand lies in memory with its other dim fastest."""
    lead = (batch,) if batch else ()
    kernel = Kernel(*(PointerType(type_) for type_ in (operand, operand, acc)))
    values = []
    for pointer, shape, turn in zip(kernel.args, ((m, k), (k, n)), transposed):
        full = (*lead, *shape)
        if not turn:
            values.append(kernel.load(pointer, full))
            continue
        loaded = kernel.load(pointer, (*lead, shape[1], shape[0]))
        order = [1, 0] if not batch else [0, 2, 1]
        permutation = DenseArrayBase.from_list(i32, order)
        type_ = TileType(operand, full)
        values.append(kernel.add(ct.PermuteOp, [loaded], type_, permutation=permutation))
    total = kernel.load(kernel.args[2], (*lead, m, n))
    type_ = TileType(acc, (*lead, m, n))
    if operand == i8:
        signs = {"signedness_lhs": SIGNED, "signedness_rhs": UNSIGNED}
        result = kernel.add(ct.MmaIOp, [*values, total], type_, **signs)
    else:
        result = kernel.add(ct.MmaFOp, [*values, total], type_)
    kernel.store(kernel.args[2], result)
    return kernel


def check(
    m: int,
    n: int,
    k: int,
    operand: Any = f16,
    acc: Any = f32,
    transposed: tuple[bool, bool] = (False, False),
    batch: int = 0,
    arch: str | GpuTarget = "sm_90",
) -> str:
    """Compares with numpy on small integers, which every type holds; returns the lowered text."""
    generator = np.random.default_rng(m + n + k)
    lead = (batch,) if batch else ()
    a, b, c = (generator.integers(-3, 4, (*lead, *shape)) for shape in ((m, k), (k, n), (m, n)))
    if operand == i8:
        b = np.abs(b)
    wanted = (np.matmul(a, b) + c).astype(DTYPES[acc])
    memory = [
        np.ascontiguousarray((np.swapaxes(x, -1, -2) if turn else x).astype(DTYPES[operand]))
        for x, turn in zip((a, b), transposed)
    ]
    found = c.astype(DTYPES[acc])
    kernel = dot_kernel(m, n, k, operand, acc, transposed, batch)
    kernel.add(ct.ReturnOp, [[]])
    module = lower_to_llvm(kernel.module, arch)
    carriers = {bf16: np.uint16, f8E4M3FN: np.uint8}
    images = [x.view(carriers.get(operand, x.dtype)) for x in memory]
    run_lowered(module, [*images, found])
    np.testing.assert_array_equal(found, wanted)
    return str(module)

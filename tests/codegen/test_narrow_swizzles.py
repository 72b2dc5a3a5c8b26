"""Products of operands with short rows, thread by thread: swizzles of 64 and 32 bytes."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import bf16, f8E4M3FN, f8E5M2, f16, f32, i8, i32

from tests.kernels.kernel_builder import SIGNED, UNSIGNED
from tests.kernels.lowered import lower_to_llvm, run_lowered
from tests.kernels.stage_comparison import passes
from tests.kernels.typed_gemm import TF32, Gemm
from tileiras.dialects.nv_tileas import pipeline as pl

CASES = (
    (Gemm(f16, f32, (64, 64, 32), b_transposed=True), 64, 64),
    (Gemm(f16, f32, (128, 64, 16), b_transposed=True), 32, 32),
    (Gemm(bf16, f32, (64, 32, 64)), 128, 64),
    (Gemm(f16, f32, (64, 16, 32)), 64, 32),
    (Gemm(f16, f32, (64, 128, 32), a_transposed=True), 128, 128),
    (Gemm(bf16, f32, (128, 32, 16), a_transposed=True, b_transposed=True), 128, 32),
    (Gemm(f16, f32, (64, 8, 16), b_transposed=True), 32, 32),
    (Gemm(f16, f32, (128, 8, 16), a_transposed=True, b_transposed=True), 128, 32),
    (Gemm(f16, f16, (256, 64, 32), b_transposed=True), 64, 64),
    (Gemm(tile=(64, 64, 16), b_transposed=True, **TF32), 64, 64),
    (Gemm(tile=(64, 64, 8), b_transposed=True, **TF32), 32, 32),
    (Gemm(tile=(64, 64, 16), **TF32), 64, 128),
    (Gemm(tile=(64, 32, 16), a_transposed=True, b_transposed=True, **TF32), 128, 64),
    (Gemm(tile=(64, 64, 32), a_transposed=True, **TF32), 128, 128),
    (Gemm(tile=(128, 128, 32), a_transposed=True, **TF32), 128, 128),
    (Gemm(tile=(128, 256, 32), a_transposed=True, **TF32), 128, 128),
    (Gemm(tile=(256, 64, 32), a_transposed=True, **TF32), 128, 128),
    (Gemm(tile=(32, 64, 32), a_transposed=True, **TF32), 128, 128),
    (Gemm(tile=(64, 64, 16), a_transposed=True, **TF32), 128, 128),
    (Gemm(tile=(64, 128, 8), a_transposed=True, **TF32), 128, 128),
    (Gemm(tile=(64, 32, 128), a_transposed=True, **TF32), 128, 128),
    (Gemm(i8, i32, (64, 64, 64), b_transposed=True), 64, 64),
    (Gemm(i8, i32, (128, 32, 32), b_transposed=True), 32, 32),
    (Gemm(i8, i32, (64, 64, 64)), 64, 64),
    (Gemm(i8, i32, (64, 128, 32)), 32, 128),
    (Gemm(i8, i32, (64, 64, 128), a_transposed=True, b_transposed=True), 64, 128),
    (Gemm(i8, i32, (64, 32, 32), a_transposed=True, b_transposed=True), 64, 32),
    (Gemm(f8E4M3FN, f32, (64, 64, 64), b_transposed=True), 64, 64),
    (Gemm(f8E5M2, f32, (64, 64, 64)), 64, 64),
    (Gemm(f8E4M3FN, f32, (128, 128, 32), b_transposed=True), 32, 32),
    (Gemm(i8, i32, (64, 64, 64), a_transposed=True), 64, 64),
    (Gemm(i8, i32, (128, 128, 128), a_transposed=True), 128, 128),
    (Gemm(i8, i32, (256, 64, 32), a_transposed=True, signs=(UNSIGNED, SIGNED)), 128, 64),
    (Gemm(f8E5M2, f32, (128, 64, 128), a_transposed=True), 128, 64),
    (Gemm(f8E4M3FN, f16, (64, 128, 256), a_transposed=True), 64, 128),
)
"""Products, and the swizzles of their operands' tiles."""


@pytest.mark.parametrize(("gemm", "left", "right"), CASES, ids=str)
def test_threads_compute_the_product(gemm: Gemm, left: int, right: int) -> None:
    tm, tn, tk = gemm.tile
    arguments = gemm.arguments((tm, tn, 2 * tk))
    placed = gemm.kernel().module
    for _ in passes(placed, (), "sm_90"):
        pass
    waits = [op for op in placed.walk() if isinstance(op, pl.ConsumerWaitOp)]
    found = [[tile.type.swizzle for tile in wait.tiles] for wait in waits]
    assert all(set(swizzles) == {left, right} for swizzles in found)
    module = lower_to_llvm(gemm.kernel().module)
    run_lowered(module, arguments)
    np.testing.assert_array_equal(arguments[2], gemm.product(arguments))

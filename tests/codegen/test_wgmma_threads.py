"""Specialised products thread by thread: every type, operands read by wgmma and by the threads."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import f8E4M3FN, f8E5M2, f16, f32, i8, i32

from tests.kernels.kernel_builder import SIGNED, UNSIGNED
from tests.kernels.lowered import lower_to_llvm, run_lowered
from tests.kernels.typed_gemm import TF32, Gemm

GEMMS = (
    Gemm(tile=(64, 64, 32), b_transposed=True, **TF32),
    Gemm(tile=(64, 64, 32), **TF32),
    Gemm(tile=(32, 256, 64), **TF32),
    Gemm(tile=(32, 128, 64), **TF32),
    Gemm(tile=(256, 32, 32), a_transposed=True, b_transposed=True, **TF32),
    Gemm(i8, i32, (128, 64, 128), b_transposed=True, signs=(UNSIGNED, SIGNED)),
    Gemm(i8, i32, (64, 128, 128), signs=(SIGNED, UNSIGNED)),
    Gemm(i8, i32, (32, 256, 256)),
    Gemm(i8, i32, (32, 128, 256)),
    Gemm(i8, i32, (128, 64, 128), a_transposed=True, b_transposed=True),
    Gemm(f8E4M3FN, f32, (64, 64, 256), b_transposed=True),
    Gemm(f8E5M2, f32, (128, 64, 128), b_transposed=True),
    Gemm(f8E4M3FN, f32, (64, 256, 128)),
    Gemm(f8E4M3FN, f32, (64, 128, 128), fast_acc=True),
    Gemm(f8E5M2, f16, (32, 128, 128)),
    Gemm(f16, f16, (64, 64, 64), b_transposed=True),
    Gemm(f16, f32, (32, 64, 64)),
    Gemm(f16, f32, (16, 128, 64), a_transposed=True),
    Gemm(f16, f32, (8, 64, 128), b_transposed=True),
    Gemm(tile=(16, 64, 32), b_transposed=True, **TF32),
    Gemm(i8, i32, (32, 64, 128), b_transposed=True, signs=(UNSIGNED, SIGNED)),
    Gemm(f8E5M2, f32, (8, 128, 256), b_transposed=True),
)


@pytest.mark.parametrize("gemm", GEMMS, ids=str)
def test_threads_compute_the_product(gemm: Gemm) -> None:
    tm, tn, tk = gemm.tile
    arguments = gemm.arguments((tm, tn, 2 * tk))
    module = lower_to_llvm(gemm.kernel().module)
    run_lowered(module, arguments)
    np.testing.assert_array_equal(arguments[2], gemm.product(arguments))

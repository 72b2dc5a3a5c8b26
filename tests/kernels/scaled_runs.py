"""Block-scaled GEMMs: kinds of scales, and what the PTX machine makes of a kernel."""

from __future__ import annotations

from functools import cache

import numpy as np

from tests.kernels.scaled_products import ScaledGemm, gemm, gemm_arguments
from tileiras.driver import compile_module
from tileiras.interpreter.ptx import run_ptx
from tileiras.options import CompileOptions

MX8 = ("f8E4M3FN", "f8E8M0FNU", 32)
MX8_E5M2 = ("f8E5M2", "f8E8M0FNU", 32)
MX4 = ("f4E2M1FN", "f8E8M0FNU", 32)
MX4_16 = ("f4E2M1FN", "f8E8M0FNU", 16)
NV4 = ("f4E2M1FN", "f8E4M3FN", 16)
WHOLE = (128, 256, 512)
"""Sizes that tiles divide."""


@cache
def compiled(kernel: ScaledGemm, gpu: str, level: int = 3, without: tuple[str, ...] = ()) -> str:
    """PTX of a kernel."""
    options = CompileOptions(opt_level=level, emit="ptx", gpu_name=gpu, disabled_features=without)
    return compile_module(gemm(kernel).encode(), options).output.decode()


def check(kernel: ScaledGemm, text: str) -> None:
    """The kernel's C is that of float64, to f32's last bits."""
    given, wanted = gemm_arguments(kernel)
    run_ptx(text, given, kernel.grid)
    scale = np.abs(wanted).max()
    assert scale > 1
    np.testing.assert_allclose(given[-1], wanted, rtol=1e-5, atol=1e-6 * scale)

"""Block-scaled GEMMs in the PTX machine, against float64: values, races, unfinished copies."""

from __future__ import annotations

import numpy as np
import pytest

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

STAGED = (
    ScaledGemm(*MX8, (128, 128, 128), WHOLE),
    ScaledGemm(*MX8_E5M2, (128, 128, 64), WHOLE),
    ScaledGemm(*MX4, (128, 128, 256), WHOLE),
    ScaledGemm(*MX4, (128, 256, 128), WHOLE),
    ScaledGemm(*NV4, (128, 128, 256), WHOLE),
    ScaledGemm(*NV4, (128, 128, 128), WHOLE, bytes=True),
    ScaledGemm(*MX8, (128, 128, 128), (160, 200, 320)),
    ScaledGemm(*NV4, (128, 128, 256), (160, 200, 320)),
)
"""Products whose operands TMA brings: ldmatrix reads bytes, of f4 two elements each."""

COPIED = (
    ScaledGemm(*MX8, (64, 64, 64), (64, 128, 256)),
    ScaledGemm(*MX8, (128, 128, 64), WHOLE, rows=True),
    ScaledGemm(*MX4, (64, 64, 64), (64, 128, 256)),
    ScaledGemm(*NV4, (128, 64, 128), (128, 128, 256), rows=True),
)
"""Small ones, and those with pairs of f4, or bytes, that do not lie along K."""


def compiled(kernel: ScaledGemm, gpu: str = "sm_120", without: tuple[str, ...] = ()) -> str:
    """PTX of a kernel."""
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name=gpu, disabled_features=without)
    return compile_module(gemm(kernel).encode(), options).output.decode()


def check(kernel: ScaledGemm, text: str) -> None:
    """The kernel's C is that of float64, to f32's last bits."""
    given, wanted = gemm_arguments(kernel)
    run_ptx(text, given, kernel.grid)
    scale = np.abs(wanted).max()
    assert scale > 1
    np.testing.assert_allclose(given[-1], wanted, rtol=1e-5, atol=1e-6 * scale)


@pytest.mark.parametrize("kernel", STAGED, ids=str)
def test_staged_operands_are_multiplied_with_their_scales(kernel: ScaledGemm) -> None:
    text = compiled(kernel)
    assert "cp.async.bulk.tensor" in text and "ldmatrix" in text and "block_scale" in text
    check(kernel, text)


@pytest.mark.parametrize("kernel", COPIED, ids=str)
def test_copied_operands_are_multiplied_with_their_scales(kernel: ScaledGemm) -> None:
    text = compiled(kernel)
    assert "cp.async.bulk.tensor" not in text and "block_scale" in text
    check(kernel, text)


def test_sm_121_computes_the_same() -> None:
    text = compiled(STAGED[0], "sm_121")
    assert ".target sm_121a" in text and "block_scale" in text
    check(STAGED[0], text)


@pytest.mark.parametrize("kernel", [COPIED[0], COPIED[2]], ids=str)
def test_bf16_products_in_their_place_give_the_same(kernel: ScaledGemm) -> None:
    text = compiled(kernel, without=("block-scaled-mma",))
    assert "block_scale" not in text
    check(kernel, text)


def test_blocks_of_16_with_ue8m0_scales_are_multiplied_in_bf16() -> None:
    kernel = ScaledGemm(*MX4_16, (64, 64, 64), (64, 64, 128))
    text = compiled(kernel)
    assert "block_scale" not in text
    check(kernel, text)

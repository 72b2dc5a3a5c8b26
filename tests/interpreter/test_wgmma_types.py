"""Products by wgmma in every type, before and after they are specialised."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import f8E4M3FN, f8E5M2, f16, f32, i8, i32

from tests.kernels.kernel_builder import SIGNED, UNSIGNED
from tests.kernels.stage_comparison import passes
from tests.kernels.typed_gemm import TF32, Gemm
from tileiras.dialects.nv_tileas.wgmma import WgmmaDotOp
from tileiras.interpreter import run_entry

K_MAJOR = (
    Gemm(i8, i32, (64, 32, 128), b_transposed=True),
    Gemm(i8, i32, (128, 16, 128), b_transposed=True, signs=(UNSIGNED, SIGNED)),
    Gemm(i8, i32, (64, 64, 256), b_transposed=True, signs=(UNSIGNED, UNSIGNED)),
    Gemm(f8E4M3FN, f32, (64, 128, 128), b_transposed=True),
    Gemm(f8E5M2, f32, (128, 64, 256), b_transposed=True),
    Gemm(f8E4M3FN, f32, (64, 32, 128), b_transposed=True, fast_acc=True),
    Gemm(f8E5M2, f16, (64, 32, 128), b_transposed=True),
    Gemm(f16, f16, (64, 64, 64)),
    Gemm(f16, f16, (128, 64, 64), a_transposed=True, b_transposed=True),
    Gemm(tile=(64, 64, 32), b_transposed=True, **TF32),
    Gemm(tile=(128, 32, 64), b_transposed=True, **TF32),
)


RIGHT_BY_THREADS = (
    Gemm(tile=(64, 64, 32), **TF32),
    Gemm(tile=(32, 128, 64), **TF32),
    Gemm(tile=(16, 256, 32), **TF32),
    Gemm(i8, i32, (32, 128, 128)),
    Gemm(i8, i32, (64, 256, 128), signs=(UNSIGNED, SIGNED)),
    Gemm(f8E4M3FN, f32, (64, 128, 256)),
    Gemm(f8E5M2, f32, (128, 128, 128), fast_acc=True),
    Gemm(f8E4M3FN, f16, (16, 128, 128)),
)
"""b is stored with its rows contiguous: the instructions compute the transposed product."""

LEFT_BY_THREADS = (
    Gemm(tile=(64, 32, 32), a_transposed=True, b_transposed=True, **TF32),
    Gemm(tile=(256, 16, 32), a_transposed=True, b_transposed=True, **TF32),
    Gemm(i8, i32, (128, 32, 128), a_transposed=True, b_transposed=True, signs=(SIGNED, UNSIGNED)),
    Gemm(f8E4M3FN, f32, (128, 64, 128), a_transposed=True, b_transposed=True),
)
"""a is stored with its columns contiguous, b too."""


def specialised(gemm: Gemm):
    """The module of a GEMM after placement, and its products by wgmma."""
    module = gemm.kernel().module
    for _ in passes(module, (), "sm_90"):
        pass
    return module, [op for op in module.walk() if isinstance(op, WgmmaDotOp)]


@pytest.mark.parametrize(
    ("gemm", "fragments"),
    [
        *((gemm, None) for gemm in K_MAJOR),
        *((gemm, "rhs") for gemm in RIGHT_BY_THREADS),
        *((gemm, "lhs") for gemm in LEFT_BY_THREADS),
        (Gemm(i8, i32, (128, 128, 128), a_transposed=True), "both"),
        (Gemm(f8E4M3FN, f32, (128, 128, 128), a_transposed=True), "both"),
        (Gemm(tile=(128, 128, 32), a_transposed=True, **TF32), "both"),
        (Gemm(tile=(64, 256, 32), a_transposed=True, **TF32), "both"),
        (Gemm(tile=(256, 64, 16), a_transposed=True, **TF32), "both"),
    ],
    ids=str,
)
def test_products_are_specialised_and_exact(gemm: Gemm, fragments: str | None) -> None:
    module, dots = specialised(gemm)
    found = {dot.fragments.data if dot.fragments is not None else None for dot in dots}
    assert found == {fragments}
    tm, tn, tk = gemm.tile
    arguments = gemm.arguments((tm + 16, tn + 16, 2 * tk + 16))
    run_entry(module, "kernel", arguments, (2, 2, 1))
    np.testing.assert_array_equal(arguments[2], gemm.product(arguments))


@pytest.mark.parametrize(("fast_acc", "two_level"), [(False, True), (True, False)])
def test_f8_sums_leave_the_tensor_core_unless_fast_acc(fast_acc: bool, two_level: bool) -> None:
    gemm = Gemm(f8E4M3FN, f32, (64, 64, 128), b_transposed=True, fast_acc=fast_acc)
    _, dots = specialised(gemm)
    assert {dot.two_level is not None for dot in dots} == {two_level}


@pytest.mark.parametrize(
    "gemm",
    [
        Gemm(tile=(128, 16, 64), a_transposed=True, **TF32),
        Gemm(i8, i32, (128, 32, 128), a_transposed=True),
        Gemm(f8E4M3FN, f32, (128, 32, 128), a_transposed=True),
    ],
    ids=["few columns of tf32", "few columns of i8", "few columns of f8"],
)
def test_neither_operand_with_k_contiguous_is_left_to_mma_sync(gemm: Gemm) -> None:
    assert specialised(gemm)[1] == []


def test_f32_products_stay_true_f32() -> None:
    assert specialised(Gemm(f32, f32, (64, 64, 32), b_transposed=True))[1] == []


@pytest.mark.parametrize(("a_transposed", "b_transposed"), [(False, True), (True, False)])
def test_tf32_products_cut_the_low_bits_of_f32(a_transposed: bool, b_transposed: bool) -> None:
    gemm = Gemm(tile=(64, 64, 32), a_transposed=a_transposed, b_transposed=b_transposed, **TF32)
    arguments = gemm.arguments((64, 64, 32))
    bits = np.full(arguments[0].shape, 1.0 + 2.0**-10 + 2.0**-11 + 2.0**-13, np.float32).view(
        np.uint32
    )
    arguments[0][...] = bits
    module, _ = specialised(gemm)
    run_entry(module, "kernel", arguments, (1, 1, 1))
    cut = replace(gemm).product([(bits & 0xFFFF_E000).astype(np.uint32), *arguments[1:]])
    np.testing.assert_array_equal(arguments[2], cut)

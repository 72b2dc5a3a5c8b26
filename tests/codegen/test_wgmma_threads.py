"""Specialised products thread by thread: every type, operands read by wgmma and by the threads."""

from __future__ import annotations

import numpy as np
import pytest
from interpreter.kernels import SIGNED, UNSIGNED
from interpreter.product_kernels import TF32, Gemm
from interpreter.stage_comparison import passes
from simulate import lower_to_llvm
from simulated_wgmma import Tile, run_consumers
from xdsl.dialects.builtin import f8E4M3FN, f8E5M2, f16, f32, i8, i32

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.types import shape_of

GEMMS = (
    Gemm(tile=(64, 64, 32), b_turned=True, **TF32),
    Gemm(tile=(64, 64, 32), **TF32),
    Gemm(tile=(32, 256, 64), **TF32),
    Gemm(tile=(32, 128, 64), **TF32),
    Gemm(tile=(256, 32, 32), a_turned=True, b_turned=True, **TF32),
    Gemm(i8, i32, (128, 64, 128), b_turned=True, signs=(UNSIGNED, SIGNED)),
    Gemm(i8, i32, (64, 128, 128), signs=(SIGNED, UNSIGNED)),
    Gemm(i8, i32, (32, 256, 256)),
    Gemm(i8, i32, (32, 128, 256)),
    Gemm(i8, i32, (128, 64, 128), a_turned=True, b_turned=True),
    Gemm(f8E4M3FN, f32, (64, 64, 256), b_turned=True),
    Gemm(f8E5M2, f32, (128, 64, 128), b_turned=True),
    Gemm(f8E4M3FN, f32, (64, 256, 128)),
    Gemm(f8E4M3FN, f32, (64, 128, 128), fast_acc=True),
    Gemm(f8E5M2, f16, (32, 128, 128)),
    Gemm(f16, f16, (64, 64, 64), b_turned=True),
    Gemm(f16, f32, (32, 64, 64)),
    Gemm(f16, f32, (16, 128, 64), a_turned=True),
    Gemm(f16, f32, (8, 64, 128), b_turned=True),
    Gemm(tile=(16, 64, 32), b_turned=True, **TF32),
    Gemm(i8, i32, (32, 64, 128), b_turned=True, signs=(UNSIGNED, SIGNED)),
    Gemm(f8E5M2, f32, (8, 128, 256), b_turned=True),
)


def depth_of_slots(gemm: Gemm) -> int:
    """K of the tiles in a slot: steps that leave a ring no slot to spare are cut."""
    module = gemm.kernel().module
    for name, _ in passes(module, (), "sm_90"):
        if name == "tileaa-split-depth":
            break
    [dot] = [op for op in module.walk() if isinstance(op, aa.DotOp)]
    return shape_of(dot.lhs)[1]


@pytest.mark.parametrize("gemm", GEMMS, ids=str)
def test_threads_compute_the_product(gemm: Gemm) -> None:
    tm, tn, tk = gemm.tile
    arguments = gemm.arguments((tm, tn, 2 * tk))
    step_depth = depth_of_slots(gemm)
    a, b = (np.array(array) for array in arguments[:2])
    slots = [
        [
            Tile(a[step : step + step_depth] if gemm.a_turned else a[:, step : step + step_depth]),
            Tile(b[:, step : step + step_depth] if gemm.b_turned else b[step : step + step_depth]),
        ]
        for step in range(0, 2 * tk, step_depth)
    ]
    module = lower_to_llvm(gemm.kernel().module)
    run_consumers(module, arguments, slots, (0, 0, 0))
    np.testing.assert_array_equal(arguments[2], gemm.product(arguments))

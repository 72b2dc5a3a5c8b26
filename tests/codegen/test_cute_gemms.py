"""GEMMs in CuTe text with instructions of a generation: right in the PTX machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tileiras.driver import compile_module
from tileiras.interpreter.ptx import run_ptx
from tileiras.interpreter.ptx.tensor_maps import TensorMap
from tileiras.options import CompileOptions

EXAMPLES = Path(__file__).parents[2] / "examples" / "cute"


def ptx_of(name: str, target: str) -> str:
    """The PTX of an example."""
    source = (EXAMPLES / f"{name}.mlir").read_bytes()
    return compile_module(source, CompileOptions(gpu_name=target, emit="ptx")).output.decode()


def matrix(rows: int, columns: int, seed: int) -> np.ndarray:
    """Small numbers, whose sums are exact."""
    values = np.random.default_rng(seed).integers(-4, 5, (rows, columns))
    return values.astype(np.float16)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A B^T in f32."""
    return a.astype(np.float32) @ b.astype(np.float32).T


def test_ldmatrix_feeds_warps_through_two_stages() -> None:
    """The loop over K stays a loop: the text has one turn's instructions."""
    a, b = matrix(128, 96, 0), matrix(64, 96, 1)
    d = np.zeros((128, 64), np.float32)
    ptx = ptx_of("ldmatrix_gemm", "sm_80")
    run_ptx(ptx, [a, 128, 96, 96, b, 64, 96, 96, d, 128, 64, 64, 3], (2, 1, 1))
    assert (d == product(a, b)).all()
    assert ptx.count("mma.sync") == 16


def test_sums_stay_in_registers_one_product_behind() -> None:
    """Two CTAs take four tiles, five steps turn through four stages; f16 by stmatrix and TMA."""
    a, b = matrix(512, 320, 0), matrix(256, 320, 1)
    d = np.zeros((512, 256), np.float16)

    def mapped(array: np.ndarray, rows: int) -> TensorMap:
        shape, steps = (array.shape[1], array.shape[0]), (array.shape[1] * 2,)
        return TensorMap(0, "f16", shape, steps, (64, rows), swizzle="128B", array=array)

    ptx = ptx_of("persistent_gemm", "sm_90")
    run_ptx(ptx, [mapped(a, 128), mapped(b, 256), mapped(d, 16), 16, 4, 5], (2, 1, 1))
    assert (d == product(a, b).astype(np.float16)).all() and d.any()
    assert ptx.count("wgmma.wait_group.sync.aligned 1;") == 1
    assert ptx.count("stmatrix.sync.aligned.m8n8.x4") == 16


def test_a_warp_brings_tiles_that_warpgroups_multiply() -> None:
    """Three CTAs take four tiles, five steps of K turn through three stages."""
    a, b = matrix(256, 160, 0), matrix(128, 160, 1)
    d = np.zeros((256, 128), np.float32)

    def mapped(array: np.ndarray, rows: int) -> TensorMap:
        shape = (array.shape[1], array.shape[0])
        box, steps = (32, rows), (array.shape[1] * 2,)
        return TensorMap(0, "f16", shape, steps, box, swizzle="64B", array=array)

    ptx = ptx_of("wgmma_gemm", "sm_90")
    run_ptx(ptx, [mapped(a, 128), mapped(b, 64), d, 256, 128, 128, 2, 4, 5], (3, 1, 1))
    assert (d == product(a, b)).all()
    assert ptx.count("wgmma.mma_async") == 2

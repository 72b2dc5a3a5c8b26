"""GEMMs in CuTe text with instructions of a generation: right in the PTX machine."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.kernels.cute_gemms import EXAMPLES, mapped, matrix, product
from tileiras.driver import compile_module
from tileiras.interpreter.ptx import PtxRuntimeError, run_ptx
from tileiras.options import CompileOptions


@cache
def ptx_of(name: str, target: str) -> str:
    """The PTX of an example."""
    source = (EXAMPLES / f"{name}.mlir").read_bytes()
    return compile_module(source, CompileOptions(gpu_name=target, emit="ptx")).output.decode()


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
    ptx = ptx_of("persistent_gemm", "sm_90")
    maps = [mapped(a, (64, 128)), mapped(b, (64, 256)), mapped(d, (64, 16))]
    run_ptx(ptx, [*maps, 16, 4, 5], (2, 1, 1))
    assert (d == product(a, b).astype(np.float16)).all() and d.any()
    assert ptx.count("wgmma.wait_group.sync.aligned 1;") == 1
    assert ptx.count("stmatrix.sync.aligned.m8n8.x4") == 16


def test_a_warp_brings_tiles_that_warpgroups_multiply() -> None:
    """Three CTAs take four tiles, five steps of K turn through three stages."""
    a, b = matrix(256, 160, 0), matrix(128, 160, 1)
    d = np.zeros((256, 128), np.float32)
    ptx = ptx_of("wgmma_gemm", "sm_90")
    run_ptx(ptx, [mapped(a, (32, 128)), mapped(b, (32, 64)), d, 256, 128, 128, 2, 4, 5], (3, 1, 1))
    assert (d == product(a, b)).all()
    assert ptx.count("wgmma.mma_async") == 2


def test_a_pipeline_and_a_scheduler_take_the_place_of_barriers() -> None:
    """The GEMM before it, by cutlass; of 16 tiles of a group two are there."""
    a, b = matrix(256, 320, 0), matrix(512, 320, 1)
    d = np.zeros((256, 512), np.float16)
    ptx = ptx_of("cutlass_gemm", "sm_90")
    maps = [mapped(a, (64, 128)), mapped(b, (64, 256)), mapped(d, (64, 16))]
    run_ptx(ptx, [*maps, 2, 2, 5], (3, 1, 1))
    assert (d == product(a, b).astype(np.float16)).all() and d.any()
    assert ptx.count("wgmma.wait_group.sync.aligned 1;") == 1


@pytest.mark.parametrize("target", ["sm_100", "sm_103"])
def test_sums_of_one_tile_are_stored_while_the_next_is_summed_up(target: str) -> None:
    """Two CTAs take six tiles, five steps turn through four stages; against f64."""
    values = np.random.default_rng(2)
    a, b = (values.standard_normal((rows, 320)).astype(np.float16) for rows in (256, 384))
    d = np.zeros((256, 384), np.float16)
    ptx = ptx_of("tcgen05_gemm", target)
    maps = [mapped(a, (64, 128)), mapped(b, (64, 128)), mapped(d, (64, 32))]
    run_ptx(ptx, [*maps, 2, 3, 5], (2, 1, 1))
    wanted = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.abs(d - wanted).max() <= np.abs(wanted).max() * 2.0**-11
    assert ptx.count("tcgen05.mma.cta_group::1.kind::f16") == 4
    assert ptx.count("tcgen05.ld.sync.aligned.32x32b.x32.b32") == 4


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("          cutlass.consumer_wait(%loads, %state)\n", "an operand is being copied to"),
        ("      cute_nvgpu.fence_proxy_async()\n", "without a fence.proxy.async"),
    ],
)
def test_a_line_that_is_missing_is_found_by_the_machine(line: str, message: str) -> None:
    """A wait for operands, a fence before a store."""
    text = (EXAMPLES / "tcgen05_gemm.mlir").read_text()
    assert text.count(line) == 1
    options = CompileOptions(gpu_name="sm_100", emit="ptx")
    ptx = compile_module(text.replace(line, "").encode(), options).output.decode()
    a, b, d = matrix(128, 320, 0), matrix(128, 320, 1), np.zeros((128, 128), np.float16)
    maps = [mapped(a, (64, 128)), mapped(b, (64, 128)), mapped(d, (64, 32))]
    with pytest.raises(PtxRuntimeError, match=message):
        run_ptx(ptx, [*maps, 1, 1, 5], (1, 1, 1))


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("saxpy", "sm_80"),
        ("transpose", "sm_80"),
        ("gemm", "sm_80"),
        ("ldmatrix_gemm", "sm_80"),
        ("wgmma_gemm", "sm_90"),
        ("persistent_gemm", "sm_90"),
        ("cutlass_gemm", "sm_90"),
        ("tcgen05_gemm", "sm_100"),
        ("tcgen05_gemm", "sm_103"),
    ],
)
def test_ptxas_assembles_it(name: str, target: str) -> None:
    """For the target with all of its instructions."""
    source = (EXAMPLES / f"{name}.mlir").read_bytes()
    result = compile_module(source, CompileOptions(gpu_name=target, emit="cubin"))
    assert result.output.startswith(b"\x7fELF")
    if target != "sm_80":
        assert f".target {target}a" in ptx_of(name, target)


@pytest.mark.parametrize(
    ("elements", "shape", "target", "dtypes", "instruction"),
    [
        ("bf16, bf16, f32", (16, 8, 16), "sm_80", (ml_dtypes.bfloat16, np.float32), "f32.bf16"),
        ("f16, f16, f16", (16, 8, 16), "sm_80", (np.float16, np.float16), "f16.f16.f16.f16"),
        ("i8, i8, i32", (16, 8, 32), "sm_80", (np.int8, np.int32), "s32.s8.s8.s32"),
        ("f64, f64, f64", (8, 8, 4), "sm_80", (np.float64, np.float64), "m8n8k4.row.col.f64"),
        (
            "f8E4M3FN, f8E4M3FN, f32",
            (16, 8, 32),
            "sm_89",
            (ml_dtypes.float8_e4m3fn, np.float32),
            "f32.e4m3.e4m3.f32",
        ),
        (
            "f8E5M2, f8E5M2, f32",
            (16, 8, 32),
            "sm_89",
            (ml_dtypes.float8_e5m2, np.float32),
            "f32.e5m2.e5m2.f32",
        ),
    ],
)
def test_atoms_of_warps(
    elements: str, shape: tuple[int, ...], target: str, dtypes: tuple[Any, Any], instruction: str
) -> None:
    """The smallest example with the atoms of a generation; four warps, 32 x 32 x 32."""
    first, _, last = elements.split(", ")
    text = (EXAMPLES / "gemm.mlir").read_text().replace("f16, f16, f32", elements)
    text = text.replace("(16,8,16)", str(shape).replace(" ", "")).replace(
        "tensor<f32", f"tensor<{last}"
    )
    text = text.replace("tensor<f16", f"tensor<{first}")
    bits = [8 * np.dtype(dtype).itemsize for dtype in dtypes]
    text = text.replace("universal, 16>", f"universal, {bits[0]}>")
    text = text.replace("universal, 32>", f"universal, {bits[1]}>")
    numbers = np.random.default_rng(0).integers(-3, 4, (2, 32, 32))
    a, b = (each.astype(dtypes[0]) for each in numbers)
    d = np.zeros((32, 32), dtypes[1])
    ptx = compile_module(text.encode(), CompileOptions(gpu_name=target, emit="ptx")).output.decode()
    raw = [
        x.view(np.uint8) if np.dtype(dtypes[0]).itemsize == 1 else x.view(f"u{bits[0] // 8}")
        for x in (a, b)
    ]
    run_ptx(ptx, [*raw, d], (1, 1, 1))
    wanted = a.astype(np.float64) @ b.astype(np.float64).T
    assert (d.astype(np.float64) == wanted).all() and d.any()
    assert instruction in ptx

"""Products of warps whose CTAs take over tile blocks: where these differ, or if asked to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.machine_products import difference_of
from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import aligned_result
from tests.kernels.scaled_gemm import ScaledGemm
from tests.kernels.softmax_attention import RESULT, attention_arguments, softmax_attention
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import get_target
from tileiras.driver import compile_module
from tileiras.interpreter.ptx import Limits, run_ptx
from tileiras.options import DYNAMIC_PERSISTENT, CompileOptions

ASKS = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
F16 = ProductKernel("f16", (128, 128, 64), whole=True, result="f16")
KERNELS = (
    F16,
    replace(F16, element="bf16", result="f32", b="transposed"),
    replace(F16, element="f8E4M3FN", tile=(128, 128, 128), b="transposed"),
)
MX8 = ScaledGemm("f8E4M3FN", "f8E8M0FNU", 32, (128, 128, 128))
ASKED = {DYNAMIC_PERSISTENT: "1"}


def compiled(source: str, gpu: str = "sm_120", knobs: dict[str, str] | None = None) -> str:
    """PTX, of a kernel whose CTAs are asked to take over tile blocks if nothing else is said."""
    given = ASKED if knobs is None else knobs
    options = CompileOptions(gpu_name=gpu, emit="ptx", knobs=given)
    return compile_module(source.encode(), options).output.decode()


@pytest.mark.parametrize("gpu", ["sm_120", "sm_121"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_ctas_of_warps_take_over_tiles(kernel: ProductKernel, gpu: str) -> None:
    source = aligned_result(kernel)
    text = compiled(source, gpu)
    assert ASKS in text and "mma.sync" in text and "tcgen05" not in text
    for resident in (1, 2, 16):
        assert difference_of(kernel, text, resident, (3, 3), 5) == ""
    result = ptx_to_cubin(text, get_target(gpu), CompileOptions(gpu_name=gpu))
    assert result.cubin and result.spills == 0


def test_block_scaled_products_of_warps_do() -> None:
    text = compiled(MX8.text())
    assert ASKS in text and "block_scale" in text
    extents = (256, 384, 256)
    arguments, wanted = MX8.arguments(extents)
    run_ptx(text, arguments, MX8.grid(extents), limits=Limits(resident=2))
    np.testing.assert_array_equal(arguments[4].reshape(wanted.shape), wanted)


def test_they_do_not_unless_asked() -> None:
    """They keep fewer stages for it, and nobody has measured what they gain."""
    assert ASKS not in compiled(aligned_result(F16), knobs={})
    assert ASKS not in compiled(aligned_result(F16), knobs={DYNAMIC_PERSISTENT: "0"})


@pytest.mark.parametrize("gpu", ["sm_120", "sm_121"])
@pytest.mark.parametrize(
    "tile", [("causal", 128, 64, 64), ("masked", 256, 64, 64)], ids=lambda tile: tile[0]
)
def test_blocks_that_take_different_times_do(tile: tuple[str, int, int, int], gpu: str) -> None:
    text = compiled(softmax_attention(*tile).decode(), gpu, {})
    plain = compiled(softmax_attention(*tile).decode(), gpu, {DYNAMIC_PERSISTENT: "0"})
    assert ASKS in text and ASKS not in plain
    once, grid = attention_arguments(tile[1], 384, tile[3], blocks=(3,))
    once[-1] = 0.125
    run_ptx(plain, once, grid)
    for resident in (1, 16):
        arguments, _ = attention_arguments(tile[1], 384, tile[3], blocks=(3,))
        arguments[-1] = 0.125
        run_ptx(text, arguments, grid, limits=Limits(resident=resident))
        assert (arguments[RESULT] == once[RESULT]).all() and once[RESULT].any()
    result = ptx_to_cubin(text, get_target(gpu), CompileOptions(gpu_name=gpu))
    assert result.cubin and result.spills == 0


def test_they_do_not_where_a_single_stage_would_be_left() -> None:
    assert ASKS not in compiled(softmax_attention("causal", 128, 64, 128).decode(), knobs={})


def test_small_tiles_share_an_sm_instead() -> None:
    assert ASKS not in compiled(aligned_result(replace(F16, tile=(64, 64, 64))))


def test_targets_without_the_instruction_leave_them() -> None:
    assert ASKS not in compiled(aligned_result(F16), "sm_90")

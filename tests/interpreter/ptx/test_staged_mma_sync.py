"""Products by mma.sync from stages that TMA fills, on the PTX machine: values and races."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

from tests.kernels import scaled_runs
from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import make_case
from tests.kernels.scaled_products import ScaledGemm
from tests.kernels.scaled_runs import NV4, WHOLE
from tests.kernels.softmax_attention import (
    RESULT,
    attention_arguments,
    run_attention,
    softmax_attention,
)
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import get_target
from tileiras.driver import compile_module, read_source
from tileiras.interpreter.ptx import run_ptx
from tileiras.interpreter.ptx.errors import PtxRuntimeError
from tileiras.options import CompileOptions

ASSEMBLED = CompileOptions(opt_level=3, gpu_name="sm_120")
TARGETS = (("sm_90", ("wgmma",)), ("sm_120", ()))
KERNELS = (
    ProductKernel("f16", (128, 128, 64), whole=True),
    ProductKernel("bf16", (128, 128, 32), a="column", b="transposed", whole=True),
    ProductKernel("i8", (128, 128, 64), b="transposed", whole=True),
    ProductKernel("f16", (128, 256, 32), form="persistent", whole=True),
)
OTHERS = (
    ProductKernel("f16", (64, 64, 64), whole=True),
    ProductKernel("i8", (128, 128, 64), whole=True),
    ProductKernel("f16", (128, 128, 64), whole=True, chunk=4),
)
"""Too small, K of a row-major B not contiguous for bytes, and strides that TMA does not take."""


@cache
def compiled(source: bytes, target: str, without: tuple[str, ...]) -> str:
    """PTX of a kernel, which has a producer warp."""
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name=target, disabled_features=without)
    text = compile_module(source, options).output.decode()
    assert "cp.async.bulk.tensor" in text
    assert "mma.sync" in text and "ldmatrix" in text
    assert "wgmma" not in text
    return text


@pytest.mark.parametrize(("target", "without"), TARGETS)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_warps_compute_the_product(
    kernel: ProductKernel, target: str, without: tuple[str, ...]
) -> None:
    text = compiled(kernel.text().encode(), target, without)
    case = make_case(kernel, 0, tiles=2)
    arguments = case.arguments()
    run_ptx(text, arguments, case.grid)
    assert case.difference(arguments[2]) == ""


def test_a_stage_that_is_handed_back_without_a_proxy_fence_is_an_error() -> None:
    """TMA may write a stage only when the loads of threads are complete: decision 74."""
    text = compiled(KERNELS[0].text().encode(), *TARGETS[1])
    before, loop, after = text.rpartition("ldmatrix")
    fence = re.search(r"fence\.proxy\.async\.shared::cta;", after)
    assert fence is not None and fence.start() < after.index("mbarrier.arrive")
    unfenced = before + loop + after[: fence.start()] + after[fence.end() :]
    case = make_case(KERNELS[0], 63, tiles=7)
    assert case.extents[2] > 4 * 64  # stages are filled a second time
    with pytest.raises(PtxRuntimeError, match="reads, without a fence.proxy.async"):
        run_ptx(unfenced, case.arguments(), case.grid)


@pytest.mark.parametrize(("target", "without"), TARGETS)
@pytest.mark.parametrize("kind", ["full", "causal"])
def test_warps_compute_attention(kind: str, target: str, without: tuple[str, ...]) -> None:
    source = softmax_attention(kind, 64, 64, 64)
    wanted = run_attention(read_source(source), 64, 152, 64, blocks=(2,))
    text = compiled(source, target, without)
    arguments, grid = attention_arguments(64, 152, 64, blocks=(2,))
    run_ptx(text, [float(a) if isinstance(a, np.floating) else a for a in arguments], grid)
    found = arguments[RESULT].view(np.float16).astype(np.float64)
    np.testing.assert_allclose(found, wanted.view(np.float16), rtol=0.01, atol=0.004)


@pytest.mark.parametrize(("target", "without"), TARGETS)
@pytest.mark.parametrize("kernel", OTHERS, ids=lambda kernel: kernel.name)
def test_all_warps_copy_what_stages_are_not_for(
    kernel: ProductKernel, target: str, without: tuple[str, ...]
) -> None:
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name=target, disabled_features=without)
    text = compile_module(kernel.text().encode(), options).output.decode()
    assert "mma.sync" in text and "cp.async.bulk.tensor" not in text


def test_sm_120_names_the_own_cta_so_that_registers_are_handed_over() -> None:
    """ptxas ignores setmaxnreg there otherwise, and spills."""
    source = ProductKernel("f16", (128, 128, 32), b="transposed", whole=True).text().encode()
    texts = {target: compiled(source, target, without) for target, without in TARGETS}
    assert "2d.shared::cta.global.tile" in texts["sm_120"]
    assert "2d.shared::cluster.global.tile" not in texts["sm_120"]
    assert "2d.shared::cluster.global.tile" in texts["sm_90"]
    assert "setmaxnreg.inc" in texts["sm_120"]


def test_ptxas_spills_nothing_of_it() -> None:
    """A kernel that needs more registers than it is launched with."""
    text = scaled_runs.compiled(ScaledGemm(*NV4, (128, 256, 128), WHOLE), "sm_120")
    assert ptx_to_cubin(text, get_target("sm_120"), ASSEMBLED).spills == 0
    other = text.replace(".shared::cta.global.tile", ".shared::cluster.global.tile")
    assert ptx_to_cubin(other, get_target("sm_120"), ASSEMBLED).spills > 0

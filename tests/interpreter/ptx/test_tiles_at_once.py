"""Clusters that compute several neighbouring tile blocks at once, and take over others.

In the machine against float64, with no race and no read of unfinished work; ptxas takes all. GPUs
here have few SMs, so that few tile blocks are many.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import dense_case
from tests.kernels.scaled_products import ScaledGemm, gemm, gemm_arguments
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import get_target, records
from tileiras.dialects import nv_tileaa as aa
from tileiras.driver import compile_module, read_source
from tileiras.interpreter.ptx import Limits, run_ptx
from tileiras.interpreter.ptx.errors import PtxError
from tileiras.options import DYNAMIC_PERSISTENT, CompileOptions

NV4 = ("f4E2M1FN", "f8E4M3FN", 16)
FOUR = ScaledGemm(*NV4, (512, 128, 256), (512, 1024, 512), ctas=4)
"""Eight tiles: three, three, and two."""
SCALED = (
    FOUR,
    replace(FOUR, sizes=(512, 512, 768)),
    replace(FOUR, sizes=(700, 600, 512)),
    ScaledGemm("f4E2M1FN", "f8E8M0FNU", 32, (512, 128, 256), (512, 384, 512), ctas=4),
    ScaledGemm("f4E2M1FN", "f8E8M0FNU", 32, (512, 128, 512), (512, 384, 1024), ctas=4),
    ScaledGemm("f8E4M3FN", "f8E8M0FNU", 32, (512, 128, 128), (512, 384, 256), ctas=4),
)
EIGHT = ScaledGemm(*NV4, (512, 256, 256), (512, 768, 512), ctas=8)
DENSE = ProductKernel("f16", (512, 128, 64), whole=True, result="f16", cluster=4)
DENSE_KERNELS = (
    DENSE,
    replace(DENSE, element="bf16", result="bf16"),
    replace(DENSE, element="f8E4M3FN", tile=(512, 128, 128)),
)
COLLECTED = ".collector::a::"


@pytest.fixture(autouse=True)
def few_multiprocessors(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One cluster at a time."""
    for name in ("sm_100", "sm_103"):
        target = get_target(name)
        performance = replace(target.performance, multiprocessors=8)
        few = replace(target, performance=performance)
        monkeypatch.setitem(records._BY_NAME, name, few)  # pyright: ignore[reportPrivateUsage]
    yield


def compiled(source: str, gpu: str, emit: str = "ptx", **knobs: str) -> str:
    """A stage of a kernel."""
    options = CompileOptions(gpu_name=gpu, emit=emit, knobs=knobs)
    return compile_module(source.encode(), options).output.decode()


def tiles_at_once(source: str, gpu: str) -> int:
    """What stands on the kernel."""
    module = read_source(compiled(source, gpu, "nv_tileas").encode())
    [func] = [op for op in module.walk() if isinstance(op, aa.FuncOp)]
    return 1 if func.tiles_at_once is None else func.tiles_at_once.data


def check(kernel: ScaledGemm, text: str, resident: int) -> None:
    """C is that of float64, to f32's last bits; a third of the scales is negative."""
    given, wanted = gemm_arguments(kernel)
    run_ptx(text, given, kernel.grid, limits=Limits(40_000_000, resident=resident))
    np.testing.assert_allclose(given[-1], wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("kernel", SCALED, ids=str)
def test_a_cluster_computes_three_tile_blocks(kernel: ScaledGemm) -> None:
    source = gemm(kernel)
    assert tiles_at_once(source, "sm_100") == 3
    text = compiled(source, "sm_100")
    assert "try_cancel" in text and COLLECTED in text
    for resident in (4, 8):
        check(kernel, text, resident)
    result = ptx_to_cubin(text, get_target("sm_100"), CompileOptions(gpu_name="sm_100"))
    assert result.cubin and result.spills == 0


def test_of_eight_ctas_where_products_are_faster() -> None:
    source = gemm(EIGHT)
    assert (tiles_at_once(source, "sm_100"), tiles_at_once(source, "sm_103")) == (1, 3)

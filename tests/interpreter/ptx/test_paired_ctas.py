"""Two CTAs of a cluster that divide a tile, and multiply together (`cta_group::2`): in the machine.

Against float64, with no race and no read of unfinished work; ptxas takes all.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import aligned_result, dense_case
from tests.kernels.scaled_products import ScaledGemm, gemm, gemm_arguments
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import get_target
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.driver import compile_module, read_source
from tileiras.interpreter.ptx import run_ptx
from tileiras.interpreter.ptx.errors import PtxError
from tileiras.options import CompileOptions

MX8 = ("f8E4M3FN", "f8E8M0FNU", 32)
MX4 = ("f4E2M1FN", "f8E8M0FNU", 32)
NV4 = ("f4E2M1FN", "f8E4M3FN", 16)
F16 = ProductKernel("f16", (256, 128, 64), whole=True, cluster=2, result="f16")
LARGE = replace(F16, tile=(256, 256, 64))
RAGGED = (300, 200, 100)
KERNELS = (
    replace(LARGE, cluster=0),
    replace(LARGE, form="persistent"),
    replace(LARGE, element="bf16", result="f32", b="permuted"),
    replace(LARGE, a="column", b="column"),
    replace(LARGE, element="f32", tile=(256, 256, 32), b="column", result="f32"),
    replace(LARGE, element="f8E4M3FN", tile=(256, 256, 128), result="f32"),
    replace(LARGE, element="f8E5M2", tile=(256, 256, 128), b="transposed", result="f32"),
    replace(LARGE, element="i8", tile=(256, 256, 128), result="i32"),
    replace(LARGE, form="batched"),
    replace(F16, tile=(512, 128, 64)),
    replace(LARGE, tile=(512, 128, 64), cluster=4, form="persistent", b="column"),
)
SCALED = (
    ScaledGemm(*MX8, (256, 256, 128), (300, 256, 320)),
    ScaledGemm(*MX8, (256, 256, 128), (256, 256, 256), rows=True),
    ScaledGemm(*MX4, (256, 256, 256), (256, 256, 512)),
    ScaledGemm(*NV4, (256, 256, 256), (400, 256, 640)),
    ScaledGemm(*NV4, (256, 256, 256), (256, 512, 512), is_persistent=True),
    ScaledGemm(*MX8, (256, 256, 128), (300, 256, 320), ctas=4),
    ScaledGemm(*MX4, (512, 512, 256), (512, 512, 512), ctas=8),
    ScaledGemm(*NV4, (256, 256, 256), (400, 256, 640), ctas=4, is_persistent=True),
    ScaledGemm(*NV4, (512, 512, 256), (512, 700, 512), ctas=8),
)
BYTES = replace(LARGE, cluster=4, tile=(256, 256, 128), b="column")
BOTH = (
    (replace(LARGE, cluster=4), 0b01, 0b10),
    (replace(LARGE, cluster=4, form="persistent", a="column"), 0b01, 0b10),
    (replace(BYTES, element="f8E4M3FN", result="f32"), 0b01, 0b10),
    (replace(BYTES, element="i8", result="i32"), 0b01, 0b10),
    (replace(LARGE, cluster=8, element="bf16", tile=(512, 512, 64), result="bf16"), 0b011, 0b100),
)
"""With the bits of the rank in which CTAs load different left, and different right operands."""


@cache
def compiled(kernel: ProductKernel, gpu: str = "sm_100") -> str:
    """PTX of a kernel whose hints are for the target, and whose result is aligned."""
    source = aligned_result(kernel).replace("sm_90", gpu)
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name=gpu)
    return compile_module(source.encode(), options).output.decode()


def check(kernel: ProductKernel, text: str, extents: tuple[int, int, int] | None = None) -> None:
    """Two tiles, or some extents."""
    m, n, k = kernel.tile
    rows, columns, depth = extents or (m, 2 * n, 2 * k)
    grid = (2, 1, 1) if kernel.form == "persistent" else (-(-rows // m), -(-columns // n), 1)
    case = dense_case(kernel, (rows, columns, depth), *grid)
    arguments = case.arguments()
    run_ptx(text, arguments, case.grid)
    assert case.difference(arguments[2]) == ""


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_two_ctas_multiply_together(kernel: ProductKernel) -> None:
    text = compiled(kernel)
    assert "tcgen05.mma.cta_group::2" in text and "cta_group::1" not in text
    assert f"reqnctapercluster {max(2, kernel.cluster)}" in text
    # Operands that pairs of a larger cluster share come once for all of them.
    assert ("tile.mbarrier::complete_tx::bytes.multicast" in text) == (kernel.cluster > 2)
    check(kernel, text)
    result = ptx_to_cubin(text, get_target("sm_100"), CompileOptions(gpu_name="sm_100"))
    assert result.cubin and result.spills == 0


@pytest.mark.parametrize("gpu", ["sm_103", "sm_110"])
def test_other_targets_do_so_too(gpu: str) -> None:
    text = compiled(LARGE, gpu)
    assert "tcgen05.mma.cta_group::2" in text
    check(LARGE, text)


@pytest.mark.parametrize("extents", [RAGGED, (256, 264, 8)], ids=str)
def test_extents_that_are_no_whole_tiles(extents: tuple[int, int, int]) -> None:
    kernel = replace(LARGE, whole=False, result="f32")
    check(kernel, compiled(kernel), extents)


@pytest.mark.parametrize("kernel", SCALED, ids=str)
def test_scales_come_to_both(kernel: ScaledGemm) -> None:
    """Each CTA has the scales of its rows and of all columns, and moves the signs of its half."""
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_100")
    text = compile_module(gemm(kernel).encode(), options).output.decode()
    assert "tcgen05.cp.cta_group::2" in text and "cta_group::1" not in text
    assert re.search(r"tcgen05\.mma\.cta_group::2\S*block_scale", text)
    given, wanted = gemm_arguments(kernel)
    run_ptx(text, given, kernel.grid)
    np.testing.assert_allclose(given[-1], wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())
    result = ptx_to_cubin(text, get_target("sm_100"), CompileOptions(gpu_name="sm_100"))
    assert result.cubin and result.spills == 0


@pytest.mark.parametrize(
    ("kernel", "left", "right"), BOTH, ids=[kernel.name for kernel, _, _ in BOTH]
)
def test_a_cluster_divides_rows_and_columns(kernel: ProductKernel, left: int, right: int) -> None:
    """CTAs of a row share what they read of A, those of a column what they read of B."""
    source = aligned_result(kernel).replace("sm_90", "sm_100").encode()
    options = CompileOptions(opt_level=3, emit="nv_tileas", gpu_name="sm_100")
    module = read_source(compile_module(source, options).output)
    loads = [op for op in module.walk() if isinstance(op, pl.TmaLoadOp)]
    apart = {(op.halved is not None, op.apart.data) for op in loads if op.apart is not None}
    assert {(False, left)} <= apart <= {(False, left), (True, right)}
    assert all(op.sharers(kernel.cluster) == 2 for op in loads if op.multicast_if is not None)
    text = compiled(kernel)
    assert "tcgen05.mma.cta_group::2" in text and "cta_group::1" not in text
    check(kernel, text)
    result = ptx_to_cubin(text, get_target("sm_100"), CompileOptions(gpu_name="sm_100"))
    assert result.cubin and result.spills == 0


def test_rows_and_columns_on_extents_that_are_no_whole_tiles() -> None:
    kernel = replace(LARGE, whole=False, result="f32", cluster=4)
    check(kernel, compiled(kernel), RAGGED)


def test_a_copy_for_the_wrong_ctas_is_found() -> None:
    """CTAs 0 and 2 have the same rows: the masks of both are shifted ones of 0b101."""
    kernel = replace(LARGE, cluster=4)
    text = compiled(kernel)
    wrong, count = re.subn(r"(mov\.b16 \s*%rs\d+), 5;", r"\1, 3;", text)
    assert count == 1
    with pytest.raises((PtxError, AssertionError)):
        check(kernel, wrong)


def test_a_hint_of_one_keeps_the_tile_in_one_cta() -> None:
    text = compiled(replace(LARGE, cluster=1))
    assert "cta_group::2" not in text and "reqnctapercluster" not in text


def test_a_stage_that_the_second_cta_does_not_tell_of_is_waited_for() -> None:
    arrive = re.compile(r"mbarrier\.arrive\.release\.cta\.shared::cluster\.b64 _, \[\w+\], 1;")
    text = compiled(LARGE)
    assert arrive.search(text)
    with pytest.raises(PtxError, match="deadlock|never"):
        check(LARGE, arrive.sub("mov.b32 ra, 0;", text))


def test_a_commit_for_one_cta_alone_is_found() -> None:
    commit = r"(tcgen05\.commit\S*?)\.multicast::cluster(\.b64 \[%r\d+\]), %rs\d+"
    text = re.sub(commit, r"\1\2", compiled(LARGE))
    assert text != compiled(LARGE)
    with pytest.raises(PtxError):
        check(LARGE, text)

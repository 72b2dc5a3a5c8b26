"""Scales that TMA brings, once for the CTAs that share them, and the product warp puts in order.

In the machine against float64, with no race and no read of unfinished work; ptxas takes all.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.kernels.scaled_products import ScaledGemm, gemm, gemm_arguments
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import get_target
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas.memdesc import ScaleRowsAttr
from tileiras.dialects.nv_tileas.tcgen05 import ScalesLoadOp, Tcgen05DotScaledOp
from tileiras.driver import compile_module, read_source
from tileiras.interpreter.ptx import Limits, run_ptx
from tileiras.interpreter.ptx.errors import PtxError
from tileiras.options import LARGE_CLUSTERS, CompileOptions

NV4 = ("f4E2M1FN", "f8E4M3FN", 16)
ALONE = ScaledGemm(*NV4, (128, 128, 256), (128, 256, 512))
PAIR = replace(ALONE, tile=(256, 256, 256), sizes=(256, 512, 512))
KERNELS = (
    ALONE,
    replace(ALONE, tile=(128, 64, 256), sizes=(200, 200, 512)),
    replace(ALONE, tile=(128, 256, 256), sizes=(256, 256, 768)),
    replace(ALONE, tile=(128, 32, 256), sizes=(128, 64, 512)),
    replace(PAIR, is_persistent=True),
    replace(PAIR, ctas=4),
    replace(PAIR, ctas=8, tile=(512, 512, 256), sizes=(512, 700, 512)),
)
MX4 = ScaledGemm("f4E2M1FN", "f8E8M0FNU", 32, (128, 128, 512), (128, 200, 1024))
"""16 scales of a row are those of 512 elements."""
KERNELS_OF_32 = (
    MX4,
    replace(MX4, tile=(256, 256, 512), sizes=(256, 512, 1024)),
    replace(MX4, tile=(512, 512, 512), sizes=(512, 512, 1024), ctas=8),
)
LARGE = replace(PAIR, ctas=16, tile=(1024, 512, 256), sizes=(1024, 512, 512))
"""A cluster that a launch has to allow."""
BY_THREADS = (
    replace(ALONE, sizes=(128, 256, 640)),
    replace(ALONE, tile=(128, 128, 128)),
)
"""Rows of scales start at any multiple of 8 bytes; a row of a tile has 8 bytes."""


@cache
def compiled(kernel: ScaledGemm, emit: str = "ptx", **knobs: str) -> str:
    """A stage of a kernel."""
    options = CompileOptions(opt_level=3, emit=emit, gpu_name="sm_100", knobs=knobs)
    return compile_module(gemm(kernel).encode(), options).output.decode()


def check(kernel: ScaledGemm, text: str) -> None:
    """The kernel's C is that of float64, to f32's last bits; a third of the scales is negative."""
    given, wanted = gemm_arguments(kernel)
    run_ptx(text, given, kernel.grid, limits=Limits(20_000_000))
    scale = np.abs(wanted).max()
    assert scale > 1
    np.testing.assert_allclose(given[-1], wanted, rtol=1e-5, atol=1e-6 * scale)


@pytest.mark.parametrize("kernel", [*KERNELS, *KERNELS_OF_32], ids=str)
def test_rows_of_scales_come_by_tma(kernel: ScaledGemm) -> None:
    text = compiled(kernel)
    assert "block_scale" in text and "cp.async.ca" not in text
    check(kernel, text)
    result = ptx_to_cubin(text, get_target("sm_100"), CompileOptions(gpu_name="sm_100"))
    assert result.cubin and result.spills == 0


@pytest.mark.parametrize("kernel", BY_THREADS, ids=str)
def test_threads_copy_other_scales(kernel: ScaledGemm) -> None:
    text = compiled(kernel)
    assert "block_scale" in text and "cp.async.ca" in text
    check(kernel, text)


def test_a_cluster_loads_scales_once() -> None:
    """Of 4x2 CTAs two share the scales of rows, and four those of columns."""
    module = read_source(compiled(KERNELS[-1], "nv_tileas").encode())
    assert not any(isinstance(op, ScalesLoadOp) for op in module.walk())
    [product] = [op for op in module.walk() if isinstance(op, Tcgen05DotScaledOp)]
    for scales in (product.lhs_scale, product.rhs_scale):
        assert isinstance(scales.type.encoding, ScaleRowsAttr)
    maps = [op for op in module.walk() if isinstance(op, pl.MakeTensorMapOp)]
    plain = {op.result for op in maps if not op.swizzle.data}
    loads = [op for op in module.walk() if isinstance(op, pl.TmaLoadOp) and op.tensor_map in plain]
    assert sorted(op.sharers(8) for op in loads) == [2, 4]


def test_cute_notation_says_how_scales_lie() -> None:
    assert "scales (128,16) in rows of 16 bytes" in compiled(PAIR, "cute")


def test_the_tensor_core_may_not_read_before_the_fence() -> None:
    text = compiled(ALONE)
    without = text.replace("fence.proxy.async.shared::cta;", "").replace("fence.proxy.async;", "")
    assert without != text
    with pytest.raises(PtxError, match="proxy"):
        check(ALONE, without)


def test_rows_are_all_read_before_any_is_overwritten() -> None:
    """In the machine a warp's lanes go together, so only the order in the program can be seen."""
    kinds = r"(ld|st)\.shared\.v4|(bar)\.warp\.sync|(fence)\.proxy\.async"
    order = " ".join("".join(found) for found in re.findall(kinds, compiled(ALONE)))
    assert " ".join([*["ld"] * 8, "bar", *["st"] * 8, "fence", "bar"]) in order


def test_sixteen_ctas_divide_a_tile_where_the_launch_allows_them() -> None:
    text = compiled(LARGE, **{LARGE_CLUSTERS: "1"})
    assert "reqnctapercluster 16" in text and "cta_group::2" in text
    check(LARGE, text)


def test_no_more_ctas_than_every_launch_allows_otherwise() -> None:
    text = compiled(LARGE)
    assert "reqnctapercluster 8" in text and "block_scale" in text

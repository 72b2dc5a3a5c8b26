"""Large tiles whose CTAs take over tile blocks that have not started, with few CTAs at a time."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.kernels.machine_products import difference_of
from tests.kernels.product_text import ProductKernel
from tests.kernels.scaled_products import ScaledGemm, gemm, gemm_arguments
from tests.kernels.softmax_attention import RESULT, attention_arguments, softmax_attention
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import get_target
from tileiras.driver import compile_module
from tileiras.interpreter.ptx import Limits, run_ptx
from tileiras.interpreter.ptx.errors import PtxError
from tileiras.options import DYNAMIC_PERSISTENT, CompileOptions

ASKS = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
FOR_BOTH = f"{ASKS}.multicast::cluster::all.b128"
ALONE = ProductKernel("f16", (128, 256, 64), whole=True, result="f16", cluster=1)
KERNELS = (
    ALONE,
    replace(ALONE, cluster=2),
    replace(ALONE, cluster=0, element="bf16", result="bf16"),
    replace(ALONE, element="f8E4M3FN", tile=(128, 256, 128), result="f16"),
    replace(ALONE, cluster=2, element="f8E4M3FN", tile=(128, 256, 128), result="f16"),
    replace(ALONE, cluster=2, tile=(256, 128, 64)),
)
DIVIDED = (
    replace(ALONE, cluster=0, tile=(256, 256, 64)),
    replace(ALONE, cluster=4, tile=(512, 256, 64)),
    replace(ALONE, cluster=0, element="f8E4M3FN", tile=(256, 256, 128)),
)
"""Tiles of two and four CTAs."""
SCALED = (
    ScaledGemm("f8E4M3FN", "f8E8M0FNU", 32, (128, 256, 128), (256, 512, 256)),
    ScaledGemm("f4E2M1FN", "f8E4M3FN", 16, (128, 256, 256), (256, 512, 512)),
    ScaledGemm("f4E2M1FN", "f8E4M3FN", 16, (256, 256, 256), (512, 512, 512)),
)
"""By one CTA, and by a pair."""


@cache
def compiled(kernel: ProductKernel, gpu: str = "sm_100", **knobs: str) -> str:
    """PTX of a kernel whose hints are for the target, and whose result is aligned."""
    source = kernel.text().replace("sm_90", gpu)
    source = source.replace("div_by<1>, %C1", "div_by<16>, %C1")
    source = source.replace("div_by<1>, %Cs", "div_by<8>, %Cs")
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name=gpu, knobs=knobs)
    return compile_module(source.encode(), options).output.decode()


def difference(
    kernel: ProductKernel, text: str, resident: int, blocks: tuple[int, int] = (3, 3)
) -> str:
    """What is wrong with the product, of tiles along both axes of the grid."""
    return difference_of(kernel, text, resident, blocks, 2)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_every_tile_is_computed(kernel: ProductKernel) -> None:
    text = compiled(kernel)
    assert "tcgen05.mma" in text and ASKS in text
    assert (FOR_BOTH in text) == (kernel.cluster != 1) == ("reqnctapercluster 2" in text)
    # One CTA that does all, two that share, and more than there are tiles.
    for resident in (1, 2, 16):
        assert difference(kernel, text, resident) == ""


@pytest.mark.parametrize("kernel", DIVIDED, ids=lambda kernel: kernel.name)
def test_clusters_that_divide_a_tile_take_over_tiles(kernel: ProductKernel) -> None:
    """A cluster is one tile block: the number that is taken over is that of its tile."""
    text = compiled(kernel)
    assert "tcgen05.mma.cta_group::2" in text and FOR_BOTH in text
    for resident in (kernel.cluster or 2, 16):
        assert difference(kernel, text, resident) == ""


@pytest.mark.parametrize("kernel", SCALED, ids=str)
def test_scaled_products_take_over_tiles(kernel: ScaledGemm) -> None:
    options = CompileOptions(gpu_name="sm_100", emit="ptx")
    text = compile_module(gemm(kernel).encode(), options).output.decode()
    assert "block_scale" in text and ASKS in text
    for resident in (2, 16):
        given, wanted = gemm_arguments(kernel)
        run_ptx(text, given, kernel.grid, limits=Limits(resident=resident))
        np.testing.assert_allclose(given[-1], wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())


def attention(kind: str, rows: int, columns: int, depth: int, gpu: str = "sm_100") -> str:
    """PTX of attention whose result is aligned."""
    source = softmax_attention(kind, rows, columns, depth).decode()
    aligned = "%o1 = assume div_by<16>, %O : tile<ptr<f16>>\n    %to = make_tensor_view %o1,"
    source = source.replace("%to = make_tensor_view %O,", aligned)
    options = CompileOptions(gpu_name=gpu, emit="ptx")
    return compile_module(source.encode(), options).output.decode()


@pytest.mark.parametrize(
    ("tile", "resident"),
    [
        (("full", 256, 64, 64), 1),
        (("full", 256, 64, 64), 16),
        (("full", 256, 64, 128), 2),
        (("causal", 256, 64, 64), 1),
        (("causal", 256, 64, 64), 16),
        (("causal", 256, 128, 64), 2),
        (("causal", 256, 64, 128), 2),
        (("masked", 256, 64, 64), 2),
    ],
    ids=str,
)
def test_attention_takes_over_tiles(tile: tuple[str, int, int, int], resident: int) -> None:
    """Blocks of causal attention have up to three times as many keys as the shortest."""
    text, (kind, rows, _, depth) = attention(*tile), tile
    assert "tcgen05.mma" in text and ASKS in text
    length = 512 if kind != "full" else 128
    arguments, grid = attention_arguments(rows, length, depth, blocks=(3,))
    once, _ = attention_arguments(rows, length, depth, blocks=(3,))
    arguments[-1] = once[-1] = 0.125
    run_ptx(text, arguments, grid, limits=Limits(resident=resident))
    options = CompileOptions(gpu_name="sm_100", emit="ptx", knobs={DYNAMIC_PERSISTENT: "0"})
    source = softmax_attention(*tile)
    run_ptx(compile_module(source, options).output.decode(), once, grid)
    assert (arguments[RESULT] == once[RESULT]).all() and once[RESULT].any()


@pytest.mark.parametrize("gpu", ["sm_100", "sm_103", "sm_110"])
@pytest.mark.parametrize("depth", [64, 128])
def test_ptxas_spills_nothing_of_causal_attention(depth: int, gpu: str) -> None:
    text = attention("causal", 256, 64, depth, gpu)
    result = ptx_to_cubin(text, get_target(gpu), CompileOptions(gpu_name=gpu))
    assert ASKS in text and result.cubin and result.spills == 0


def test_attention_stays_where_memory_counts_more() -> None:
    """Stores would leave values one stage."""
    assert ASKS not in attention("full", 256, 128, 128)


@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("blocks", [(1, 1), (5, 1), (1, 4)])
def test_grids_of_one_axis(cluster: int, blocks: tuple[int, int]) -> None:
    kernel = replace(ALONE, cluster=cluster)
    assert difference(kernel, compiled(kernel), 2, blocks) == ""


@pytest.mark.parametrize("gpu", ["sm_103", "sm_110"])
@pytest.mark.parametrize("cluster", [1, 2])
def test_other_targets(gpu: str, cluster: int) -> None:
    kernel = replace(ALONE, cluster=cluster)
    text = compiled(kernel, gpu)
    assert ASKS in text and difference(kernel, text, 2, (3, 1)) == ""


def test_a_tile_block_that_was_taken_over_never_starts() -> None:
    """Whoever asks and does not look at the answer loses tiles."""
    text = compiled(ALONE)
    deaf = text.replace(", 1, 0, p; mov.b32", ", 0, 0, p; mov.b32")
    assert deaf != text
    assert difference(ALONE, deaf, 1) != ""


@pytest.mark.parametrize("cluster", [1, 2])
def test_answers_must_be_handed_back(cluster: int) -> None:
    """A reader less, and the producer waits forever for the stage that it wants to use again."""
    kernel = replace(ALONE, cluster=cluster)
    lines = compiled(kernel).splitlines()
    reads = [number for number, line in enumerate(lines) if "query_cancel" in line]
    arrives = next(n for n in range(reads[0], len(lines)) if "mbarrier.arrive" in lines[n])
    text = "\n".join([*lines[:arrives], "//", *lines[arrives + 1 :]])
    with pytest.raises(PtxError):
        difference(kernel, text, 1)


def test_a_variable_of_the_environment_keeps_a_tile_a_block() -> None:
    text = compiled(ALONE, **{DYNAMIC_PERSISTENT: "0"})
    assert "tcgen05.mma" in text and "clusterlaunchcontrol" not in text


@pytest.mark.parametrize("gpu", ["sm_100", "sm_103", "sm_110"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_ptxas_takes_it_and_spills_nothing(kernel: ProductKernel, gpu: str) -> None:
    result = ptx_to_cubin(compiled(kernel, gpu), get_target(gpu), CompileOptions(gpu_name=gpu))
    assert result.cubin and result.spills == 0

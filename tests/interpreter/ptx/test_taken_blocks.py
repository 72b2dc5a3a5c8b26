"""Large tiles whose CTAs take over tile blocks that have not started, with few CTAs at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import dense_case
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
    m, n, k = kernel.tile
    case = dense_case(kernel, (blocks[0] * m, blocks[1] * n, 2 * k), *blocks, 1)
    arguments = case.arguments()
    run_ptx(text, arguments, case.grid, limits=Limits(resident=resident))
    return case.difference(arguments[2])


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_every_tile_is_computed(kernel: ProductKernel) -> None:
    text = compiled(kernel)
    assert "tcgen05.mma" in text and ASKS in text
    assert (FOR_BOTH in text) == (kernel.cluster != 1) == ("reqnctapercluster 2" in text)
    # One CTA that does all, two that share, and more than there are tiles.
    for resident in (1, 2, 16):
        assert difference(kernel, text, resident) == ""


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

"""Clusters of two CTAs whose products go to tensor memory: operands that both read come once."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest

from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import dense_case
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import get_target
from tileiras.driver import compile_module
from tileiras.interpreter.ptx import run_ptx
from tileiras.interpreter.ptx.errors import PtxError
from tileiras.options import CompileOptions

COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64"
PERSISTENT = ProductKernel("f16", (128, 128, 64), form="persistent", whole=True, result="f16")
PLAIN = ProductKernel("f16", (128, 128, 64), whole=True, cluster=2)
KERNELS = (
    PERSISTENT,
    replace(PERSISTENT, order="columns"),
    replace(PERSISTENT, order="diagonal"),
    replace(PERSISTENT, tile=(128, 256, 64)),
    replace(PERSISTENT, element="f8E4M3FN", result="f32"),
    PLAIN,
    replace(PLAIN, element="i8", result="i32"),
)


@cache
def compiled(kernel: ProductKernel, gpu: str = "sm_100") -> str:
    """PTX of a kernel whose hints are for the target, and whose result is aligned."""
    source = kernel.text().replace("sm_90", gpu)
    source = source.replace("div_by<1>, %C1", "div_by<16>, %C1")
    source = source.replace("div_by<1>, %Cs", "div_by<8>, %Cs")
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name=gpu)
    return compile_module(source.encode(), options).output.decode()


def check(kernel: ProductKernel, text: str, columns: int = 2) -> None:
    """Three rows of tiles: an odd number of them for the clusters where there are 3 columns."""
    m, n, k = kernel.tile
    grid = 2 if kernel.form == "persistent" else 3
    case = dense_case(kernel, (3 * m, columns * n, 5 * k), grid, 1, 1)
    if kernel.form != "persistent":
        case = dense_case(kernel, (3 * m, columns * n, 5 * k), 3, columns, 1)
    arguments = case.arguments()
    run_ptx(text, arguments, case.grid)
    assert case.difference(arguments[2]) == ""


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_stages_are_filled_and_handed_back_for_both(kernel: ProductKernel) -> None:
    text = compiled(kernel)
    assert "reqnctapercluster 2" in text and COMMIT in text
    assert ".multicast::cluster [" in text
    check(kernel, text)


@pytest.mark.parametrize("gpu", ["sm_103", "sm_110"])
def test_other_targets_share_operands(gpu: str) -> None:
    text = compiled(PERSISTENT, gpu)
    assert COMMIT in text
    check(PERSISTENT, text)


def test_the_last_tile_of_an_odd_number_is_one_ctas() -> None:
    check(PERSISTENT, compiled(PERSISTENT), columns=3)


def test_a_stage_handed_back_to_one_cta_alone_is_found() -> None:
    text = re.sub(r"\.multicast::cluster(\.b64 \[%r\d+\]), %rs\d+", r"\1", compiled(PERSISTENT))
    assert COMMIT not in text
    with pytest.raises(PtxError):
        check(PERSISTENT, text)


def test_a_hint_of_one_keeps_ctas_alone() -> None:
    text = compiled(replace(PERSISTENT, cluster=1))
    assert "tcgen05.mma" in text and "reqnctapercluster" not in text


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_ptxas_takes_it_and_spills_nothing(kernel: ProductKernel) -> None:
    result = ptx_to_cubin(compiled(kernel), get_target("sm_100"), CompileOptions(gpu_name="sm_100"))
    assert result.cubin and result.spills == 0

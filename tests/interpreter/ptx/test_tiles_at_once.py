"""Clusters that compute several neighbouring tile blocks at once, and take over others.

In the machine against float64, with no race and no read of unfinished work; ptxas takes all. GPUs
here have few SMs, so that few tile blocks are many.
"""

from __future__ import annotations

import re
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
from tileiras.errors import BytecodeError
from tileiras.interpreter.ptx import Limits, run_ptx
from tileiras.interpreter.ptx.errors import PtxError
from tileiras.options import DYNAMIC_PERSISTENT, CompileOptions

NV4 = ("f4E2M1FN", "f8E4M3FN", 16)
FOUR = ScaledGemm(*NV4, (512, 128, 256), (512, 1024, 512), ctas=4)
"""Eight tiles: three, three, and two."""
SCALED = (FOUR, replace(FOUR, sizes=(512, 512, 768)), replace(FOUR, sizes=(700, 600, 512)))
BY_THREADS = ScaledGemm("f4E2M1FN", "f8E8M0FNU", 32, (512, 128, 256), (512, 384, 512), ctas=4)
"""Whose scales threads copy."""
EIGHT = ScaledGemm(*NV4, (512, 256, 256), (512, 768, 512), ctas=8)
FEW = replace(FOUR, sizes=(512, 256, 512))
"""Two tiles."""
DENSE = ProductKernel("f16", (512, 128, 64), whole=True, result="f16", cluster=4)
DENSE_KERNELS = (
    DENSE,
    replace(DENSE, element="bf16", result="bf16"),
    replace(DENSE, element="f8E4M3FN", tile=(512, 128, 128)),
)
KNOWN = records._BY_NAME  # pyright: ignore[reportPrivateUsage]
COLLECTED = ".collector::a::"


@pytest.fixture(autouse=True)
def few_multiprocessors(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One cluster at a time, as kernels are told."""
    for name in ("sm_100", "sm_103"):
        target = get_target(name)
        performance = replace(target.performance, multiprocessors=4)
        monkeypatch.setitem(KNOWN, name, replace(target, performance=performance))
    yield


def compiled(source: str, gpu: str, emit: str = "ptx", **knobs: str) -> str:
    """A stage of a kernel."""
    options = CompileOptions(gpu_name=gpu, emit=emit, knobs=knobs)
    return compile_module(source.encode(), options).output.decode()


def tiles_at_once(source: str, gpu: str, **knobs: str) -> int:
    """What stands on the kernel."""
    module = read_source(compiled(source, gpu, "nv_tileas", **knobs).encode())
    [func] = [op for op in module.walk() if isinstance(op, aa.FuncOp)]
    return 1 if func.tiles_at_once is None else func.tiles_at_once.data


def check(kernel: ScaledGemm, text: str, resident: int) -> None:
    """C is that of float64, to f32's last bits; a third of the scales is negative."""
    given, wanted = gemm_arguments(kernel)
    run_ptx(text, given, kernel.grid, limits=Limits(40_000_000, resident=resident))
    np.testing.assert_allclose(given[-1], wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())


def source_of(kernel: ProductKernel) -> str:
    """Text of a dense kernel whose hints are for sm_100, and whose result is aligned."""
    source = kernel.text().replace("sm_90", "sm_100")
    source = source.replace("div_by<1>, %C1", "div_by<16>, %C1")
    return source.replace("div_by<1>, %Cs", "div_by<8>, %Cs")


def spills(text: str, gpu: str) -> int:
    """Bytes that ptxas spills."""
    return ptx_to_cubin(text, get_target(gpu), CompileOptions(gpu_name=gpu)).spills


@pytest.mark.parametrize("kernel", SCALED, ids=lambda kernel: "x".join(map(str, kernel.sizes)))
def test_a_cluster_computes_three_tile_blocks(kernel: ScaledGemm) -> None:
    """One cluster that does all, or two that share; the last tile blocks are fewer."""
    source = gemm(kernel)
    assert tiles_at_once(source, "sm_100") == 3
    text = compiled(source, "sm_100")
    assert "try_cancel" in text and COLLECTED in text
    check(kernel, text, 4 if kernel is FOUR else 8)
    assert spills(text, "sm_100") == 0


def test_of_eight_ctas_where_products_are_faster() -> None:
    source = gemm(EIGHT)
    assert (tiles_at_once(source, "sm_100"), tiles_at_once(source, "sm_103")) == (1, 3)
    text = compiled(source, "sm_103")
    check(EIGHT, text, 8)
    assert spills(text, "sm_103") == 0


@pytest.mark.parametrize("kernel", DENSE_KERNELS, ids=lambda kernel: kernel.name)
def test_two_tile_blocks_of_dense_products(kernel: ProductKernel) -> None:
    source = source_of(kernel)
    assert tiles_at_once(source, "sm_100") == 2
    text = compiled(source, "sm_100")
    m, n, k = kernel.tile
    case = dense_case(kernel, (m, 5 * n, 2 * k), 1, 5, 1)
    arguments = case.arguments()
    run_ptx(text, arguments, case.grid, limits=Limits(resident=4))
    assert case.difference(arguments[2]) == ""
    assert spills(text, "sm_100") == 0


def test_few_tile_blocks_are_computed_one_by_one() -> None:
    """The kernel finds out from its grid: of two clusters at a time each takes one of two tiles."""
    target = get_target("sm_100")
    performance = replace(target.performance, multiprocessors=8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(KNOWN, "sm_100", replace(target, performance=performance))
        text = compiled(gemm(FEW), "sm_100")
    given, wanted = gemm_arguments(FEW)
    run = run_ptx(text, given, FEW.grid, limits=Limits(40_000_000, resident=8))
    np.testing.assert_allclose(given[-1], wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())
    assert run is not None


def test_what_is_not_joined() -> None:
    assert tiles_at_once(gemm(BY_THREADS), "sm_100") == 1
    assert tiles_at_once(gemm(FOUR), "sm_100", **{DYNAMIC_PERSISTENT: "0"}) == 1


def test_the_left_operand_that_is_kept_must_be_the_same() -> None:
    """Without the instruction that fills it, the collector buffer has nothing, or another tile."""
    text = compiled(gemm(FOUR), "sm_100")
    with pytest.raises(PtxError, match="collector"):
        check(FOUR, text.replace(f"{COLLECTED}fill", f"{COLLECTED}discard"), 4)


def test_scales_are_put_in_order_once() -> None:
    """Products after the first one take the left operand and its scales as they are."""
    text = compiled(gemm(FOUR), "sm_100", "nv_tileas")
    products = [line for line in text.splitlines() if "tcgen05_dot_scaled" in line]
    assert [" if " in line for line in products] == [False, True, True]
    assert text.count("lhs_ready") == text.count("in_turn") == 2
    assert text.count("rhs_ready") == 0


def test_a_sum_is_loaded_where_it_is_stored() -> None:
    text = compiled(gemm(FOUR), "sm_100", "nv_tileas")
    order = re.findall(r"accumulator_load|stage_for_tma_store", text)
    assert order == ["accumulator_load", "stage_for_tma_store"] * 3


def test_text_says_the_same() -> None:
    """What is printed is read back, and compiled to the same program."""
    text = compiled(gemm(FOUR), "sm_100", "nv_tileas")
    assert compiled(text, "sm_100") == compiled(gemm(FOUR), "sm_100")


def test_products_in_turn_have_one_left_operand() -> None:
    text = compiled(gemm(FOUR), "sm_100", "nv_tileas")
    wrong = text.replace("lhs_ready, in_turn", "in_turn")
    assert wrong != text
    with pytest.raises(BytecodeError, match="in turn with no product"):
        compiled(wrong, "sm_100")

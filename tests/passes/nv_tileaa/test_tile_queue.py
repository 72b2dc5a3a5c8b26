"""Which kernels draw tile blocks from a queue on sm_90, and who may say so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels.gather import experts
from tests.kernels.gemm import with_hint
from tests.kernels.pass_runs import passes_between, run_passes
from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import aligned_result
from tests.kernels.softmax_attention import softmax_attention
from tests.kernels.uneven_products import uneven_product
from tileiras.dialects import nv_tileaa as aa
from tileiras.errors import UsageError
from tileiras.ir_text import parse_text
from tileiras.options import DYNAMIC_PERSISTENT
from tileiras.passes.nv_tileaa.dynamic_persistent import DynamicPersistentPass
from tileiras.passes.nv_tileaa.opened_guards import without_early_return
from tileiras.planning.tile_scheduler.uneven import Lengths, lengths_of

LARGE = ProductKernel("f16", (128, 256, 64), result="f16")
INTEGERS = ProductKernel("i8", (128, 256, 128), b="transposed", result="i32")
BEFORE = passes_between("check-target", "tileas-dynamic-persistent")


def draws(source: bytes, option: str = "", **knobs: str) -> bool:
    """Whether the kernel has a queue."""
    return "tile_queue" in run_passes(source, *BEFORE[:-1], BEFORE[-1] + option, **knobs)


@pytest.mark.parametrize(
    "source",
    [
        uneven_product("loaded"),
        uneven_product("known"),
        uneven_product("guarded"),
        aligned_result(LARGE).encode(),
        aligned_result(replace(LARGE, tile=(256, 128, 64))).encode(),
    ],
    ids=["loaded", "known", "guarded", "large", "transposed"],
)
def test_kernels_that_gain_by_it_draw_tiles(source: bytes) -> None:
    assert draws(source)
    assert not draws(source, "{queue=off}") and not draws(source, **{DYNAMIC_PERSISTENT: "0"})


@pytest.mark.parametrize(
    "source",
    [
        softmax_attention("causal", 128, 128, 128),
        softmax_attention("full", 128, 128, 128),
        softmax_attention("full", 128, 128, 32),
        softmax_attention("full", 128, 128, 128, element="f8E4M3FN"),
        aligned_result(replace(LARGE, tile=(128, 128, 64))).encode(),
        experts(loop="storing"),
        aligned_result(INTEGERS).encode(),
    ],
    ids=["causal", "full", "small heads", "f8", "two tiles", "gathered rows", "integers"],
)
def test_others_do_if_they_are_asked_to(source: bytes) -> None:
    assert not draws(source)
    assert draws(source, "{queue=on}") and draws(source, **{DYNAMIC_PERSISTENT: "1"})


@pytest.mark.parametrize("ctas", [1, 2])
def test_kernels_that_ask_for_clusters_get_them(ctas: int) -> None:
    assert not draws(with_hint(uneven_product("loaded"), "num_cta_in_cga", ctas))


def test_operands_that_threads_read_leave_no_registers() -> None:
    kernel = ProductKernel("f8E4M3FN", (128, 256, 128), result="f16")
    assert not draws(aligned_result(kernel).encode())


@pytest.mark.parametrize(
    ("source", "lengths"),
    [
        (uneven_product("loaded"), Lengths.LOADED),
        (uneven_product("guarded"), Lengths.LOADED),
        (uneven_product("known"), Lengths.KNOWN),
        (softmax_attention("causal", 128, 128, 128), Lengths.KNOWN),
        (softmax_attention("full", 128, 128, 128), Lengths.EVEN),
    ],
    ids=["loaded", "guarded", "known", "causal", "full"],
)
def test_who_knows_lengths(source: bytes, lengths: Lengths) -> None:
    module = parse_text(run_passes(source, *BEFORE[:-1]), "kernel.mlir")
    [func] = [op for op in module.walk() if isinstance(op, aa.FuncOp)]
    assert lengths_of(without_early_return(func)) is lengths


def test_another_word_is_refused() -> None:
    expected = "option 'queue' of pass 'tileas-dynamic-persistent' is 'of', expected one of auto"
    with pytest.raises(UsageError, match=expected):
        DynamicPersistentPass("of")

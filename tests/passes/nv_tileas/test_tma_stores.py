"""Tiles that leave by TMA: which, through which memory, and when they are waited for."""

from __future__ import annotations

import pytest

from tests.kernels.gemm import aligned, gemm, persistent, with_ctas
from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import aligned_result
from tests.kernels.stage_comparison import compare_entry
from tests.kernels.tma_store_programs import AT_ONCE, built, planned_stores
from tileiras.driver import compile_module, read_source, with_environment
from tileiras.options import DELAY_TMA_STORE_WAIT, PREFER_TMA, CompileOptions


@pytest.mark.parametrize(("ctas", "tiles"), [(1, 2), (2, 1)])
def test_a_kernel_of_one_tile_stores_by_tma_if_that_is_preferred(ctas: int, tiles: int):
    """A CTA alone on its SM stores the tile of its neighbour, too."""
    source = with_ctas(aligned(gemm(64, 128, 64)), ctas)
    assert planned_stores(source) == [False] * tiles
    assert planned_stores(source, **{PREFER_TMA: "1"}) == [True] * tiles


def test_persistent_kernels_store_by_tma_unless_that_is_not_wanted():
    source = persistent(128, 128, 64)
    assert planned_stores(source) == [True]
    assert planned_stores(source, **{PREFER_TMA: "0"}) == [False]


def test_the_wait_can_follow_the_store_at_once():
    """It does where consumers store themselves; a store warp waits later."""
    source = persistent(128, 128, 64)
    later, at_once = built(source, "nv_tileas"), built(source, "nv_tileas", **AT_ONCE)
    assert "store_stage" in later and "tiled_tma_store" not in later
    assert "store_stage" not in at_once and "delayed = #builtin.int<0>" in at_once
    assert later == built(source, "nv_tileas", **{DELAY_TMA_STORE_WAIT: "1"})


@pytest.mark.parametrize(
    "source",
    [gemm(128, 128, 64), aligned(gemm(128, 128, 64)).replace(b"weak %h", b"relaxed device %h")],
    ids=["unaligned", "relaxed"],
)
def test_other_stores_stay_with_the_threads(source: bytes):
    assert not any(planned_stores(source, **{PREFER_TMA: "1"}))


def test_a_persistent_kernel_computes_the_same_at_every_stage():
    module = read_source(persistent(128, 128, 64))
    assert compare_entry(module, "persistent", "gemm").kind == "same"


def test_does_not_spill():
    options = with_environment(CompileOptions(gpu_name="sm_90"))
    artefacts = compile_module(persistent(128, 256, 64), options)
    assert "0 bytes spilled" in artefacts.notes[0]


def test_a_tile_may_come_from_a_branch_whose_other_side_leaves():
    kernel = ProductKernel("f16", (64, 64, 64), form="persistent", result="f16")
    text = aligned_result(kernel)
    narrow = next(line for line in text.splitlines() if "%narrow =" in line)
    branch = """
    %leaves = cmpi equal %tile, %c1, signed : tile<i32> -> tile<i1>
    %kept = if %leaves -> (tile<64x64xf16>) {
      continue
    } else {
      yield %narrow : tile<64x64xf16>
    }"""
    text = text.replace(narrow, narrow + branch).replace("weak %narrow,", "weak %kept,")
    assert "wgmma_dot" in built(text.encode(), "nv_tileas")

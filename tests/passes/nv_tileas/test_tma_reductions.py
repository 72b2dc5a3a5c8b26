"""Tiles of 32-bit elements that leave by TMA, and tiles that TMA combines with what is there."""

from __future__ import annotations

import re

import pytest

from tests.kernels.gemm import aligned, gemm, persistent, with_result
from tests.kernels.stage_comparison import compare_entry
from tests.kernels.tma_store_programs import built, planned_stores
from tileiras.driver import read_source
from tileiras.options import PREFER_TMA

PREFERRED = {PREFER_TMA: "1"}
SHAPE = (128, 128)


@pytest.mark.parametrize(("element", "mode"), [("f32", ""), ("f32", "addf"), ("f16", "addf")])
def test_a_persistent_kernel_stores_and_reduces_by_tma(element: str, mode: str):
    source = with_result(persistent(*SHAPE, 64), element, mode)
    assert planned_stores(source) == [True]
    assert planned_stores(source, **{PREFER_TMA: "0"}) == [False]


@pytest.mark.parametrize("scope", ["device", "tl_blk"])
def test_a_kernel_of_one_tile_reduces_by_tma_if_that_is_preferred(scope: str):
    source = with_result(aligned(gemm(*SHAPE, 64)), "f32", "addf", scope)
    assert not any(planned_stores(source))
    assert all(planned_stores(source, **PREFERRED))


def test_an_unaligned_reduction_stays_with_the_threads():
    source = with_result(gemm(*SHAPE, 64, align=4), "f32", "addf")
    assert not any(planned_stores(source, **PREFERRED))


@pytest.mark.parametrize("mode", ["", "addf"])
@pytest.mark.parametrize("element", ["f32", "f16"])
def test_every_stage_computes_the_same(element, mode):
    module = read_source(with_result(persistent(*SHAPE, 64), element, mode))
    found = compare_entry(module, "persistent", "gemm")
    assert found.kind == "same", found.detail


def with_tf32(source: bytes) -> bytes:
    """The product of f32 operands, rounded to tf32."""
    text = re.sub(r"%h = ftof .*\n", "", with_result(source, "f32").decode())
    text = text.replace("f16", "f32")
    found = re.search(r"%d = mmaf %a, %b, %a0 : tile<(\w+)f32>, tile<(\w+)f32>", text)
    assert found is not None
    rounded = "".join(
        f"%{name}r = ftof %{name} : tile<{shape}f32> -> tile<{shape}tf32>\n"
        for name, shape in zip("ab", found.groups(), strict=True)
    )
    product = f"%d = mmaf %ar, %br, %a0 : tile<{found[1]}tf32>, tile<{found[2]}tf32>"
    return text.replace(found[0], rounded + product).encode()


@pytest.mark.parametrize("prefer", ["", "1"])
def test_a_product_computed_transposed_is_stored_by_its_threads(prefer):
    """Its registers hold columns where pieces want rows; row-major tf32 is multiplied so."""
    source = with_tf32(persistent(128, 256, 32))
    knobs = {PREFER_TMA: prefer} if prefer else {}
    assert planned_stores(source, **knobs) == [False]
    assert 'fragments = "rhs"' in built(source, "nv_tileas")

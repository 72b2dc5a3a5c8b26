"""Tiles of 32-bit elements that leave by TMA, and tiles that TMA combines with what is there."""

from __future__ import annotations

import re

import pytest

from tests.kernels.gemm import aligned, gemm, persistent, with_result
from tests.kernels.stage_comparison import compare_entry
from tests.passes.nv_tileas.tma_store_programs import STORE, built
from tileiras.driver import read_source
from tileiras.options import PREFER_TMA

REDUCE = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group"
PREFERRED = {PREFER_TMA: "1"}
SHAPE = (128, 128)


def test_a_persistent_kernel_stores_f32_by_tma():
    ptx = built(with_result(persistent(*SHAPE, 64), "f32"))
    # Two warpgroups of 64 rows, 32 columns a piece; a thread writes pairs, one warp stores all.
    assert ptx.count(STORE) == 8
    assert "st.shared.v2.b32" in ptx and "stmatrix" not in ptx


@pytest.mark.parametrize(("element", "pieces"), [("f32", 8), ("f16", 4)])
def test_a_reduction_is_done_by_tma(element, pieces):
    source = with_result(persistent(*SHAPE, 64), element, "addf")
    ptx = built(source)
    assert ptx.count(REDUCE) == pieces
    assert "red.relaxed" not in ptx
    # Complete before the next tile's are issued, as token order wants it.
    assert "cp.async.bulk.wait_group 0" in ptx[: ptx.index(REDUCE)]
    by_threads = built(source, **{PREFER_TMA: "0"})
    assert REDUCE not in by_threads and "red.relaxed" in by_threads


def test_a_kernel_of_one_tile_reduces_by_tma_if_that_is_preferred():
    source = with_result(aligned(gemm(*SHAPE, 64)), "f32", "addf")
    assert "red.relaxed.gpu.global.add.v2.f32" in built(source)
    ptx = built(source, **PREFERRED)
    assert ptx.count(REDUCE) == 4 and "red.relaxed" not in ptx


def test_a_reduction_of_the_tile_block_alone_is_done_by_tma_too():
    source = with_result(aligned(gemm(*SHAPE, 64)), "f32", "addf", "tl_blk")
    assert REDUCE in built(source, **PREFERRED)


def test_an_unaligned_reduction_stays_with_the_threads():
    ptx = built(with_result(gemm(*SHAPE, 64, align=4), "f32", "addf"), **PREFERRED)
    assert REDUCE not in ptx and "red.relaxed.gpu.global.add.f32" in ptx


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
    ptx = built(source, **knobs)
    assert "m64n128k8.f32.tf32.tf32" in ptx
    assert STORE not in ptx and "st.global.v" in ptx

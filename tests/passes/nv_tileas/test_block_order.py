"""Which tile blocks the CTAs of persistent kernels compute."""

from __future__ import annotations

from dataclasses import replace

import pytest
from xdsl.ir import Block

from tests.passes.nv_tileas.gemm import gemm, persistent, with_hint
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.llvmir.vector_builder import splat_bits_of
from tileiras.codegen.lowering.block_order import exchanged_block
from tileiras.driver import compile_module, with_environment
from tileiras.options import CompileOptions
from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.block_order import BLOCK_ORDER


def compiled(source: bytes, emit: str = "nv_tileas") -> str:
    """The text of a stage for sm_90."""
    options = with_environment(CompileOptions(gpu_name="sm_90"))
    return compile_module(source, replace(options, emit=emit)).output.decode()


def sharing() -> bytes:
    """A product whose tile blocks share out the rows of tiles, without clusters of two."""
    text = persistent(128, 256, 64).decode()
    step = "%c2 = constant <i32: 2> : tile<i32>"
    assert step in text
    shared = text.replace(step, "%c2, %ny, %nz = get_num_tile_blocks : tile<i32>")
    return with_hint(shared.encode(), "num_cta_in_cga", 1)


def blocks(count: int) -> list[int]:
    """The tile block of every CTA of a grid."""
    b = ThreadBuilder(Block())
    found = [exchanged_block(b, b.i32(cta), b.i32(count), BLOCK_ORDER) for cta in range(count)]
    return [splat_bits_of(value) for value in found]


@pytest.mark.parametrize("count", [1, 127, 128, 132, 255, 256, 1000])
def test_every_tile_block_is_computed_once(count):
    assert sorted(blocks(count)) == list(range(count))


def test_ctas_that_are_a_gpc_apart_compute_neighbours():
    found = blocks(132)
    assert found[0:128:8] == list(range(16))
    assert found[3:128:8] == list(range(48, 64))
    assert found[128:] == [128, 129, 130, 131]


def test_persistent_kernels_exchange_blocks_and_others_do_not():
    assert "block_order" in compiled(sharing())
    assert "block_order" not in compiled(persistent(128, 256, 64))
    assert "block_order" not in compiled(gemm(128, 256, 64))


def test_the_exchange_is_computed_from_the_ctas_number():
    exchanged, plain = compiled(sharing(), "ptx"), compiled(persistent(128, 256, 64), "ptx")
    assert "-128;" in exchanged
    assert "-128;" not in plain


def test_blocks_that_may_wait_for_each_other_keep_their_order():
    weak = sharing().decode()
    strong = weak.replace("store_view_tko weak", "store_view_tko release device")
    assert strong != weak
    assert "block_order" not in compiled(strong.encode())

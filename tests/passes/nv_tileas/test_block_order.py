"""Which tile blocks the CTAs of persistent kernels compute."""

from __future__ import annotations

from dataclasses import replace

import pytest
from xdsl.ir import Block

from tests.passes.nv_tileas.gemm import gemm, persistent, with_hint
from tileiras.analysis.persistent import is_persistent
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.llvmir.vector_builder import splat_bits_of
from tileiras.codegen.lowering.block_order import exchanged_block
from tileiras.dialects import nv_tileaa as aa
from tileiras.driver import compile_module, read_source, with_environment
from tileiras.options import CompileOptions
from tileiras.planning.tile_scheduler.block_order import BLOCK_ORDER


def compiled(source: bytes, emit: str = "nv_tileas") -> str:
    """The text of a stage for sm_90."""
    options = with_environment(CompileOptions(gpu_name="sm_90"))
    return compile_module(source, replace(options, emit=emit, print_generic=True)).output.decode()


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


def test_a_kernel_that_only_knows_the_size_of_its_grid_is_not_persistent():
    """The first tile depends on it, but every tile block computes one."""
    place, number = b"%bx, %by, %bz = get_tile_block_id", b"%px, %by, %bz = get_tile_block_id"
    first = b"%c0 = constant <i32: 0> : tile<i32>\n"
    source = gemm(128, 256, 64).replace(place, number)
    counts = b"    %nx, %ny, %nz = get_num_tile_blocks : tile<i32>\n"
    source = source.replace(first, first + counts + b"    %bx = subi %nx, %px : tile<i32>\n")
    assert "get_num_programs" in compiled(source)
    assert "block_order" not in compiled(source)


@pytest.mark.parametrize(("step", "expected"), [("%nx", True), ("%c2", False)])
def test_a_loop_without_bounds_may_go_over_the_tiles(step: str, expected: bool):
    text = f"""cuda_tile.module @m {{
      entry @count(%n: tile<i32>) {{
        %c2 = constant <i32: 2> : tile<i32>
        %x, %y, %z = get_tile_block_id : tile<i32>
        %nx, %ny, %nz = get_num_tile_blocks : tile<i32>
        loop iter_values(%i = %x) : tile<i32> {{
          %is_over = cmpi greater_than_or_equal %i, %n, signed : tile<i32> -> tile<i1>
          if %is_over {{
            break
          }}
          %printed = print_tko "%d", %i : tile<i32> -> token
          %next = addi %i, {step} : tile<i32>
          continue %next : tile<i32>
        }}
        return
      }}
    }}"""
    module = read_source(compiled(text.encode(), "nv_tileaa").encode())
    [func] = [op for op in module.walk() if isinstance(op, aa.FuncOp)]
    assert is_persistent(func) is expected


def test_the_exchange_is_computed_from_the_ctas_number():
    exchanged, plain = compiled(sharing(), "ptx"), compiled(persistent(128, 256, 64), "ptx")
    assert "-128;" in exchanged
    assert "-128;" not in plain


def test_blocks_that_may_wait_for_each_other_keep_their_order():
    weak = sharing().decode()
    strong = weak.replace("store_view_tko weak", "store_view_tko release device")
    assert strong != weak
    assert "block_order" not in compiled(strong.encode())

"""Products that meet loaded tiles on their way to memory change their layout once."""

from __future__ import annotations

import re

import pytest

from tests.kernels.gemm import gemm
from tests.kernels.split_gemm import split_gemm
from tests.kernels.stage_comparison import compare_entry
from tileiras.driver import compile_module, read_source, with_environment
from tileiras.options import CompileOptions

ALIGNED = """%C1 = assume div_by<16>, %C : tile<ptr<f16>>
    %tc = make_tensor_view %C1,"""
STORE = "%s = store_view_tko"
RESIDUAL = """%old, %to = load_view_tko weak %pc[%bx, %by] token = %t0
      : VIEWC, tile<i32> -> tile<RxCxf16>, token
    %more = addf %old, %h : tile<RxCxf16>
    """
WIDE_RESIDUAL = """%old, %to = load_view_tko weak %pc[%bx, %by] token = %t0
      : VIEWC, tile<i32> -> tile<RxCxf16>, token
    %wide = ftof %old : tile<RxCxf16> -> tile<RxCxf32>
    %full = addf %wide, %acc : tile<RxCxf32>
    %more = ftof %full : tile<RxCxf32> -> tile<RxCxf16>
    """


def with_residual(rows: int, columns: int, text: str, is_aligned: bool = True) -> bytes:
    """A product to which the tile that lies in the result is added."""
    source = gemm(rows, columns, 64).decode()
    if is_aligned:
        source = source.replace("%tc = make_tensor_view %C,", ALIGNED)
    view = re.findall(r"%pc = make_partition_view %tc : (.*)", source)[0]
    added = text.replace("VIEWC", view).replace("RxC", f"{rows}x{columns}")
    source = source.replace(STORE, added + STORE)
    return source.replace("store_view_tko weak %h,", "store_view_tko weak %more,").encode()


def layout_changes(source: bytes, gpu_name: str = "sm_90") -> int:
    """Conversions in nv_tileas."""
    options = with_environment(
        CompileOptions(gpu_name=gpu_name, emit="nv_tileas", print_generic=True)
    )
    return compile_module(source, options).output.decode().count("nv_tileas.convert_layout")


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90"])
@pytest.mark.parametrize("text", [RESIDUAL, WIDE_RESIDUAL])
def test_product_changes_its_layout_once(text: str, gpu_name: str):
    assert layout_changes(with_residual(128, 256, text), gpu_name) == 1
    # Of two tile blocks that are joined, each has its own.
    count = 2 if gpu_name == "sm_90" else 1
    assert layout_changes(with_residual(128, 128, text), gpu_name) == count


@pytest.mark.parametrize("text", [RESIDUAL, WIDE_RESIDUAL])
def test_tile_that_is_read_by_single_elements_goes_to_the_layout_of_the_product(text: str):
    assert layout_changes(with_residual(128, 256, text, is_aligned=False)) == 0


def test_product_under_a_lock_changes_its_layout_once():
    assert layout_changes(split_gemm()) == 1


@pytest.mark.parametrize("text", [RESIDUAL, WIDE_RESIDUAL])
def test_sum_is_the_same_at_every_stage(text: str):
    module = read_source(with_residual(64, 64, text))
    assert compare_entry(module, "gemm", "gemm").kind == "same"


TURNS = """%turn, %tu = load_ptr_tko weak %lock token = %held
      : tile<ptr<i32>> -> tile<i32>, token
    %is_first = cmpi equal %turn, %c1, signed : tile<i32> -> tile<i1>
    %written = if %is_first -> (token) {
      %w = store_view_tko weak %acc, %pc[%c0, %column] token = %held
        : tile<64x64xf32>, VIEWC, tile<i32> -> token
      yield %w : token
    } else {
      %sum, %read = load_view_tko weak %pc[%c0, %column] token = %held
        : VIEWC, tile<i32> -> tile<64x64xf32>, token
      %more = addf %sum, %acc : tile<64x64xf32>
      %w = store_view_tko weak %more, %pc[%c0, %column] token = %read
        : tile<64x64xf32>, VIEWC, tile<i32> -> token
      yield %w : token
    }
    %was"""


def with_smem_transposes() -> bytes:
    """The product under a lock, which the first one stores and others add to."""
    source = split_gemm().decode()
    view = re.findall(r"%pc = make_partition_view %tc : (.*)", source)[0]
    start, end = source.index("%sum, %read"), source.index("%was")
    return (source[:start] + TURNS.replace("VIEWC", view) + source[end + 4 :]).encode()


@pytest.mark.parametrize(
    "source", [split_gemm(), with_smem_transposes()], ids=["adds", "takes turns"]
)
def test_layout_changes_before_the_lock_is_taken(source: bytes):
    options = with_environment(
        CompileOptions(gpu_name="sm_90", emit="nv_tileas", print_generic=True)
    )
    text = compile_module(source, options).output.decode()
    assert text.count("convert_layout") == 1
    names = ("free_pipelines", "convert_layout", "atomic_cas", "tiled_load")
    places = [text.index(name) for name in names]
    assert places == sorted(places)


def test_what_is_added_to_is_read_with_the_turn():
    options = with_environment(
        CompileOptions(gpu_name="sm_90", emit="nv_tileas", print_generic=True)
    )
    text = compile_module(with_smem_transposes(), options).output.decode()
    lock = text.index("atomic_cas")
    read = text.index("nv_tileas.tiled_load", lock)
    assert read < text.rindex('"nv_tileaa.if"')


@pytest.mark.parametrize(
    "source", [split_gemm(), with_smem_transposes()], ids=["adds", "takes turns"]
)
def test_sum_under_a_lock_is_the_same_at_every_stage(source: bytes):
    found = compare_entry(read_source(source), "split", "split")
    assert found.kind == "same", found.detail

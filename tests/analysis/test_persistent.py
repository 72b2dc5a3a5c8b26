"""Which kernels divide work among the tile blocks of their grid."""

from __future__ import annotations

import pytest

from tests.kernels.gemm import gemm, persistent
from tileiras.analysis.persistent import is_persistent
from tileiras.dialects import nv_tileaa as aa
from tileiras.driver import compile_module, read_source
from tileiras.options import CompileOptions


def kernel_of(source: bytes) -> aa.FuncOp:
    """The only kernel, in nv_tileaa."""
    text = compile_module(source, CompileOptions(gpu_name="", emit="nv_tileaa")).output
    [func] = [op for op in read_source(text).walk() if isinstance(op, aa.FuncOp)]
    return func


def sharing() -> bytes:
    """A product whose tile blocks divide the rows of tiles."""
    text = persistent(128, 256, 64).decode()
    step = "%c2 = constant <i32: 2> : tile<i32>"
    assert step in text
    return text.replace(step, "%c2, %ny, %nz = get_num_tile_blocks : tile<i32>").encode()


def test_a_loop_by_the_size_of_the_grid_is_persistent():
    assert is_persistent(kernel_of(sharing()))
    assert not is_persistent(kernel_of(persistent(128, 256, 64)))
    assert not is_persistent(kernel_of(gemm(128, 256, 64)))


def test_a_kernel_that_only_knows_the_size_of_its_grid_is_not_persistent():
    """The first tile depends on it, but every tile block computes one."""
    place, number = b"%bx, %by, %bz = get_tile_block_id", b"%px, %by, %bz = get_tile_block_id"
    first = b"%c0 = constant <i32: 0> : tile<i32>\n"
    source = gemm(128, 256, 64).replace(place, number)
    counts = b"    %nx, %ny, %nz = get_num_tile_blocks : tile<i32>\n"
    source = source.replace(first, first + counts + b"    %bx = subi %nx, %px : tile<i32>\n")
    func = kernel_of(source)
    assert any(isinstance(op, aa.GetNumProgramsOp) for op in func.walk())
    assert not is_persistent(func)


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
    assert is_persistent(kernel_of(text.encode())) is expected

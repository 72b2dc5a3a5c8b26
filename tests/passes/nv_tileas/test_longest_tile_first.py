"""Which tile blocks of causal kernels start first, and where tensor maps are made."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

import pytest
from xdsl.ir import Block

from tests.kernels.gemm import gemm
from tests.kernels.softmax_attention import softmax_attention
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.llvmir.vector_builder import splat_bits_of
from tileiras.codegen.lowering.longest_tile_first import longest_tile_first_block
from tileiras.driver import compile_module, with_environment
from tileiras.options import CompileOptions

CAUSAL = softmax_attention("causal", 128, 128, 128).decode()
FULL = softmax_attention("full", 128, 128, 128).decode()


def compiled(text: str | bytes, emit: str = "nv_tileas") -> str:
    """The text of a stage for sm_90."""
    options = with_environment(CompileOptions(gpu_name="sm_90"))
    data = text if isinstance(text, bytes) else text.encode()
    return compile_module(data, replace(options, emit=emit, print_generic=True)).output.decode()


def started(counts: tuple[int, int, int], order: tuple[int, int, int]) -> list[tuple[int, ...]]:
    """The tile blocks of a grid in the order in which CTAs start."""
    b = ThreadBuilder(Block())
    grid = [b.i32(count) for count in counts]
    x, y, z = (range(count) for count in counts)
    found = []
    for z_number, y_number, x_number in product(z, y, x):
        numbers = [b.i32(x_number), b.i32(y_number), b.i32(z_number)]
        blocks = longest_tile_first_block(b, numbers, grid, order)
        found.append(tuple(splat_bits_of(block) for block in blocks))
    return found


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("counts", [(4, 3, 2), (1, 1, 1), (5, 11, 1), (3, 1, 9), (1, 16, 1)])
def test_every_tile_block_is_computed_once(axis: int, counts: tuple[int, int, int]) -> None:
    every = set(product(*(range(count) for count in counts)))
    found = started(counts, (axis, 1, 4))
    assert set(found) == every
    assert len(found) == len(every)


def test_the_longest_blocks_of_a_group_start_first():
    found = started((4, 6, 1), (0, 1, 4))
    assert [block[0] for block in found[:16]] == [3] * 4 + [2] * 4 + [1] * 4 + [0] * 4
    assert [block[1] for block in found[:4]] == [0, 1, 2, 3]
    assert [block[:2] for block in found[16:20]] == [(3, 4), (3, 5), (2, 4), (2, 5)]


def test_work_that_falls_along_the_axis_starts_at_its_beginning():
    found = started((3, 4, 1), (0, 0, 4))
    assert [block[0] for block in found] == [0] * 4 + [1] * 4 + [2] * 4


def order_of(text: str | bytes) -> str | None:
    """The attribute of the warp role switch."""
    found = re.search(r"longest_tile_first = #cuda_tile.ints<\[(.*?)\]>", compiled(text))
    return found.group(1) if found else None


def test_causal_attention_starts_with_the_last_rows():
    assert order_of(CAUSAL) == "0, 1, 8"


def test_the_axis_is_found_by_the_length_of_loops():
    swapped = "%head, %bx, %bz = get_tile_block_id"
    assert order_of(CAUSAL.replace("%bx, %head, %bz = get_tile_block_id", swapped)) == "1, 1, 8"


def test_kernels_with_equal_blocks_keep_their_order():
    assert order_of(FULL) is None
    assert order_of(gemm(128, 256, 64)) is None


def test_blocks_that_may_wait_for_each_other_keep_their_order():
    strong = CAUSAL.replace("store_view_tko weak", "store_view_tko release device")
    assert strong != CAUSAL
    assert order_of(strong) is None

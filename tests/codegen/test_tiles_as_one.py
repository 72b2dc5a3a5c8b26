"""Tiles of 64 rows computed two as one, and the first tiles of a round: in the PTX machine."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import aligned_result, dense_case
from tileiras.driver import compile_module
from tileiras.interpreter.ptx import Limits, run_ptx
from tileiras.interpreter.ptx.memory import ARENA
from tileiras.options import CompileOptions

FLAT = ProductKernel(
    "f16", (64, 256, 64), form="numbered", order="columns", whole=True, result="f16"
)
BYTES = ProductKernel(
    "f8E4M3FN", (128, 256, 128), form="numbered", order="columns", whole=True, result="f16"
)
"""Wide tiles in two parts, whose sums are partial."""
SQUARE = replace(FLAT, tile=(128, 128, 64))
KERNELS = (FLAT, replace(FLAT, b="transposed", element="bf16", result="bf16"), SQUARE)


@cache
def ptx(kernel: ProductKernel, columns_first: bool = False) -> str:
    """The kernel for sm_90; its grid goes along a row of tiles first, if that is said."""
    options, text = CompileOptions(emit="ptx", gpu_name="sm_90"), aligned_result(kernel)
    if columns_first:
        text = text.replace("%x, %y, %z = get_tile_block_id", "%y, %x, %z = get_tile_block_id")
    return compile_module(text.encode(), options).output.decode()


def difference(kernel: ProductKernel, grid: tuple[int, int], sms: int, depth: int) -> str:
    """What is wrong with a product of so many tiles on so many SMs, cut at its edges."""
    (rows, columns), (m, n, _) = grid, kernel.tile
    case = dense_case(kernel, (rows * m - 8, columns * n - 16, depth), rows * columns, 1, 1)
    arguments = case.arguments()
    run_ptx(ptx(kernel), arguments, case.grid, limits=Limits(resident=sms))
    return case.difference(arguments[2])


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize(
    ("grid", "sms", "depth"),
    [
        ((2, 1), 1, 192),  # a round, and no more
        ((1, 1), 4, 192),  # no round
        ((4, 2), 1, 512),  # four rounds
        ((3, 3), 1, 192),  # a round whose tiles are of two columns, and one tile behind
        ((5, 2), 3, 320),  # a tile for each SM behind a round
        ((3, 3), 2, 40),  # fewer steps of K than stages
    ],
)
def test_products_are_right(
    kernel: ProductKernel, grid: tuple[int, int], sms: int, depth: int
) -> None:
    assert difference(kernel, grid, sms, depth) == ""


@pytest.mark.parametrize(
    ("grid", "sms", "depth"),
    [
        ((2, 1), 1, 256),  # a round, and no more
        ((1, 1), 4, 128),  # no round
        ((3, 2), 2, 256),  # a round, of one SM's tiles in turn, and tiles alone
    ],
)
def test_partial_sums_in_parts_are_right(grid: tuple[int, int], sms: int, depth: int) -> None:
    assert difference(BYTES, grid, sms, depth) == ""


@pytest.mark.parametrize(
    ("grid", "sms"),
    [((4, 3), 1), ((3, 2), 1), ((5, 3), 2), ((1, 3), 2)],
)
def test_grids_along_columns_are_right(grid: tuple[int, int], sms: int) -> None:
    kernel, (rows, columns), (m, n, _) = replace(FLAT, form="plain"), grid, FLAT.tile
    case = dense_case(kernel, (rows * m - 8, columns * n - 16, 192), columns, rows)
    arguments = case.arguments()
    run_ptx(ptx(kernel, True), arguments, case.grid, limits=Limits(resident=sms))
    assert case.difference(arguments[2]) == ""


def test_instructions_have_all_columns_of_two_tiles_and_half_of_those_of_one() -> None:
    text = ptx(FLAT)
    assert "m64n256k16" in text and "m64n128k16" in text and "m64n64k16" not in text
    alone = ptx(replace(FLAT, order="rows"))
    assert "m64n256k16" in alone and "m64n128k16" not in alone


@pytest.mark.parametrize(("blocks", "sms", "stores"), [(1, 4, False), (2, 1, True)])
def test_a_store_warp_makes_maps_where_it_has_a_tile(blocks: int, sms: int, stores: bool) -> None:
    m, n, k = SQUARE.tile
    case = dense_case(SQUARE, (blocks * m, n, k), blocks, 1, 1)
    run = run_ptx(ptx(SQUARE), case.arguments(), case.grid, limits=Limits(resident=sms))
    start, end = (run.module_addresses[name] - ARENA for name in ("store_maps", "store_maps_busy"))
    assert bool(run.memory.data[start:end].any()) == stores

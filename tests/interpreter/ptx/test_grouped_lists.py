"""Grouped products over lists of arrays, specialised, on the PTX machine: values and races.

Tensor maps of the groups' arrays are made again while copies of the group before may be under way.
"""

from __future__ import annotations

from functools import cache

import pytest

from tests.kernels.grouped_lists import Sizes, grouped_lists, make_groups
from tileiras.driver import compile_module, read_source
from tileiras.interpreter import run_entry
from tileiras.interpreter.ptx import run_ptx
from tileiras.options import CompileOptions

SIZES: tuple[Sizes, ...] = ((128, 128, 128), (72, 200, 104), (8, 8, 0), (64, 72, 320))
"""Whole tiles, ragged ones, no iteration of K, and a group of fewer tiles than CTAs."""
WALKS: tuple[tuple[Sizes, ...], ...] = (
    ((64, 64, 64),) * 5,
    ((192, 64, 64), (0, 64, 64), (64, 192, 64), (64, 64, 64)),
    ((320, 192, 64),),
    ((64, 448, 8), (64, 0, 64)),
)
"""Walks of 5 to 15 tiles; an array without tiles between others, and as the last one."""
EQUAL: tuple[Sizes, ...] = ((128, 136, 96), (200, 136, 96), (64, 136, 96))
"""Groups that may have one B in common."""


@cache
def text_of(source: str, stage: str = "ptx") -> str:
    """A kernel for sm_90, as PTX or after an earlier stage."""
    options = CompileOptions(opt_level=3, emit=stage, gpu_name="sm_90")
    return compile_module(source.encode(), options).output.decode()


@pytest.mark.parametrize("tile", [(64, 64, 64), (128, 128, 64)], ids=str)
@pytest.mark.parametrize("computed_index", [False, True], ids=["known", "computed"])
def test_warp_roles_compute_all_groups(tile: Sizes, computed_index: bool) -> None:
    text = text_of(grouped_lists(tile, computed_index=computed_index))
    assert "wgmma.mma_async" in text and "mma.sync" not in text
    assert "cp.async.bulk.tensor.2d.shared" in text and "cp.async.cg" not in text
    assert "cp.async.bulk.tensor.2d.global" in text
    groups = make_groups(SIZES)
    assert groups.wrong()
    run_ptx(text, groups.arguments(), (3, 1, 1))
    assert groups.wrong() == []


@pytest.mark.parametrize("common", ["A", "B"])
def test_an_array_of_all_groups_has_one_map(common: str) -> None:
    """A view that is made before the loops stands beside those that are made in them."""
    equal = EQUAL if common == "B" else tuple((n, m, k) for m, n, k in EQUAL)
    source = grouped_lists((64, 64, 64), common=common)
    roles = text_of(source, "nv_tileas")
    assert roles.count("nv_tileas.make_tiled_tma_desc") == 3
    assert roles.count("renewed}") == 2
    groups = make_groups(equal, common=common)
    run_ptx(text_of(source), groups.arguments(), (3, 1, 1))
    assert groups.wrong() == []


@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 5, 8, 16])
def test_neighbours_exchange_tiles(blocks: int) -> None:
    """Pairs within groups and between them, tiles that are left, one without a neighbour."""
    source = grouped_lists((64, 64, 64))
    assert 'two_tiles = "rounds"' in text_of(source, "nv_tileaa")
    for number, sizes in enumerate(WALKS):
        groups = make_groups(sizes, seed=number)
        run_ptx(text_of(source), groups.arguments(), (blocks, 1, 1))
        assert groups.wrong() == [], sizes


@pytest.mark.parametrize("common", ["", "B"])
def test_the_tile_interpreter_computes_the_same(common: str) -> None:
    groups = make_groups(EQUAL if common else SIZES, common=common)
    module = read_source(grouped_lists((64, 64, 64), common=common).encode())
    run_entry(module, "grouped", groups.arguments(), (3, 1, 1))
    assert groups.wrong() == []

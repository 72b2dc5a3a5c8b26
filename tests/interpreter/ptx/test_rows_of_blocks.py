"""Two tile blocks of 64 queries as one of 128, on the PTX machine: values, and the second warpgroup
that has no rows.
"""

from __future__ import annotations

import re

import pytest

from tests.kernels.machine_attention import difference_of
from tests.kernels.other_targets import set_multiprocessors
from tests.kernels.softmax_attention import softmax_attention
from tileiras.driver import compile_module
from tileiras.interpreter.ptx.errors import PtxRuntimeError
from tileiras.options import CompileOptions

ROWS = 64
TILES = ((64, 128), (128, 128), (32, 128), (64, 256))
"""Columns of a tile of keys, and the depth of heads."""


def compiled(columns: int, depth: int, share: int = 1) -> str:
    """PTX of full attention with 64 rows a tile block."""
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_90")
    source = softmax_attention("full", ROWS, columns, depth, share)
    return compile_module(source, options).output.decode()


def difference(text: str, length: int, depth: int, blocks: int, share: int = 1) -> float:
    """The same of full attention with 64 rows a tile block."""
    return difference_of("full", text, length, (ROWS, depth), blocks, share)


@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_neighbours_are_one(
    monkeypatch: pytest.MonkeyPatch, blocks: int, tile: tuple[int, int]
) -> None:
    """With two multiprocessors one block a head is alone; of three the last one is."""
    set_multiprocessors(monkeypatch, 2)
    columns, depth = tile
    text = compiled(columns, depth)
    assert "mbarrier.arrive_drop" in text
    assert difference(text, 3 * columns, depth, blocks) < 2e-3


def test_tile_blocks_of_a_small_grid_stay_alone() -> None:
    """Fewer than the GPU has multiprocessors: second warpgroups have no rows."""
    text = compiled(64, 128, 2)
    assert difference(text, 320, 128, 3, 2) < 2e-3


@pytest.mark.parametrize("length", [64, 128])
def test_short_loops(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    """Of one tile of keys, and of one pair of them."""
    set_multiprocessors(monkeypatch, 1)
    text = compiled(64, 128)
    for blocks in (1, 2, 3):
        assert difference(text, length, 128, blocks) < 2e-3


@pytest.mark.parametrize("rows", [16, 32])
def test_few_rows_are_64(rows: int) -> None:
    """Of several blocks of rows: those behind a tile's are another block's, which stores them."""
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_90")
    source = softmax_attention("full", rows, 128, 128)
    text = compile_module(source, options).output.decode()
    assert "wgmma.mma_async" in text
    for blocks in (1, 5):
        assert difference_of("full", text, 384, (rows, 128), blocks) < 2e-3


def test_machine_finds_that_a_warpgroup_does_not_leave() -> None:
    """Without dropping out the producer waits for a warpgroup that takes no stages."""
    text = compiled(64, 128)
    dropping = re.compile(r"@%p\d+ mbarrier\.arrive_drop[^\n]*\n")
    assert len(dropping.findall(text)) >= 5
    with pytest.raises(PtxRuntimeError):
        difference(dropping.sub("\n", text), 640, 128, 1)

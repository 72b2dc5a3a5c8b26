"""Tiles whose addresses are looked up, read once a cluster, on the PTX machine: values, races."""

from __future__ import annotations

import pytest

from tests.kernels.gathered_parts import Sizes, gathered_parts, make_parts
from tests.kernels.other_targets import set_multiprocessors
from tileiras.driver import compile_module
from tileiras.interpreter.ptx import run_ptx
from tileiras.options import CompileOptions

TILE: Sizes = (64, 64, 32)


def ptx_of(source: str) -> str:
    """PTX for sm_90."""
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_90")
    return compile_module(source.encode(), options).output.decode()


@pytest.mark.parametrize("rows", ["x", "y"])
@pytest.mark.parametrize(
    ("tile", "sizes"),
    [
        (TILE, (128, 512, 96)),
        (TILE, (64, 72, 40)),
        (TILE, (128, 640, 8)),
        ((128, 128, 64), (128, 1032, 64)),
    ],
    ids=str,
)
def test_a_cluster_reads_remote_tiles_once(tile: Sizes, sizes: Sizes, rows: str) -> None:
    """Whole clusters, one of two tiles, one with two beyond a whole one, ragged columns."""
    text = ptx_of(gathered_parts(tile, rows=rows))
    assert ".reqnctapercluster 4" in text and ".multicast::cluster" in text
    parts = make_parts(tile, sizes)
    assert not parts.is_right()
    run_ptx(text, parts.arguments(), parts.grid(rows))
    assert parts.is_right()


@pytest.mark.parametrize("rows", ["x", "y"])
@pytest.mark.parametrize("sizes", [(384, 520, 40), (384, 136, 40), (640, 64, 72)], ids=str)
def test_two_tiles_at_once(monkeypatch: pytest.MonkeyPatch, sizes: Sizes, rows: str) -> None:
    """A grid that fills the GPU: rows of 8, 4 and 1, an odd number of tiles in some."""
    set_multiprocessors(monkeypatch, 1)
    tile = (128, 64, 32) if rows == "x" else (64, 128, 32)
    text = ptx_of(gathered_parts(tile, rows=rows))
    assert text.count(".multicast::cluster") > 1
    parts = make_parts(tile, sizes)
    run_ptx(text, parts.arguments(), parts.grid(rows))
    assert parts.is_right()


@pytest.mark.parametrize("looked_up", ["", "AB"])
def test_what_lies_alike_is_not_read_once(looked_up: str) -> None:
    """Operands of one kind: nothing says that one of them is dearer than the other."""
    assert ".multicast::cluster" not in ptx_of(gathered_parts(TILE, looked_up=looked_up))


def test_a_hint_of_one_cta_is_obeyed() -> None:
    source = gathered_parts(TILE)
    hinted = source.replace(
        "%k: tile<i32>) {", "%k: tile<i32>) optimization_hints=<sm_90 = {num_cta_in_cga = 1}> {"
    )
    assert hinted != source
    assert ".multicast::cluster" not in ptx_of(hinted)

"""Clusters that read tiles from looked-up addresses once, at the stages of tiles."""

from __future__ import annotations

import pytest

from tests.kernels.gathered_parts import Sizes, gathered_parts, make_parts
from tests.kernels.other_targets import set_multiprocessors
from tests.kernels.stage_comparison import passes
from tests.kernels.tiles_per_cta import kernel_of
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.interpreter import run_entry
from tileiras.ir_text import parse_text

TILE: Sizes = (128, 64, 32)
STAGES = ("multicast-remote-tiles", "tiles-per-cta", "tileas-optimize-alloc-tensor")


@pytest.mark.parametrize("rows", ["x", "y"])
@pytest.mark.parametrize("sizes", [(384, 320, 40), (640, 136, 40), (128, 64, 72)], ids=str)
def test_every_tile_is_computed(monkeypatch: pytest.MonkeyPatch, sizes: Sizes, rows: str) -> None:
    """Rows of 4, 4 and 1 tiles; odd numbers of clusters; the GPU is taken for one that is full."""
    set_multiprocessors(monkeypatch, 1)
    module = parse_text(gathered_parts(TILE, rows=rows), "kernel.mlir")
    seen: list[str] = []
    for name, _ in passes(module, (), "sm_90"):
        if name in STAGES:
            func = kernel_of(module)
            assert func.cluster_size == 4 and func.row_axis == (1 if rows == "x" else 0)
            parts = make_parts(TILE, sizes)
            run_entry(module, "gathered", parts.arguments(), parts.grid(rows))
            assert parts.is_right(), name
            seen.append(name)
    assert tuple(seen) == STAGES


def test_the_remote_operand_alone_is_shared() -> None:
    module = parse_text(gathered_parts(TILE), "kernel.mlir")
    for _ in passes(module, (), "sm_90"):
        pass
    copies = [op for op in module.walk() if isinstance(op, pl.TmaLoadOp)]
    shared = [op for op in copies if op.row_size is not None]
    assert shared and len(shared) < len(copies)
    assert all(op.multicast_if is not None for op in shared)
    assert any(isinstance(op, aa.GetClusterPlaceOp) for op in module.walk())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%n: tile<i32>, %k: tile<i32>) {", "HINT"),
        ("%cp[%x, %y]", "%cp[%x, %nb]"),
        ("%part = divi %x", "%part = divi %y"),
    ],
    ids=["one CTA asked for", "the size of the grid is used", "no axis is shared"],
)
def test_other_kernels_stay(old: str, new: str) -> None:
    text = gathered_parts(TILE)
    assert old in text
    if new == "HINT":
        new = old[:-1] + "optimization_hints=<sm_90 = {num_cta_in_cga = 1}> {"
    if "%nb" in new:
        counts = "%nb, %nc, %nd = get_num_tile_blocks : tile<i32>"
        text = text.replace("  %list0 =", f"  {counts}\n  %list0 =")
    module = parse_text(text.replace(old, new), "kernel.mlir")
    for name, _ in passes(module, (), "sm_90"):
        if name == "form-clusters":
            assert kernel_of(module).in_rows is None

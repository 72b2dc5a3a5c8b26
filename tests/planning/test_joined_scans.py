"""Loops that scan small tiles: when several iterations are one over a longer tile."""

from __future__ import annotations

import pytest

from tests.kernels.scanned_columns import scan_kernel
from tests.kernels.stage_comparison import passes
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.ir_text import parse_text

PASS = "join-iterations"


def scanned(text: str) -> list[tuple[int, ...]]:
    """The shapes of the tiles that loops scan, behind the pass."""
    module = parse_text(text, "kernel.mlir")
    for name, _ in passes(module, (), "sm_90"):
        if name == PASS:
            break
    return [shape_of(op.operands[0]) for op in module.walk() if isinstance(op, aa.ScanOp)]


@pytest.mark.parametrize(
    ("type", "tile", "dim", "longer"),
    [
        ("f16", (64, 64), 1, (64, 256)),
        ("f16", (32, 128), 1, (32, 256)),
        ("f32", (64, 64), 1, (64, 128)),
        ("f16", (32, 64), 0, (64, 64)),
        ("f16", (16, 64), 0, (64, 64)),
        ("f32", (32, 32), 0, (128, 32)),
    ],
)
def test_small_tiles_become_longer_along_the_scan(
    type: str, tile: tuple[int, int], dim: int, longer: tuple[int, int]
) -> None:
    assert scanned(scan_kernel(type, tile, dim)) == [longer, tile]


CHANGES = {
    "no scan, so that nothing but sums is carried": None,
    "the next tile follows later": ("[%i, %b] token = %t : ", "[%b, %i] token = %t : "),
    "another function": ("%after = addf %before, %sum", "%after = mulf %before, %sum"),
    "what comes before is subtracted": ("%result = addf %s, %w", "%result = subf %s, %w"),
    "from the end": ("reverse=false", "reverse=true"),
    "what comes before is left out": ("%result = addf %s, %w", "%result = addf %s, %y"),
    "it does not count": ("%after = addf %before, %sum", "%after = addf %sum, %sum"),
}


@pytest.mark.parametrize("why", list(CHANGES))
def test_others_stay_as_they_are(why: str) -> None:
    change = CHANGES[why]
    text = scan_kernel("f16", (32, 64), 0, scans=change is not None)
    if change is not None:
        assert change[0] in text
        text = text.replace(*change)
    assert set(scanned(text)) <= {(32, 64)}

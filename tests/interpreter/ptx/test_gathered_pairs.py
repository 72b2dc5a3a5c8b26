"""Experts whose tile blocks compute two tiles with rows of their own, on the PTX machine.

Values and races, with pairs that have weights in common and pairs that do not.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.kernels.gather import quarters
from tileiras.driver import compile_module
from tileiras.interpreter.ptx import Limits, run_ptx
from tileiras.options import CompileOptions

ROUTED = Path(__file__).parents[2] / "kernels" / "routed_experts.mlir"
EXPERTS, WIDE = 16, 256


def ptx_of(source: bytes) -> str:
    """PTX for sm_90."""
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_90")
    return compile_module(source, options).output.decode()


@pytest.mark.parametrize(
    ("tiles", "hidden", "resident"), [(8, 272, 1), (5, 80, 2), (1, 80, 132)], ids=str
)
def test_two_tiles_gather_their_own_rows(tiles: int, hidden: int, resident: int) -> None:
    """Eight tiles and five, several for a CTA; one tile."""
    text = ptx_of(ROUTED.read_bytes())
    assert "cp.async.cg" in text and text.count("wgmma.mma_async") > 1
    rng = np.random.default_rng(tiles)
    slots = 128 * tiles - 48
    tokens = quarters(rng, slots // 96 * 16 + 16, hidden)
    weights = quarters(rng, EXPERTS, WIDE, hidden)
    order = np.full(128 * tiles, slots, np.int32)
    order[:slots] = rng.permutation(slots)
    chosen = rng.integers(0, 4, tiles).astype(np.int32)
    chosen[1::3] = chosen[0::3][: len(chosen[1::3])]
    out, wanted = np.zeros((slots, WIDE), np.float16), np.zeros((slots, WIDE), np.float16)
    for row, slot in enumerate(order):
        if slot < slots:
            source = tokens[slot // 6].astype(np.float32)
            wanted[slot] = weights[chosen[row // 128]].astype(np.float32) @ source
    arguments: list[object] = []
    for array in (tokens, weights, out, order, chosen):
        steps = [step // array.itemsize for step in array.strides]
        arguments += [array, *array.shape, *steps]
    grid = (tiles * (WIDE // 128), 1, 1)
    run_ptx(text, arguments, grid, limits=Limits(resident=resident))
    np.testing.assert_array_equal(out, wanted)

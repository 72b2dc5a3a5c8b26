"""Experts whose tile blocks compute two tiles with rows of their own, on the PTX machine.

Values and races, with pairs that have weights in common and pairs that do not.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.kernels.gather import routed_case
from tileiras.driver import compile_module
from tileiras.interpreter.ptx import Limits, run_ptx
from tileiras.options import CompileOptions

ROUTED = Path(__file__).parents[2] / "kernels" / "routed_experts.mlir"


def ptx_of(source: bytes) -> str:
    """PTX for sm_90."""
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_90")
    return compile_module(source, options).output.decode()


@pytest.mark.parametrize(
    ("tiles", "hidden", "wide", "resident"),
    [(8, 272, 256, 1), (5, 80, 208, 2), (3, 80, 144, 1), (1, 80, 256, 132)],
    ids=str,
)
def test_two_tiles_gather_their_own_rows(tiles: int, hidden: int, wide: int, resident: int) -> None:
    """Eight tiles of rows and five, several for a CTA, an odd number in all; ragged columns."""
    text = ptx_of(ROUTED.read_bytes())
    assert "cp.async.cg" in text and text.count("wgmma.mma_async") > 1
    case = routed_case(tiles, hidden, wide)
    run_ptx(text, case.arguments, case.grid, limits=Limits(resident=resident))
    np.testing.assert_array_equal(case.arguments[case.output], case.wanted)

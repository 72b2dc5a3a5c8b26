"""Pipelines of many stages are filled and waited for in loops, in the PTX machine, too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.kernels.compilations import compiled
from tests.kernels.gemm import gemm
from tests.kernels.other_targets import set_multiprocessors
from tileiras.codegen.lowering.pipelines import MOST_UNROLLED_STAGES
from tileiras.driver import compile_module
from tileiras.interpreter.ptx import run_ptx
from tileiras.options import CompileOptions

MATMUL = Path(__file__).parents[2] / "examples" / "matmul.mlir"
"""64x64 tiles in 8 stages, by one program alone (4 copies a thread and stage) or with a neighbour
(6, of which 2 have a condition)."""

COPY, ARRIVAL, WAIT = "cp.async.cg", "cp.async.mbarrier.arrive", "mbarrier.try_wait"


def matmul() -> str:
    """PTX of the example."""
    options = CompileOptions(gpu_name="sm_90", emit="ptx", opt_level=3)
    return compile_module(MATMUL.read_bytes(), options).output.decode()


def test_the_first_stage_and_the_others_have_code_once() -> None:
    text = matmul()
    assert text.count(COPY) == 2 * 6
    assert text.count(ARRIVAL) == 2
    # The producer waits for a free stage, and for the last copies; the consumers wait for a full
    # stage in the loop of two tiles and in that of one.
    assert text.count(WAIT) == 2 + 2


def test_few_stages_have_no_loop() -> None:
    text = compiled(gemm(64, 128, 64), emit="ptx")  # 48 KB are two stages
    assert 1 < text.count(ARRIVAL) <= MOST_UNROLLED_STAGES


@pytest.mark.parametrize(("tiles", "multiprocessors"), [((1, 1), 132), ((2, 1), 1)])
@pytest.mark.parametrize("depth", [8, 72, 256, 352])
def test_products_of_any_depth_are_right(
    tiles: tuple[int, int], multiprocessors: int, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Less than all stages, all of them, and more, the last in part; on one SM two tiles are
    computed at once."""
    set_multiprocessors(monkeypatch, multiprocessors)
    rng = np.random.default_rng(depth)
    rows, columns = 64 * tiles[0] - 8, 64 * tiles[1]
    a = rng.integers(-4, 5, (rows, depth)).astype(np.float16)
    b = rng.integers(-4, 5, (depth, columns)).astype(np.float16)
    c = np.full((rows, columns), np.nan, np.float16)
    run_ptx(matmul(), [a, b, c, rows, columns, depth], (*tiles, 1))
    assert np.array_equal(c, (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float16))

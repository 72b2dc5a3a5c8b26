"""Tile blocks that are numbered in the order of memory, in PTX: each is there once."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.tile_copies import arrays, copy_kernel
from tileiras.driver import compile_module
from tileiras.interpreter.ptx import run_ptx
from tileiras.options import CompileOptions


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("grid", [(3, 5, 1), (4, 8, 1)])
def test_every_tile_block_is_there_once(opt_level: int, grid: tuple[int, int, int]) -> None:
    arguments, wanted = arrays()
    options = CompileOptions(opt_level=opt_level, emit="ptx", gpu_name="sm_90")
    ptx = compile_module(copy_kernel().encode(), options).output.decode()
    assert ("div.s32" in ptx) == (opt_level > 0)
    run_ptx(ptx, arguments, grid)
    np.testing.assert_array_equal(arguments[1], wanted)

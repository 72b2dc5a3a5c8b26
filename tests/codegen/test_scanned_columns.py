"""Loops that scan tile after tile, in the PTX machine: layouts and stages change no sum."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.scanned_columns import scan_kernel
from tileiras.driver import compile_module
from tileiras.interpreter.ptx import run_ptx
from tileiras.options import CompileOptions


@pytest.mark.parametrize(
    ("type", "tile", "dim"),
    [("f16", (64, 64), 0), ("f16", (32, 64), 0), ("f32", (32, 64), 0), ("f16", (64, 64), 1)],
)
def test_sums_are_right(type: str, tile: tuple[int, int], dim: int) -> None:
    number = np.float16 if type == "f16" else np.float32
    shape = (160, tile[1]) if dim == 0 else (tile[0], 160)
    x = np.random.default_rng(1).integers(-2, 3, shape).astype(number)
    out = np.zeros_like(x)
    bits = f"u{x.itemsize}"
    arguments = [x.view(bits), out.view(bits), *shape]
    options = CompileOptions(gpu_name="sm_90", emit="ptx", opt_level=3)
    ptx = compile_module(scan_kernel(type, tile, dim).encode(), options).output.decode()
    run_ptx(ptx, arguments, (1, 1, 1), kernel="scan")
    np.testing.assert_array_equal(out, x.cumsum(dim, dtype=number))

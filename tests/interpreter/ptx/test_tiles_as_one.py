"""Two wide tiles as one, in two parts of half of the columns: exact, no race."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import dense_case
from tileiras.driver import compile_module
from tileiras.interpreter import run_entry
from tileiras.interpreter.ptx import Limits, run_ptx
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions

WIDE = ProductKernel("f32", (128, 256, 32), form="numbered", order="columns")


@pytest.mark.parametrize(("rows", "resident"), [(3, 1), (2, 2)])
def test_tiles_of_which_threads_read_the_columns(rows: int, resident: int) -> None:
    """With one SM a round of two tiles and one behind it; with two no round."""
    case = dense_case(WIDE, (rows * 128 - 8, 248, 136), rows, 1, 1)
    arguments, expected = case.arguments(), case.arguments()
    run_entry(parse_text(WIDE.text(), "kernel.mlir"), "product", expected, case.grid)
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_90")
    text = compile_module(WIDE.text().encode(), options).output.decode()
    run_ptx(text, arguments, case.grid, limits=Limits(resident=resident))
    np.testing.assert_array_equal(arguments[2], expected[2])

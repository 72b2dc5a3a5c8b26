"""Loops whose last product is an iteration late, and rows that come with its stage, in PTX."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.kernels.attention import attention_gradient, two_gradients
from tileiras.driver import compile_module, read_source, with_environment
from tileiras.interpreter import run_entry
from tileiras.interpreter.ptx import Limits, run_ptx
from tileiras.options import CompileOptions

BUDGET = 3_000_000
LENGTHS = (0, 64, 128, 192, 300)
"""No key, and one to five tiles of 64, the last one partly outside."""


def ptx_of(source: bytes) -> str:
    """The kernel's PTX for sm_90."""
    options = CompileOptions(gpu_name="sm_90", emit="ptx")
    return compile_module(source, with_environment(options)).output.decode()


def compare(source: bytes, lengths: Sequence[int], rows: int, depth: int) -> None:
    """What the machine computes against what the program means; the machine looks for races."""
    text = ptx_of(source)
    for length in lengths:
        rng = np.random.default_rng(length)
        values = (rng.standard_normal((3, max(length, rows), depth)) * 0.25).astype(np.float16)
        bits = [array.view(np.uint16).ravel() for array in values]
        wanted, found = np.zeros_like(bits[0]), np.zeros_like(bits[0])
        run_entry(read_source(source), "attention", [*bits, wanted, length], (1, 1, 1))
        limits = Limits(BUDGET, resident=1)
        run_ptx(text, [*bits, found, length], (1, 1, 1), kernel="attention", limits=limits)
        numbers = (array.view(np.float16).astype(np.float64) for array in (wanted, found))
        np.testing.assert_allclose(*numbers, rtol=2e-3, atol=4e-3, err_msg=f"{length} keys")


@pytest.mark.parametrize(("rows", "depth", "lengths"), [(64, 64, LENGTHS[:3]), (128, 128, LENGTHS)])
def test_gradients_are_those_of_the_program(rows: int, depth: int, lengths: Sequence[int]) -> None:
    compare(attention_gradient(rows, depth=depth), lengths, rows, depth)


def test_two_gradients_are_those_of_the_program() -> None:
    """More tiles than stages, so that one is copied into again that threads have read rows of."""
    compare(two_gradients(), LENGTHS, 128, 128)

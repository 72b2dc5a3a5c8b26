"""Kernels whose products share operands: arguments, and runs at several stages."""

from __future__ import annotations

import numpy as np

from tests.kernels.product_text import ELEMENTS
from tests.kernels.shared_operands import (
    COLUMNS,
    DEPTH,
    ROWS,
)
from tests.kernels.stage_comparison import passes
from tests.kernels.unchanged import changing
from tileiras.driver import read_source
from tileiras.interpreter import run_entry
from tileiras.interpreter.formats import format_of, to_bits

GRID = (1, 2, 1)


PLACEMENTS = [
    ("f32", 32, ""),
    ("f32", 32, "BE"),
    ("f8E4M3FN", 128, "BE"),
    ("f8E4M3FN", 128, ""),
    ("f16", 128, ""),
    ("f16", 128, "ADBE"),
]
"""Element types, steps of K, and the operands that are contiguous along their other dim."""


def arguments(element: str, transposed: str = "") -> list[np.ndarray]:
    """Small whole numbers as the kernel takes them."""
    random = np.random.default_rng(7)
    fmt = format_of(ELEMENTS[element])
    found: list[np.ndarray] = []
    for name, shape in zip("ABDE", [(ROWS, DEPTH), (DEPTH, COLUMNS)] * 2, strict=True):
        values = random.integers(-2, 3, shape).astype(fmt.dtype)
        values = values.T if name in transposed else values
        found.append(to_bits(np.ascontiguousarray(values), fmt).reshape(-1))
    return [*found, *(np.zeros(ROWS * COLUMNS, np.float32) for _ in range(2))]


def run_stages(text: str, element: str, transposed: str = "", arch: str = "sm_90"):
    """Runs the kernel after every pass; memory must stay the same. Returns the last module."""
    module = read_source(text.encode())
    wanted = arguments(element, transposed)
    run_entry(module, "shared", wanted, GRID)
    assert wanted[-1].any()
    for name, _ in changing(module, passes(module, (), arch)):
        found = arguments(element, transposed)
        run_entry(module, "shared", found, GRID)
        for one, other in zip(wanted[-2:], found[-2:], strict=True):
            np.testing.assert_array_equal(one, other, err_msg=f"after {name}")
    return module

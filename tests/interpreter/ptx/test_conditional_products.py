"""Products under a condition in the loop over K, on every way of computing them: exact, no race."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.conditional_products import BODIES, conditional_product
from tileiras.driver import compile_module, read_source
from tileiras.interpreter import run_entry
from tileiras.interpreter.ptx import run_ptx
from tileiras.options import CompileOptions

TILE = (64, 64, 32)
SIZES = (128, 72, 200)
TARGETS = {
    "sm_90": {},
    "sm_90 without wgmma": {"disabled_features": ("wgmma",)},
    "sm_80": {},
    "sm_100": {},
    "sm_120": {},
}


def operands() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A, B, C full of what must go away, and a mask of 0, 1 and 2 with a row of zeros."""
    random = np.random.default_rng(5)
    m, n, k = SIZES
    a = random.integers(-2, 3, (m, k)).astype(np.float16)
    b = random.integers(-2, 3, (k, n)).astype(np.float16)
    steps = -(-k // TILE[2])
    mask = random.integers(0, 3, (m // TILE[0], steps)).astype(np.int32)
    mask[-1, ::2] = 0
    return a, b, np.full((m, n), 99, np.float32), mask


def wanted(body: str, a: np.ndarray, b: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The result, tile by tile in float64."""
    result = np.zeros((a.shape[0], b.shape[1]))
    for row in range(mask.shape[0]):
        rows = slice(row * TILE[0], (row + 1) * TILE[0])
        for step, bit in enumerate(mask[row]):
            depth = slice(step * TILE[2], (step + 1) * TILE[2])
            product = a[rows, depth].astype(np.float64) @ b[depth].astype(np.float64)
            if body == "either":
                result[rows] += product
                result[rows] *= 1 if bit else -1
            elif bit > (body == "nested"):
                result[rows] += product
            elif body == "nested" and bit:
                result[rows] *= -1
    return result


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("target", TARGETS)
def test_a_condition_leaves_products_out(target: str, body: str) -> None:
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name=target.split()[0], **TARGETS[target])
    text = compile_module(conditional_product(body, TILE).encode(), options).output.decode()
    if target == "sm_90" and body != "either":
        assert "wgmma.mma_async" in text and "mma.sync" not in text
        assert "cp.async.bulk.tensor" in text
    a, b, c, mask = operands()
    grid = (SIZES[0] // TILE[0], -(-SIZES[1] // TILE[1]), 1)
    run_ptx(text, [a, b, c, mask, *SIZES], grid)
    np.testing.assert_array_equal(c, wanted(body, a, b, mask))


@pytest.mark.parametrize("body", BODIES)
def test_the_tile_interpreter_agrees(body: str) -> None:
    a, b, c, mask = operands()
    module = read_source(conditional_product(body, TILE).encode())
    grid = (SIZES[0] // TILE[0], -(-SIZES[1] // TILE[1]), 1)
    run_entry(module, "sparse", [a, b, c, mask, *SIZES], grid)
    np.testing.assert_array_equal(c, wanted(body, a, b, mask))

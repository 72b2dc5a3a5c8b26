"""The shipped examples compute what their comments say."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tileiras.driver import read_source
from tileiras.interpreter import run_entry

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_vector_add_example():
    module = read_source((EXAMPLES / "vector_add.mlir").read_bytes())
    a, b = np.random.default_rng(0).normal(size=(2, 1500)).astype(np.float32)
    out = np.zeros_like(a)
    run_entry(module, "vector_add", [a, b, out, 1500], (2, 1, 1))
    np.testing.assert_array_equal(out, a + b)


def test_matmul_example():
    module = read_source((EXAMPLES / "matmul.mlir").read_bytes())
    rng = np.random.default_rng(1)
    m, n, k = 72, 80, 40
    a = rng.normal(size=(m, k)).astype(np.float16)
    b = rng.normal(size=(k, n)).astype(np.float16)
    out = np.zeros((m, n), np.float16)
    run_entry(module, "matmul", [a, b, out, m, n, k], (2, 2, 1))
    expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(out.astype(np.float64), expected, rtol=2**-10, atol=1e-5)

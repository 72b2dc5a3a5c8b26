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

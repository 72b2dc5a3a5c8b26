"""What tests of GEMMs in CuTe text share: the examples, matrices, and tensor maps of these."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from tileiras.driver import compile_module
from tileiras.interpreter.ptx.tensor_maps import TensorMap
from tileiras.options import CompileOptions

EXAMPLES = Path(__file__).parents[2] / "examples" / "cute"


@cache
def compiled(text: str, target: str = "sm_100", emit: str = "ptx") -> bytes:
    """The output for a program's text."""
    return compile_module(text.encode(), CompileOptions(gpu_name=target, emit=emit)).output


def matrix(rows: int, columns: int, seed: int) -> np.ndarray:
    """Small numbers, whose sums are exact."""
    values = np.random.default_rng(seed).integers(-4, 5, (rows, columns))
    return values.astype(np.float16)


def mapped(array: np.ndarray, box: tuple[int, int]) -> TensorMap:
    """The tensor map of a matrix, whose boxes have rows of one swizzle span."""
    shape, steps = (array.shape[1], array.shape[0]), (array.shape[1] * 2,)
    return TensorMap(0, "f16", shape, steps, box, swizzle=f"{box[0] * 2}B", array=array)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A B^T in f32."""
    return a.astype(np.float32) @ b.astype(np.float32).T

"""Launches of foreign kernels: arguments, and what they compute in float64 or in integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

F4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
"""What the 16 codes of e2m1 stand for."""
TRITON_SIZES = (256, 128, 192)


@dataclass(frozen=True)
class Launch:
    """`arguments` are numpy arrays and scalars; the array at `result` becomes `wanted`.

    `tolerance` 0: all sums are exact, so every bit is.
    """

    arguments: list[Any]
    result: int
    wanted: np.ndarray
    grid: tuple[int, int, int] = (1, 1, 1)
    tolerance: float = 0.0
    block: int = 0
    """Threads, where the compiler does not say them."""

    def is_right(self, found: np.ndarray) -> bool:
        """Whether a result is what is wanted."""
        if self.tolerance == 0:
            return np.array_equal(found, self.wanted.astype(found.dtype).reshape(found.shape))
        error = np.abs(found.astype(np.float64).ravel() - self.wanted.ravel()).max()
        return bool(error <= self.tolerance)


def _triton_gemm(is_rows: bool) -> Launch:
    rng, (m, n, k) = np.random.default_rng(1), TRITON_SIZES
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    stored = b if is_rows else np.ascontiguousarray(b.T)
    sizes = map(np.int32, (m, n, k))
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(wanted).max() <= 2048  # every result is an f16
    return Launch([a, stored, np.zeros((m, n), np.float16), *sizes], 2, wanted, (m // 128, 1, 1))


def _triton_attention() -> Launch:
    rng, length, scale = np.random.default_rng(2), 256, 0.18
    q, k, v = (rng.standard_normal((length, 64)).astype(np.float16) for _ in range(3))
    scores = q.astype(np.float64) @ k.astype(np.float64).T * scale
    scores[np.triu_indices(length, 1)] = -np.inf
    shares = np.exp2(scores - scores.max(1, keepdims=True))
    wanted = shares / shares.sum(1, keepdims=True) @ v.astype(np.float64)
    numbers = [np.int32(length), np.float32(scale)]
    return Launch([q, k, v, np.zeros_like(q), *numbers], 3, wanted, (length // 128, 1, 1), 4e-3)


def _triton_scaled(block: int, packed: int) -> Launch:
    rng, (m, n, k) = np.random.default_rng(3), (128, 128, 256)
    operands, values = [], []
    for rows in (m, n):
        if packed == 2:
            codes = rng.integers(0, 16, (rows, k)).astype(np.uint8)
            operands.append(codes[:, 0::2] | codes[:, 1::2] << 4)
            values.append(F4[codes])
        else:
            numbers = rng.integers(-8, 9, (rows, k)).astype(ml_dtypes.float8_e4m3fn)
            operands.append(numbers.view(np.uint8))
            values.append(numbers.astype(np.float64))
    scales, factors = [], []
    for rows in (m, n):
        if block == 32:
            codes = rng.integers(125, 130, (rows, k // block)).astype(np.uint8)
            scales.append(codes)
            factors.append(2.0 ** (codes.astype(np.float64) - 127))
        else:
            found = rng.choice([0.5, 1, 1.5, 2], (rows, k // block))
            scales.append(found.astype(ml_dtypes.float8_e4m3fn).view(np.uint8))
            factors.append(found)
    left, right = (x * np.repeat(y, block, 1) for x, y in zip(values, factors))
    arrays = [operands[0], scales[0], operands[1], scales[1], np.zeros((m, n), np.float32)]
    arrays = [np.ascontiguousarray(array) for array in arrays]
    return Launch([*arrays, np.int32(n), np.int32(k)], 4, left @ right.T)


TRITON: dict[str, Callable[[], Launch]] = {
    "gemm": lambda: _triton_gemm(False),
    "gemm_rows": lambda: _triton_gemm(True),
    "attention": _triton_attention,
    "mxf8": lambda: _triton_scaled(32, 1),
    "mxf4": lambda: _triton_scaled(32, 2),
    "nvf4": lambda: _triton_scaled(16, 2),
}
"""By the names of `triton_kernels.py`."""


def _row_sums() -> Launch:
    x = np.random.default_rng(4).integers(-99, 100, (5, 1000)).astype(np.float32)
    return Launch([x, np.zeros(5, np.float32), np.int32(1000)], 1, x.sum(1), (5, 1, 1), block=256)


def _histogram() -> Launch:
    x = np.random.default_rng(5).integers(0, 256, 3000).astype(np.uint8)
    wanted = np.bincount(x, minlength=256)
    return Launch([x, np.zeros(256, np.uint32), np.int32(3000)], 1, wanted, (4, 1, 1), block=128)


def _prefix_sums() -> Launch:
    x = np.random.default_rng(6).integers(-99, 100, 250).astype(np.int32)
    return Launch([x, np.zeros(250, np.int32), np.int32(250)], 1, x.cumsum(), block=256)


def _collatz() -> Launch:
    x = np.random.default_rng(7).integers(1, 5000, 300).astype(np.uint32)

    def steps(value: int) -> int:
        count = 0
        while value > 1:
            value, count = 3 * value + 1 if value % 2 else value // 2, count + 1
        return count

    wanted = np.array([steps(int(value)) for value in x])
    return Launch([x, np.zeros(300, np.uint32), np.int32(300)], 1, wanted, (3, 1, 1), block=128)


def _sort() -> Launch:
    x = np.random.default_rng(8).integers(-1000, 1000, 200).astype(np.int32)
    return Launch([x, np.zeros(200, np.int32), np.int32(200)], 1, np.sort(x), block=128)


def _softmax() -> Launch:
    x = np.random.default_rng(9).standard_normal((10, 128)).astype(np.float32)
    shares = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    wanted = shares / shares.sum(1, keepdims=True)
    return Launch([x, np.zeros_like(x), np.int32(10)], 1, wanted, (3, 1, 1), 1e-6, block=128)


def _half_product() -> Launch:
    rng, (m, n, k) = np.random.default_rng(10), (128, 128, 160)
    a, b = (rng.integers(-8, 9, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    numbers = [np.int32(n), np.int32(k)]
    result = np.zeros((m, n), np.float32)
    return Launch([a, b, result, *numbers], 2, wanted, (m // 64, n // 64, 1), block=128)


def _cluster_sums() -> Launch:
    x = np.random.default_rng(11).integers(-999, 1000, (4, 128)).astype(np.int32)
    wanted = x + 3 * x[[1, 0, 3, 2], ::-1]
    return Launch([x, np.zeros_like(x)], 1, wanted, (4, 1, 1), block=128)


CUDA: dict[str, Callable[[], Launch]] = {
    "row_sums": _row_sums,
    "histogram": _histogram,
    "prefix_sums": _prefix_sums,
    "collatz": _collatz,
    "sort": _sort,
    "softmax": _softmax,
    "half_product": _half_product,
    "cluster_sums": _cluster_sums,
}
"""By the names of `kernels.cu`."""

"""What the kernels in `kernels/` and the examples compute, on numpy.

Nothing but numpy is imported here: on a machine with a GPU that is all there may be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

KERNELS = Path(__file__).resolve().parent / "kernels"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "tile_cpp"
SOURCES = {
    path.stem: path
    for path in [
        *(KERNELS / f"{name}.cu" for name in ("elementwise", "memory", "products", "reductions")),
        *(EXAMPLES / f"{name}.cu" for name in ("matmul", "softmax", "vector_add")),
    ]
}
"""The source of every file of kernels, by the name of the file."""

Grid = tuple[int, int, int]


@dataclass(frozen=True)
class Launch:
    """Arguments of one launch, and what the arrays among them hold afterwards.

    `wanted` maps positions of arguments to arrays; those of no position keep their elements.
    """

    arguments: list[Any]
    grid: Grid
    wanted: dict[int, np.ndarray]
    tolerance: float = 0.0
    """Of each element, relative to 1 + its size."""

    def fault(self, before: Sequence[Any]) -> str:
        """What is wrong with the arguments after the launch; empty if nothing is."""
        for position, value in enumerate(self.arguments):
            if not isinstance(value, np.ndarray):
                continue
            wanted = self.wanted.get(position, before[position])
            found = value.astype(np.float64)
            error = np.abs(found - wanted) / (1 + np.abs(wanted))
            worst = float(error.max())
            if not worst <= self.tolerance:
                return f"argument {position}: error {worst:.3g}, allowed {self.tolerance:.3g}"
        return ""


@dataclass(frozen=True)
class KernelCase:
    """One kernel of one file, and how to launch it."""

    file: str
    kernel: str
    """Of the entry's name; a template's is mangled, so this is part of it."""
    make: Callable[[np.random.Generator, int], Launch]
    """Of random numbers and a factor for the size of what is computed."""

    @property
    def name(self) -> str:
        """As tests are called."""
        return f"{self.file}-{self.kernel}"

    def entry(self, entries: Sequence[str]) -> str:
        """The kernel's entry among those of its file."""
        found = [entry for entry in entries if self.kernel in entry]
        if len(found) != 1:
            raise ValueError(f"{self.name} matches {found} of {list(entries)}, expected one")
        return found[0]

    def launch(self, size: int = 1) -> Launch:
        """The launch for a size: always the same."""
        return self.make(np.random.default_rng(len(self.name)), size)


def tiles(extent: int, tile: int) -> int:
    """Tiles that cover an extent."""
    return -(-extent // tile)


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers of both signs, about 1 in size."""
    return rng.standard_normal(shape).astype(np.float32)


def _scale(dtype: type, width: int) -> Callable[[np.random.Generator, int], Launch]:
    def make(rng: np.random.Generator, size: int) -> Launch:
        n = 1500 * size
        x = floats(rng, n).astype(dtype)
        wanted = 1.5 * x.astype(np.float64) + 0.25
        arguments = [x, np.zeros_like(x), np.float32(1.5), np.float32(0.25), np.int32(n)]
        return Launch(arguments, (tiles(n, width), 1, 1), {1: wanted}, float(np.finfo(dtype).eps))

    return make


def _gelu(rng: np.random.Generator, size: int) -> Launch:
    n = 1000 * size + 3
    x = 3 * floats(rng, n)
    wide = x.astype(np.float64)
    wanted = 0.5 * wide * (1 + np.tanh(0.7978845608 * (wide + 0.044715 * wide**3)))
    return Launch([x, np.zeros_like(x), np.int32(n)], (tiles(n, 256), 1, 1), {1: wanted}, 1e-5)


def _functions(rng: np.random.Generator, size: int) -> Launch:
    n = 600 * size
    x = floats(rng, n)
    wide = x.astype(np.float64)
    positive = np.abs(wide) + 0.5
    total = np.sin(wide) + 2 * np.cos(wide) + np.exp(wide) + np.exp2(wide) + np.log(positive)
    total += np.log2(positive) + np.sqrt(positive) + 1 / np.sqrt(positive) + np.floor(wide)
    total += np.ceil(wide) + positive**1.5 + np.arctan2(wide, positive)
    arguments = [x, np.zeros(n), np.int32(n)]
    return Launch(arguments, (tiles(n, 256), 1, 1), {1: 2 * total - wide}, 2e-6)


def _integers(rng: np.random.Generator, size: int) -> Launch:
    n = 700 * size
    x = rng.integers(-100000, 100000, n, dtype=np.int32)
    y = rng.integers(1, 1000, n, dtype=np.int32) * rng.choice(np.array([-1, 1], np.int32), n)
    bits = (x & y) ^ (x | 0xFF) ^ (~y << 3) ^ (x >> 2)
    quotient = np.trunc(x / y).astype(np.int64)
    chosen = np.where(x < y, bits.astype(np.int64), quotient + (x - quotient * y))
    wanted = x.astype(np.int64) * y + chosen + x.astype(np.int8)
    arguments = [x, y, np.zeros(n, np.int64), np.int32(n)]
    return Launch(arguments, (tiles(n, 256), 1, 1), {2: wanted})


def _collatz(rng: np.random.Generator, size: int) -> Launch:
    numbers = np.concatenate([[-4, 0, 1, 27], rng.integers(2, 3000, 20 * size)]).astype(np.int32)
    limit, wanted = 60, []
    for number in numbers.tolist():
        count = -1 if number < 1 else 0
        while number > 1 and count < limit:
            number, count = (number // 2 if number % 2 == 0 else 3 * number + 1), count + 1
        wanted.append(count)
    arguments = [numbers, np.zeros_like(numbers), np.int32(limit)]
    return Launch(arguments, (numbers.size, 1, 1), {1: np.array(wanted)})


def _transpose(rng: np.random.Generator, size: int) -> Launch:
    rows, columns = 100 * size + 1, 70 * size
    x = floats(rng, rows, columns)
    out = np.zeros((columns, rows), np.float32)
    grid = (tiles(columns, 32), tiles(rows, 64), 1)
    return Launch([x, out, np.int32(rows), np.int32(columns)], grid, {1: x.T})


def _permuted(rng: np.random.Generator, size: int) -> Launch:
    planes, rows, columns = 2, 20 * size, 33
    x = rng.integers(-999, 999, (planes, rows, columns), dtype=np.int32)
    out = np.zeros((planes, columns, rows), np.int32)
    grid = (tiles(columns, 16), tiles(rows, 16), planes)
    arguments = [x, out, *(np.int32(extent) for extent in x.shape)]
    return Launch(arguments, grid, {1: x.transpose(0, 2, 1)})


def _gather_rows(rng: np.random.Generator, size: int) -> Launch:
    rows, columns, count = 50, 100, 29 * size
    table, names = floats(rng, rows, columns), rng.integers(0, rows, count, dtype=np.int32)
    out = np.zeros((count, columns), np.float32)
    extents = [np.int32(extent) for extent in (rows, columns, count)]
    grid = (tiles(count, 8), tiles(columns, 64), 1)
    return Launch([table, names, out, *extents], grid, {2: table[names]})


def _windows(rng: np.random.Generator, size: int) -> Launch:
    n = 30 * size
    x = rng.integers(-50, 50, n).astype(np.float32)
    padded = np.concatenate([x, np.zeros(4, np.float32)])
    wanted = np.array([padded[start : start + 4].sum() for start in range(0, n, 2)])
    return Launch([x, np.zeros(n // 2, np.float32), np.int32(n)], (n // 2, 1, 1), {1: wanted})


def _histogram(rng: np.random.Generator, size: int) -> Launch:
    n, bins = 1000 * size, 17
    numbers = rng.integers(-3, bins + 3, n, dtype=np.int32)
    inside = numbers[(numbers >= 0) & (numbers < bins)]
    arguments = [numbers, np.zeros(bins, np.int32), np.int32(n), np.int32(bins)]
    return Launch(arguments, (tiles(n, 128), 1, 1), {1: np.bincount(inside, minlength=bins)})


def _locked(rng: np.random.Generator, size: int) -> Launch:
    del rng
    blocks, total = 40 * size, 3
    for _ in range(blocks):
        total = 2 * total % 1000003 + 1
    arguments = [np.zeros(1, np.int32), np.full(1, 3, np.int32)]
    return Launch(arguments, (blocks, 1, 1), {1: np.array([total])})


def _swap_halves(rng: np.random.Generator, size: int) -> Launch:
    n = 64 * 5 * size
    x = rng.integers(-30000, 30000, n, dtype=np.int16)
    wanted = x.reshape(-1, 2, 32)[:, ::-1].reshape(-1)
    return Launch([x, np.zeros_like(x), np.int32(n)], (n // 64, 1, 1), {1: wanted})


def _statistics(rng: np.random.Generator, size: int) -> Launch:
    rows = 10 * size
    x = rng.permutation(rows * 512).reshape(rows, 512).astype(np.float32) - 999
    wanted = np.stack([x.astype(np.float64).sum(1), x.max(1), x.min(1)], axis=1)
    arguments = [x, np.zeros((rows, 3), np.float32), np.zeros(rows, np.int32), np.int32(rows)]
    return Launch(arguments, (tiles(rows, 4), 1, 1), {1: wanted, 2: x.argmax(1)}, 1e-6)


def _running_sums(rng: np.random.Generator, size: int) -> Launch:
    rows = 5 * size
    x = rng.integers(-1000, 1000, (rows, 128), dtype=np.int32)
    wanted = {1: x.cumsum(1), 2: x[:, ::-1].cumsum(1)[:, ::-1]}
    arguments = [x, np.zeros_like(x), np.zeros_like(x), np.int32(rows)]
    return Launch(arguments, (tiles(rows, 2), 1, 1), wanted)


def _layer_norm(rng: np.random.Generator, size: int) -> Launch:
    rows, columns = 3 * size, 600 * size + 7
    x, weight = floats(rng, rows, columns) + 2, floats(rng, columns)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(1, keepdims=True)
    wanted = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * weight
    extents = [np.int32(rows), np.int32(columns), np.float32(1e-5)]
    return Launch([x, weight, np.zeros_like(x), *extents], (rows, 1, 1), {2: wanted}, 2e-5)


def _all_and_any(rng: np.random.Generator, size: int) -> Launch:
    blocks = 12 * size
    x = rng.integers(0, 9, (blocks, 64), dtype=np.uint8)
    x[1::3], x[2::3] = np.maximum(x[1::3], 1), 0
    wanted = x.all(1) + 2 * x.any(1)
    return Launch([x, np.zeros(blocks, np.int32)], (blocks, 1, 1), {1: wanted})


def _operands(rng: np.random.Generator, m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    return floats(rng, m, k).astype(np.float16), floats(rng, k, n).astype(np.float16)


def _exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64)


def _persistent_matmul(rng: np.random.Generator, size: int) -> Launch:
    m, n, k = 200 * size, 264 * size, 136 * size
    a, b = _operands(rng, m, n, k)
    extents = [np.int32(extent) for extent in (m, n, k)]
    arguments = [a, b, np.zeros((m, n), np.float16), *extents]
    return Launch(arguments, (4, 1, 1), {2: _exact(a, b)}, 1e-3)


def _matmul(rng: np.random.Generator, size: int) -> Launch:
    m, n, k = 200 * size, 136 * size, 200 * size
    a, b = _operands(rng, m, n, k)
    extents = [np.int32(extent) for extent in (m, n, k)]
    arguments = [a, b, np.zeros((m, n), np.float32), *extents]
    return Launch(arguments, (tiles(n, 128), tiles(m, 128), 1), {2: _exact(a, b)}, 1e-4)


def _split_k(rng: np.random.Generator, size: int) -> Launch:
    m, n, k = 70 * size, 90, 300 * size
    a, b = _operands(rng, m, n, k)
    start = floats(rng, m, n)
    extents = [np.int32(extent) for extent in (m, n, k)]
    grid = (tiles(m, 64), tiles(n, 64), 3)
    return Launch([a, b, start, *extents], grid, {2: start + _exact(a, b)}, 1e-4)


def _bytes_matmul(rng: np.random.Generator, size: int) -> Launch:
    batches, m, n, k = 2, 70, 66 * size, 130 * size
    a = rng.integers(-128, 128, (batches, m, k), dtype=np.int8)
    b = rng.integers(-128, 128, (batches, k, n), dtype=np.int8)
    extents = [np.int32(extent) for extent in (batches, m, n, k)]
    arguments = [a, b, np.zeros((batches, m, n), np.int32), *extents]
    return Launch(arguments, (tiles(m, 64), tiles(n, 64), batches), {2: _exact(a, b)})


def _attention(rng: np.random.Generator, size: int) -> Launch:
    queries, keys = 100 * size, 150 * size
    q, k, v = (floats(rng, rows, 64).astype(np.float16) for rows in (queries, keys, keys))
    scores = _exact(q, k.T) * 0.125
    powers = np.exp(scores - scores.max(1, keepdims=True))
    wanted = powers @ v.astype(np.float64) / powers.sum(1, keepdims=True)
    extents = [np.int32(queries), np.int32(keys), np.float32(0.125)]
    arguments = [q, k, v, np.zeros_like(q), *extents]
    return Launch(arguments, (tiles(queries, 64), 1, 1), {3: wanted}, 2e-3)


def _softmax(rng: np.random.Generator, size: int) -> Launch:
    rows, columns = 6 * size, 777
    x = 4 * floats(rng, rows, columns)
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    arguments = [x, np.zeros_like(x), np.int32(rows), np.int32(columns)]
    return Launch(arguments, (rows, 1, 1), {1: powers / powers.sum(1, keepdims=True)}, 1e-6)


def _vector_add(rng: np.random.Generator, size: int) -> Launch:
    n = 1500 * size
    a, b = floats(rng, n), floats(rng, n)
    arguments = [a, b, np.zeros_like(a), np.uint64(n)]
    return Launch(arguments, (tiles(n, 1024), 1, 1), {2: a + b})


CASES = (
    KernelCase("elementwise", "scaleIf", _scale(np.float32, 512)),
    KernelCase("elementwise", "scaleI6__half", _scale(np.float16, 1024)),
    KernelCase("elementwise", "gelu", _gelu),
    KernelCase("elementwise", "functions", _functions),
    KernelCase("elementwise", "integers", _integers),
    KernelCase("elementwise", "collatz", _collatz),
    KernelCase("memory", "transpose", _transpose),
    KernelCase("memory", "permuted", _permuted),
    KernelCase("memory", "gather_rows", _gather_rows),
    KernelCase("memory", "windows", _windows),
    KernelCase("memory", "histogram", _histogram),
    KernelCase("memory", "locked", _locked),
    KernelCase("memory", "swap_halves", _swap_halves),
    KernelCase("products", "persistent_matmul", _persistent_matmul),
    KernelCase("products", "split_k", _split_k),
    KernelCase("products", "bytes_matmul", _bytes_matmul),
    KernelCase("products", "attention", _attention),
    KernelCase("reductions", "statistics", _statistics),
    KernelCase("reductions", "running_sums", _running_sums),
    KernelCase("reductions", "layer_norm", _layer_norm),
    KernelCase("reductions", "all_and_any", _all_and_any),
    KernelCase("matmul", "matmul", _matmul),
    KernelCase("softmax", "softmax", _softmax),
    KernelCase("vector_add", "vector_add", _vector_add),
)
"""Every kernel of every file; a test checks that none is missing."""

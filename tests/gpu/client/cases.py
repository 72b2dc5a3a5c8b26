"""What each client kernel is run on, what it must give in float64, and how far it may be off.

Shapes are small enough for the interpreter. Bounds are per element: a rounding error of the
result's format, or an error of summation that grows with the sum of magnitudes,
`n * eps * sum(|terms|)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import cuda.tile as ct
import ml_dtypes
import numpy as np

from . import kernels

EPS_F16, EPS_BF16, EPS_F32 = 2.0**-11, 2.0**-8, 2.0**-24
"""Half an ulp of 1: the largest relative error of one rounding to nearest."""


@dataclass(frozen=True)
class Output:
    """An argument that the kernel writes: its position, the float64 answer, the allowed error."""

    position: int
    expected: np.ndarray
    bound: np.ndarray | float = 0.0


@dataclass(frozen=True)
class KernelCase:
    """One launch: arguments in the kernel's order (arrays, scalars), then its constants."""

    name: str
    kernel: Any
    grid: tuple[int, int, int]
    arguments: tuple[Any, ...]
    constants: tuple[int, ...]
    outputs: tuple[Output, ...]

    @property
    def shape(self) -> str:
        """The shapes of all array arguments."""
        arrays = (arg for arg in self.arguments if isinstance(arg, np.ndarray))
        return " ".join("x".join(map(str, array.shape)) for array in arrays)

    def fresh(self) -> KernelCase:
        """The case with copies of its arrays, which a run updates in place."""
        copies = (arg.copy() if isinstance(arg, np.ndarray) else arg for arg in self.arguments)
        return replace(self, arguments=tuple(copies))


def _rng(name: str) -> np.random.Generator:
    return np.random.default_rng(list(name.encode()))


def _normal(name: str, *shape: int, dtype: Any = np.float32) -> np.ndarray:
    return _rng(name).normal(size=shape).astype(dtype)


def _tiles(size: int, tile: int) -> int:
    return -(-size // tile)


def vector_adds() -> Iterator[KernelCase]:
    """Element-wise sums: views, two dims, gathers; ragged and even."""
    for name, kernel in (("view", kernels.vector_add), ("gather", kernels.vector_add_gather)):
        for size in (1024, 1000, 7):
            a, b = _normal(f"a{size}", size), _normal(f"b{size}", size)
            exact = Output(2, (a + b).astype(np.float64))
            grid = (_tiles(size, 256), 1, 1)
            arguments = (a, b, np.zeros_like(a))
            yield KernelCase(f"vector_add_{name}", kernel, grid, arguments, (256,), (exact,))
    a, b = _normal("a2", 70, 100), _normal("b2", 70, 100)
    exact = Output(2, (a + b).astype(np.float64))
    yield KernelCase(
        "vector_add_2d",
        kernels.vector_add_2d,
        (5, 4, 1),
        (a, b, np.zeros_like(a)),
        (16, 32),
        (exact,),
    )


def copies() -> Iterator[KernelCase]:
    """Copies of 1 to 3 dims with ragged edges, in several types; what lies outside stays."""
    for dtype in (np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.int64):
        for kernel, shape, tile in (
            (kernels.copy_1d, (300,), (128,)),
            (kernels.copy_2d, (37, 70), (16, 32)),
            (kernels.copy_3d, (3, 9, 20), (2, 4, 16)),
        ):
            source = (_rng("copy").normal(size=shape) * 50).astype(dtype)
            counts = [_tiles(size, part) for size, part in zip(shape, tile)]
            grid = tuple((counts + [1, 1])[:3])
            out = Output(1, source.astype(np.float64))
            name = f"copy_{len(shape)}d_{np.dtype(dtype).name}"
            yield KernelCase(name, kernel, grid, (source, np.zeros_like(source)), tile, (out,))


PADDINGS = {
    ct.PaddingMode.ZERO: 0.0,
    ct.PaddingMode.NEG_ZERO: -0.0,
    ct.PaddingMode.NAN: np.nan,
    ct.PaddingMode.POS_INF: np.inf,
    ct.PaddingMode.NEG_INF: -np.inf,
}
PADDED_COPIES = {mode: kernels.padded_copy(mode) for mode in PADDINGS}


def paddings() -> Iterator[KernelCase]:
    """Every padding value, seen in a target larger than the source."""
    for dtype in (np.float32, np.float16):
        source = _normal("padding", 13, 21, dtype=dtype)
        for mode, value in PADDINGS.items():
            expected = np.full((16, 32), value)
            expected[:13, :21] = source
            arguments = (source, np.zeros((16, 32), dtype))
            yield KernelCase(
                f"padding_{mode.value}_{np.dtype(dtype).name}",
                PADDED_COPIES[mode],
                (2, 2, 1),
                arguments,
                (8, 16),
                (Output(1, expected),),
            )


def transposes() -> Iterator[KernelCase]:
    """Transposition of ragged matrices."""
    for dtype in (np.float32, np.float16):
        source = _normal("transpose", 45, 70, dtype=dtype)
        out = Output(1, source.T.astype(np.float64))
        arguments = (source, np.zeros((70, 45), dtype))
        name = f"transpose_{np.dtype(dtype).name}"
        yield KernelCase(name, kernels.transpose, (3, 3, 1), arguments, (16, 32), (out,))


def softmaxes() -> Iterator[KernelCase]:
    """Row softmax, ragged in both dims."""
    for dtype, eps in ((np.float32, 0.0), (np.float16, EPS_F16)):
        source = _normal("softmax", 10, 100, dtype=dtype)
        wide = source.astype(np.float64)
        powers = np.exp(wide - wide.max(axis=1, keepdims=True))
        expected = powers / powers.sum(axis=1, keepdims=True)
        bound = expected * (32 * EPS_F32 + eps) + 2.0**-25 * (eps > 0)
        name = f"row_softmax_{np.dtype(dtype).name}"
        arguments = (source, np.zeros_like(source))
        out = Output(1, expected, bound)
        yield KernelCase(name, kernels.row_softmax, (3, 1, 1), arguments, (4, 128), (out,))


def layer_norms() -> Iterator[KernelCase]:
    """Layer norm forward over rows longer than a tile."""
    for dtype, eps in ((np.float32, EPS_F32), (ml_dtypes.bfloat16, EPS_BF16)):
        rows, columns, small = 5, 300, 1e-5
        x = (_normal("layer_norm", rows, columns) * 2 + 1).astype(dtype)
        weight, bias = _normal("w", columns, dtype=dtype), _normal("b", columns, dtype=dtype)
        wide, gain, shift = (part.astype(np.float64) for part in (x, weight, bias))
        mean = wide.mean(axis=1)
        rstd = 1 / np.sqrt(wide.var(axis=1) + small)
        normal = (wide - mean[:, None]) * rstd[:, None]
        expected = normal * gain + shift
        size = np.abs(normal * gain) + np.abs(shift) + np.abs(gain)
        sums = 64 * EPS_F32
        outputs = (
            Output(3, expected, eps * np.abs(expected) + sums * size),
            Output(4, mean, sums * np.abs(wide).mean(axis=1)),
            Output(5, rstd, sums * rstd),
        )
        arguments = (x, weight, bias, np.zeros_like(x), np.zeros(rows, np.float32))
        arguments += (np.zeros(rows, np.float32), small)
        name = f"layer_norm_{np.dtype(dtype).name}"
        yield KernelCase(name, kernels.layer_norm, (rows, 1, 1), arguments, (128,), outputs)


def matmuls() -> Iterator[KernelCase]:
    """Products summed in f32: even and ragged shapes, f16 and bf16, f32 and f16 results."""
    for dtype, out_dtype, eps in (
        (np.float16, np.float32, 0.0),
        (np.float16, np.float16, EPS_F16),
        (ml_dtypes.bfloat16, np.float32, 0.0),
        (ml_dtypes.bfloat16, ml_dtypes.bfloat16, EPS_BF16),
    ):
        for m, n, k in ((128, 128, 64), (100, 72, 90)):
            a, b = _normal("a", m, k, dtype=dtype), _normal("b", k, n, dtype=dtype)
            left, right = a.astype(np.float64), b.astype(np.float64)
            expected = left @ right
            sums = np.abs(left) @ np.abs(right)
            bound = eps * np.abs(expected) + 2 * k * EPS_F32 * sums
            names = f"{np.dtype(dtype).name}_{np.dtype(out_dtype).name}"
            yield KernelCase(
                f"matmul_{names}",
                kernels.matmul,
                (_tiles(m, 64), _tiles(n, 64), 1),
                (a, b, np.zeros((m, n), out_dtype)),
                (64, 64, 32),
                (Output(2, expected, bound),),
            )


def loops() -> Iterator[KernelCase]:
    """A loop that ends by its condition or by a break."""
    for limit in (0, 3, 9):
        data = _normal("loop", 200)
        expected = data.copy()
        for step in range(min(limit, 5)):
            expected += np.float32(step)
        out = Output(0, expected.astype(np.float64))
        name = f"loop_with_break_{limit}"
        yield KernelCase(name, kernels.add_until, (2, 1, 1), (data, limit), (128,), (out,))


def reductions() -> Iterator[KernelCase]:
    """Sum, max, argmax, a two-operand body of our own, prefix sums."""
    source = _rng("reduce").integers(-8, 8, (16, 128)).astype(np.float32)
    wide = source.astype(np.float64)
    outputs = (
        Output(1, wide.sum(axis=1)),
        Output(2, wide.max(axis=1)),
        Output(3, wide.argmax(axis=1).astype(np.float64)),
    )
    arguments = (source, np.zeros(16, np.float32), np.zeros(16, np.float32), np.zeros(16, np.int32))
    yield KernelCase(
        "row_reductions", kernels.row_reductions, (2, 1, 1), arguments, (8, 128), outputs
    )
    whole = source.astype(np.int32)
    places = 127 - np.argmin(whole[:, ::-1], axis=1)
    outputs = (Output(1, whole.min(axis=1)), Output(2, places))
    arguments = (whole, np.zeros(16, np.int32), np.zeros(16, np.int32))
    yield KernelCase("last_minimum", kernels.last_minimum, (2, 1, 1), arguments, (8, 128), outputs)
    arguments = (whole, np.zeros_like(whole))
    out = Output(1, np.cumsum(whole, axis=1))
    yield KernelCase("running_sum", kernels.running_sum, (2, 1, 1), arguments, (8, 128), (out,))


def atomics() -> Iterator[KernelCase]:
    """A histogram: integer atomics with many collisions."""
    values = _rng("histogram").integers(0, 10, 512).astype(np.int32)
    out = Output(1, np.bincount(values, minlength=10))
    arguments = (values, np.zeros(10, np.int32))
    yield KernelCase("histogram", kernels.histogram, (4, 1, 1), arguments, (128,), (out,))


def all_cases() -> list[KernelCase]:
    """Every case; fresh argument arrays each time."""
    families = (
        vector_adds, copies, paddings, transposes, softmaxes, layer_norms, matmuls, loops,
        reductions, atomics,
    )  # fmt: skip
    return [case for family in families for case in family()]

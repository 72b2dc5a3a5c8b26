"""Attention whose heads or key tiles are short rows, on the GPU: swizzles of 64 and 32 bytes."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")
ml_dtypes = pytest.importorskip("ml_dtypes")
pytest.importorskip("cuda.bindings.driver")

from tests.kernels.attention import attention  # noqa: E402
from tests.kernels.attention_reference import reference  # noqa: E402
from tests.kernels.softmax_attention import softmax_attention  # noqa: E402

from .launch import compile_for_this_gpu, launch_cubin  # noqa: E402

pytestmark = pytest.mark.gpu

HEADS = 8


@pytest.mark.parametrize("kind", ["full", "causal", "masked"])
@pytest.mark.parametrize(
    ("rows", "columns", "depth"),
    [(128, 128, 32), (128, 64, 32), (64, 64, 32), (64, 32, 64), (64, 128, 16), (64, 16, 64)],
)
@pytest.mark.parametrize("iterations", [1, 3, 24])
def test_attention_of_short_heads_is_right(kind, rows, columns, depth, iterations):
    cubin = compile_for_this_gpu(softmax_attention(kind, rows, columns, depth, 1))
    length = iterations * columns
    total = rows if kind == "full" else -(-length // rows) * rows
    rng = np.random.default_rng(iterations)
    queries = rng.standard_normal((HEADS, total, depth)).astype(np.float16)
    keys, values = rng.standard_normal((2, HEADS, length, depth)).astype(np.float16)
    arrays = [array.astype(np.float64) for array in (queries, keys, values)]
    wanted = reference(*arrays, 1, kind != "full")
    sizes = [np.int32(HEADS), np.int32(HEADS), np.int32(total), np.int32(length)]
    out = np.zeros_like(queries)
    arguments = [queries, keys, values, out, *sizes, np.float32(0.125)]
    launch_cubin(cubin, "attention", arguments, (total // rows, HEADS, 1))
    np.testing.assert_allclose(out.astype(np.float64), wanted, rtol=1e-2, atol=2e-3)


@pytest.mark.parametrize(
    ("rows", "step", "depth"),
    [(128, 128, 128), (128, 64, 64), (64, 64, 128), (64, 128, 64), (64, 32, 64)],
)
@pytest.mark.parametrize("tiles", [1, 2, 9])
def test_values_of_f8_are_transposed_exactly(rows, step, depth, tiles):
    """Queries pick a key's element each; sums of few products fit the format."""
    rng = np.random.default_rng(rows + step)
    length = tiles * max(step, rows)
    queries = np.zeros((length, depth), ml_dtypes.float8_e4m3fn)
    queries[np.arange(length), rng.integers(0, depth, length)] = 1
    keys = rng.integers(-8, 9, (length, depth)).astype(queries.dtype)
    values = rng.choice([1.0, 2.0], depth) * (rng.random((length, depth)) < 2 / length)
    values = values.astype(queries.dtype)
    out = np.zeros_like(queries)
    cubin = compile_for_this_gpu(attention(1, rows, step, depth, "f8E4M3FN"))
    bits = [array.view(np.uint8) for array in (queries, keys, values, out)]
    launch_cubin(cubin, "attention", [*bits, np.int32(length)], (length // rows, 1, 1))
    wide = [array.astype(np.float64) for array in (queries, keys, values)]
    wanted = (wide[0] @ wide[1].T) @ wide[2]
    np.testing.assert_array_equal(bits[3], wanted.astype(queries.dtype).view(np.uint8))

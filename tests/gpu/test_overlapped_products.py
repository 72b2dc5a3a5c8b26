"""Attention whose products overlap the next iteration's softmax, on the GPU."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.kernels.attention_reference import reference
from tests.kernels.gemm import with_ctas  # noqa: E402
from tests.kernels.softmax_attention import softmax_attention  # noqa: E402

from .launch import compile_for_this_gpu, launch_cubin  # noqa: E402

pytestmark = pytest.mark.gpu

HEADS, DEPTH = 8, 128
F8 = ml_dtypes.float8_e4m3fn


@pytest.mark.parametrize("kind", ["full", "causal", "masked"])
@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        *((128, 128), (128, 64), (64, 128), (64, 64), (64, 256), (128, 256), (256, 256)),
        *((16, 64), (16, 128), (32, 32), (32, 128)),
    ],
)
@pytest.mark.parametrize(("iterations", "share"), [(1, 1), (2, 2), (3, 1), (24, 4)])
def test_attention_is_right_after_any_number_of_iterations(kind, rows, columns, iterations, share):
    cubin = compile_for_this_gpu(softmax_attention(kind, rows, columns, DEPTH, share))
    length = iterations * columns
    total = rows if kind == "full" else -(-length // rows) * rows
    rng = np.random.default_rng(iterations)
    queries = rng.standard_normal((HEADS, total, DEPTH)).astype(np.float16)
    keys, values = rng.standard_normal((2, HEADS // share, length, DEPTH)).astype(np.float16)
    arrays = [array.astype(np.float64) for array in (queries, keys, values)]
    wanted = reference(*arrays, share, kind != "full")
    sizes = [np.int32(HEADS), np.int32(HEADS // share), np.int32(total), np.int32(length)]
    results = []
    for _ in range(3):
        out = np.zeros_like(queries)
        arguments = [queries, keys, values, out, *sizes, np.float32(0.125)]
        launch_cubin(cubin, "attention", arguments, (total // rows, HEADS, 1))
        results.append(out)
    np.testing.assert_allclose(results[0].astype(np.float64), wanted, rtol=1e-2, atol=2e-3)
    assert all(np.array_equal(results[0], other) for other in results[1:])


@pytest.mark.parametrize("kind", ["full", "causal", "masked"])
@pytest.mark.parametrize(
    ("rows", "columns", "depth"),
    [
        *((128, 128, 128), (128, 64, 128), (64, 128, 128), (64, 64, 128), (256, 128, 128)),
        *((128, 128, 64), (128, 64, 64), (64, 128, 64), (128, 128, 256), (128, 32, 128)),
        *((128, 256, 128), (64, 256, 128), (128, 256, 64)),
    ],
)
@pytest.mark.parametrize("iterations", [1, 2, 3, 24])
def test_attention_of_f8_is_right(kind, rows, columns, depth, iterations):
    """Values are transposed by idle warps or by the consumers; sums are added by the threads.

    A power is rounded to 4 bits, by a sixteenth of it at most, or 2^-10 where it is small: a row of
    few keys shows that (with three of them, an element of -0.034 is 0.030 exactly).
    """
    text = softmax_attention(kind, rows, columns, depth, 1, "f8E4M3FN")
    length = iterations * columns
    total = rows if kind == "full" else -(-length // rows) * rows
    rng = np.random.default_rng(iterations)
    arrays = [
        rng.standard_normal((HEADS, count, depth)).astype(F8) for count in (total, length, length)
    ]
    queries, keys, values = (array.astype(np.float64) for array in arrays)
    wanted = reference(queries, keys, values, 1, kind != "full")
    bound = reference(queries, keys, np.abs(values), 1, kind != "full") / 16 + 0.02
    sizes = [np.int32(number) for number in (HEADS, HEADS, total, length)]
    bits = [array.view(np.uint8) for array in arrays]
    for source in (text, with_ctas(text, 1)):
        cubin = compile_for_this_gpu(source)
        results = []
        for _ in range(3):
            out = np.zeros(wanted.shape, np.float16)
            arguments = [*bits, out, *sizes, np.float32(0.125)]
            launch_cubin(cubin, "attention", arguments, (total // rows, HEADS, 1))
            results.append(out)
        np.testing.assert_array_less(np.abs(results[0].astype(np.float64) - wanted), bound)
        assert all(np.array_equal(results[0], other) for other in results[1:])

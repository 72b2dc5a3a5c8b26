"""Whole kernels, as a real client wrote them, against numpy in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tileiras.bytecode.reader import read_module
from tileiras.interpreter import run_entry

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="no corpus beside the checkout")

RNG = np.random.default_rng(11)


def array(values: np.ndarray) -> list[Any]:
    """An array argument: pointer, sizes, strides in elements."""
    strides = [stride // values.itemsize for stride in values.strides]
    return [values, *values.shape, *strides]


def launch(name: str, grid: tuple[int, int, int], *groups: Any) -> None:
    """Runs a corpus kernel; every group is an array or a scalar."""
    module = read_module((CORPUS / f"{name}.tileirbc").read_bytes())
    args: list[Any] = []
    for group in groups:
        args += array(group) if isinstance(group, np.ndarray) else [group]
    run_entry(module, None, args, grid)


@pytest.mark.parametrize("size", [1024, 3000, 5])
@pytest.mark.parametrize("name", ["vec_add_kernel_1d.14.1", "vec_add_kernel_1d_gather.86.1"])
def test_vector_add(name, size):
    a, b = RNG.normal(size=(2, size)).astype(np.float32)
    out = np.zeros_like(a)
    launch(f"VectorAddition.{name}", (-(-size // 1024), 1, 1), a, b, out)
    np.testing.assert_array_equal(out, a + b)


def test_vector_add_2d_gathers_within_bounds():
    a, b = RNG.normal(size=(2, 3, 1500)).astype(np.float32)
    out = np.zeros_like(a)
    launch("VectorAddition.vec_add_kernel_2d_gather.125.1", (3, 2, 1), a, b, out)
    np.testing.assert_array_equal(out, a + b)


@pytest.mark.parametrize("shape", [(64, 64), (100, 70), (3, 130)])
def test_copy_2d_ragged(shape):
    """The kernel was compiled for column-major arrays."""
    source = np.asfortranarray(RNG.normal(size=shape).astype(ml_dtypes.bfloat16))
    out = np.zeros_like(source)
    grid = (-(-shape[0] // 64), -(-shape[1] // 64), 1)
    launch("copy.array_copy_2d.54.6", grid, source, out)
    np.testing.assert_array_equal(out.view(np.uint16), source.view(np.uint16))


def test_copy_3d_ragged():
    source = RNG.integers(-(2**60), 2**60, (70, 3, 65))
    out = np.zeros_like(source)
    launch("copy.array_copy_3d.80.2", (2, 2, 2), source, out)
    np.testing.assert_array_equal(out, source)


@pytest.mark.parametrize("rows", [16, 40])
def test_softmax_rows(rows):
    source = RNG.normal(size=(rows, 128)).astype(np.float16)
    out = np.zeros_like(source)
    launch("softmax.softmax.19.1", (-(-rows // 16), 1, 1), source, out)
    wide = source.astype(np.float64)
    powers = np.exp(wide - wide.max(axis=1, keepdims=True))
    expected = powers / powers.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(out.astype(np.float64), expected, rtol=8 * 2**-11, atol=2**-20)


def test_layer_norm_forward():
    rows, columns, eps = 3, 1500, 1e-5
    x = RNG.normal(2.0, 3.0, size=(rows, columns)).astype(ml_dtypes.bfloat16)
    weight, bias = RNG.normal(size=(2, columns)).astype(ml_dtypes.bfloat16)
    y, mean, rstd = np.zeros_like(x), np.zeros(rows, np.float32), np.zeros(rows, np.float32)
    launch("LayerNorm.layer_norm_fwd.17.1", (rows, 1, 1), x, weight, bias, y, mean, rstd, eps)
    wide = x.astype(np.float64)
    centre = wide.mean(axis=1)
    scale = 1 / np.sqrt(wide.var(axis=1) + eps)
    expected = (wide - centre[:, None]) * scale[:, None] * weight.astype(float) + bias.astype(float)
    np.testing.assert_allclose(mean, centre, rtol=1e-5)
    np.testing.assert_allclose(rstd, scale, rtol=1e-5)
    np.testing.assert_allclose(y.astype(float), expected, rtol=2**-8, atol=1e-5)


@pytest.mark.parametrize("shape", [(64, 64, 64), (50, 70, 90)], ids=str)
def test_matmul_f32_multiplies_in_tf32(shape):
    m, n, k = shape
    a = RNG.normal(size=(m, k)).astype(np.float32)
    b = RNG.normal(size=(k, n)).astype(np.float32)
    out = np.zeros((m, n), np.float32)
    launch("MatMul.matmul_kernel.33.1", (-(-m // 32) * -(-n // 32), 1, 1), a, b, out)
    expected = as_tf32(a).astype(float) @ as_tf32(b).astype(float)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


def as_tf32(values: np.ndarray) -> np.ndarray:
    """Rounds away the low 13 bits of every float32, ties to even, on the bits alone."""
    bits = values.view(np.uint32)
    tie_to_even = 0xFFF + ((bits >> 13) & 1)
    return ((bits + tie_to_even) & 0xFFFFE000).astype(np.uint32).view(np.float32)


def test_mma_f16_accumulates_in_f32():
    a = RNG.normal(size=(2, 16)).astype(np.float16)
    b = RNG.normal(size=(16, 8)).astype(np.float16)
    out = RNG.normal(size=(2, 8)).astype(np.float32)
    expected = a.astype(float) @ b.astype(float) + out
    launch("mma.mma_kernel.21.2", (1, 1, 1), a, b, out)
    np.testing.assert_allclose(out, expected, rtol=2**-24)


def test_attention():
    batch, heads, queries, keys, depth = 2, 8, 16, 32, 32
    q = RNG.normal(size=(batch, heads, queries, depth)).astype(np.float32)
    k, v = RNG.normal(size=(2, batch, heads, keys, depth)).astype(np.float32)
    out, scale = np.zeros_like(q), 0.2
    grid = (queries // 8, batch * heads, 1)
    launch("attention.fmha_kernel.20.5", grid, q, k, v, out, scale, 0)
    scores = np.einsum("bhqd,bhkd->bhqk", q.astype(float), k.astype(float)) * scale
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    expected = np.einsum("bhqk,bhkd->bhqd", weights, v.astype(float))
    np.testing.assert_allclose(out, expected, rtol=2e-5, atol=2e-6)


def test_minimum_of_a_large_tile():
    source = RNG.normal(size=(512, 128)).astype(np.float32)
    out = np.zeros((1, 1), np.float32)
    launch("reduction.kernel.112.4", (1, 1, 1), source, out)
    assert out[0, 0] == source.min()


@pytest.mark.parametrize("name, numpy_answer", [("1", np.nanargmax), ("2", np.nanargmin)])
def test_argmax_and_argmin_skip_nan_and_take_the_first(name, numpy_answer):
    source = RNG.integers(0, 3, (8, 8)).astype(np.float32)
    source[2, 5] = source[2, 6] = np.nan
    out = np.zeros(8, np.int32)
    launch(f"reduction.kernel.452.{name}", (1, 1, 1), source, out)
    np.testing.assert_array_equal(out, numpy_answer(source, axis=1))


@pytest.mark.parametrize("limit, added", [(0, 0), (1, 1), (2, 2), (9, 2)])
def test_loop_with_break(limit, added):
    data = RNG.normal(size=256).astype(np.float32)
    expected = data.copy()
    for _ in range(added):
        expected += np.float32(1)
    launch("control_flow.break_in_while.265.1", (2, 1, 1), data, limit)
    np.testing.assert_array_equal(data, expected)


def test_every_corpus_operation_has_a_rule():
    from tileiras.dialects import cuda_tile as ct
    from tileiras.interpreter.execution import EFFECT_RULES, PURE_RULES

    handled_by_control_flow = {
        ct.ModuleOp, ct.EntryOp, ct.GlobalOp, ct.ForOp, ct.IfOp, ct.LoopOp,
        ct.BreakOp, ct.ContinueOp, ct.ReturnOp, ct.YieldOp,
    }  # fmt: skip
    known = handled_by_control_flow | PURE_RULES.keys() | EFFECT_RULES.keys()
    assert [op.name for op in ct.CudaTile.operations if op not in known] == []

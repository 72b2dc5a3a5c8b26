"""The driver harness itself, and small kernels that go through it without any client."""

from __future__ import annotations

from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

from .launch import LaunchError, compile_for_this_gpu, launch_cubin  # noqa: E402

pytestmark = pytest.mark.gpu

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "vector_add.mlir"


@pytest.fixture(scope="module")
def vector_add() -> bytes:
    """The cubin of the example."""
    return compile_for_this_gpu(EXAMPLE.read_bytes())


@pytest.mark.parametrize("size", [2048, 1000, 1])
def test_vector_add_stays_within_its_arrays(vector_add, size):
    a, b = np.random.default_rng(size).normal(size=(2, size)).astype(np.float32)
    out = np.zeros_like(a)
    launch_cubin(vector_add, "vector_add", [a, b, out, np.int32(size)], (-(-size // 1024), 1, 1))
    np.testing.assert_array_equal(out, a + b)


def test_writing_past_an_array_is_noticed(vector_add):
    a, b, out = np.ones(1024, np.float32), np.ones(1024, np.float32), np.ones(100, np.float32)
    with pytest.raises(LaunchError, match="3696 bytes behind argument 2 were written"):
        launch_cubin(vector_add, "vector_add", [a, b, out, np.int32(1024)], (1, 1, 1))


def test_unknown_entry_is_refused(vector_add):
    with pytest.raises(LaunchError, match="cuModuleGetFunction"):
        launch_cubin(vector_add, "no_such_entry", [], (1, 1, 1))

"""Products too large for the registers on the GPU: exact sums of small integers, ragged edges."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")

from tests.passes.nv_tileas.gemm import gemm  # noqa: E402

from .launch import compile_for_this_gpu, launch_cubin  # noqa: E402

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    "tile", [(256, 256, 64), (128, 512, 64), (512, 128, 64), (512, 512, 32), (256, 256, 32)]
)
def test_product_in_parts(tile: tuple[int, int, int]) -> None:
    rows, columns, depth = 784, 528, 272
    random = np.random.default_rng(3)
    left = random.integers(-2, 3, (rows, depth)).astype(np.float16)
    right = random.integers(-2, 3, (depth, columns)).astype(np.float16)
    result = np.full((rows, columns), 7, np.float16)
    sizes = [np.int32(size) for size in (rows, columns, depth)]
    grid = (-(-rows // tile[0]), -(-columns // tile[1]), 1)
    launch_cubin(compile_for_this_gpu(gemm(*tile)), "gemm", [left, right, result, *sizes], grid)
    wanted = left.astype(np.float32) @ right.astype(np.float32)
    np.testing.assert_array_equal(result.astype(np.float32), wanted)

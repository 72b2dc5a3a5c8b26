"""Products under a condition in the loop over K, on the GPU: exact, whatever the mask."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")

from tests.kernels.conditional_products import BODIES, conditional_product  # noqa: E402
from tileiras.driver import compile_module, with_environment  # noqa: E402
from tileiras.options import CompileOptions  # noqa: E402

from .launch import gpu_name, launch_cubin  # noqa: E402

pytestmark = pytest.mark.gpu

TILES = [(128, 128, 64), (128, 256, 64), (64, 64, 64), (64, 64, 32)]
DENSITIES = (0.0, 0.1, 0.5, 1.0)


@pytest.mark.parametrize("body", ["skipped", "nested"])
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_what_the_mask_leaves_out_is_not_added(tile: tuple[int, int, int], body: str) -> None:
    assert body in BODIES
    options = with_environment(CompileOptions(gpu_name=gpu_name()))
    cubin = compile_module(conditional_product(body, tile).encode(), options).output
    random = np.random.default_rng(1)
    m, n, k = 4 * tile[0] - 8, 3 * tile[1] - 16, 13 * tile[2] - 8
    steps = -(-k // tile[2])
    a = random.integers(-2, 3, (m, k)).astype(np.float16)
    b = random.integers(-2, 3, (k, n)).astype(np.float16)
    for density in DENSITIES:
        mask = 2 * (random.random((4, steps)) < density).astype(np.int32)
        kept = np.repeat(np.repeat(mask != 0, tile[0], 0)[:m], tile[2], 1)[:, :k]
        c = np.full((m, n), 99, np.float32)
        sizes = [np.int32(size) for size in (m, n, k)]
        launch_cubin(cubin, "sparse", [a, b, c, mask, *sizes], (4, 3, 1))
        wanted = (a * kept).astype(np.float32) @ b.astype(np.float32)
        np.testing.assert_array_equal(c, wanted)

"""Results that leave by TMA or are added to memory, on the GPU: exact integers, ragged edges."""

from __future__ import annotations

from dataclasses import replace

import pytest

np = pytest.importorskip("numpy")

from tests.kernels.gemm import aligned, gemm, persistent, with_result  # noqa: E402
from tileiras.driver import compile_module, with_environment  # noqa: E402
from tileiras.options import PREFER_TMA, CompileOptions  # noqa: E402

from .launch import gpu_name, launch_cubin  # noqa: E402

pytestmark = pytest.mark.gpu

TYPES = {"f16": np.float16, "f32": np.float32}


def compiled(source: bytes, prefer: str) -> bytes:
    """The cubin, with TMA for the result wanted ("1") or not ("0")."""
    options = with_environment(CompileOptions(gpu_name=gpu_name()))
    knobs = {**options.knobs, PREFER_TMA: prefer}
    return compile_module(source, replace(options, knobs=knobs)).output


@pytest.mark.parametrize("prefer", ["0", "1"])
@pytest.mark.parametrize("mode", ["", "addf"])
@pytest.mark.parametrize("element", ["f16", "f32"])
@pytest.mark.parametrize(
    "tile",
    [
        *((128, 256, 64), (128, 128, 64), (64, 64, 64), (256, 64, 64)),
        *((128, 32, 64), (128, 16, 32), (64, 32, 16)),
    ],
)
@pytest.mark.parametrize("walks", [False, True])
def test_results_are_stored_or_added(walks, tile, element, mode, prefer):
    rows, columns, depth = 784, 528, 272
    random = np.random.default_rng(3)
    left = random.integers(-2, 3, (rows, depth)).astype(np.float16)
    right = random.integers(-2, 3, (depth, columns)).astype(np.float16)
    result = random.integers(-9, 10, (rows, columns)).astype(TYPES[element])
    wanted = left.astype(np.float32) @ right.astype(np.float32)
    if mode:
        wanted += result.astype(np.float32)
    source = with_result(persistent(*tile) if walks else aligned(gemm(*tile)), element, mode)
    grid = (2 if walks else -(-rows // tile[0]), -(-columns // tile[1]), 1)
    sizes = [np.int32(size) for size in (rows, columns, depth)]
    launch_cubin(compiled(source, prefer), "gemm", [left, right, result, *sizes], grid)
    np.testing.assert_array_equal(result.astype(np.float32), wanted)


@pytest.mark.parametrize("prefer", ["0", "1"])
def test_many_blocks_add_to_one_tile(prefer):
    """Every block along x computes the first row of tiles."""
    tile, blocks = (128, 128, 64), 16
    text = with_result(aligned(gemm(*tile)), "f32", "addf").decode()
    first = text.replace("load_view_tko weak %pa[%bx,", "load_view_tko weak %pa[%c0,")
    source = first.replace("%pc[%bx,", "%pc[%c0,").encode()
    random = np.random.default_rng(4)
    left = random.integers(-2, 3, (128, 256)).astype(np.float16)
    right = random.integers(-2, 3, (256, 128)).astype(np.float16)
    result = np.zeros((128, 128), np.float32)
    sizes = [np.int32(size) for size in (128, 128, 256)]
    grid = (blocks, 1, 1)
    launch_cubin(compiled(source, prefer), "gemm", [left, right, result, *sizes], grid)
    wanted = blocks * (left.astype(np.float32) @ right.astype(np.float32))
    np.testing.assert_array_equal(result, wanted)

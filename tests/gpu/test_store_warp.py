"""Tiles that a warp of its own stores, on the GPU: exact, ragged, faster than it can store."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

from tests.kernels.gemm import persistent, with_result  # noqa: E402
from tests.kernels.product_text import ProductKernel  # noqa: E402
from tests.kernels.random_products import aligned_result, dense_case  # noqa: E402
from tileiras.codegen.target import Feature, get_target  # noqa: E402
from tileiras.driver import compile_module, with_environment  # noqa: E402
from tileiras.options import CompileOptions  # noqa: E402

from .launch import gpu_name, launch_cubin  # noqa: E402

pytestmark = pytest.mark.gpu

RESULT = 2
"""The position of the result among the arguments."""
TILES = [(128, 256, 64), (128, 128, 64), (256, 128, 64), (64, 64, 64), (64, 256, 64), (128, 64, 64)]


def compiled(source: bytes) -> bytes:
    """The cubin; skips where no warp role would store."""
    if not get_target(gpu_name()).has(Feature.WGMMA):
        pytest.skip("warp roles take wgmma")
    options = with_environment(CompileOptions(gpu_name=gpu_name()))
    text = compile_module(source, with_environment(CompileOptions(gpu_name=gpu_name(), emit="ptx")))
    assert b"store_barriers" in text.output
    return compile_module(source, options).output


@pytest.mark.parametrize("result", ["f16", "f32"])
@pytest.mark.parametrize("tile", TILES)
def test_many_tiles_are_exact(tile: tuple[int, int, int], result: str) -> None:
    """With so short a K that consumers are done before the warp role, and with a longer one."""
    kernel = ProductKernel("f16", tile, form="persistent", result=result)
    cubin = compiled(aligned_result(kernel).encode())
    rows, columns, _ = tile
    for depth in (8, 64, 456):
        extents = (9 * rows - 8, 5 * columns - 24, depth)
        for blocks in (1, 2, 7, 44, 132):
            case = dense_case(kernel, extents, blocks)
            arguments = case.arguments()
            launch_cubin(cubin, "product", arguments, case.grid)
            assert not case.difference(arguments[RESULT]), (depth, blocks)


@pytest.mark.parametrize("tile", TILES[:4])
def test_results_are_the_same_again_and_again(tile: tuple[int, int, int]) -> None:
    kernel = ProductKernel("f16", tile, form="persistent", result="f16")
    cubin = compiled(aligned_result(kernel).encode())
    case = dense_case(kernel, (40 * tile[0] - 8, 20 * tile[1] - 24, 64), 132)
    for _ in range(10):
        arguments = case.arguments()
        launch_cubin(cubin, "product", arguments, case.grid)
        assert not case.difference(arguments[RESULT])


@pytest.mark.parametrize("element", ["f16", "f32"])
@pytest.mark.parametrize("tile", TILES)
def test_results_are_added_to_what_is_there(tile: tuple[int, int, int], element: str) -> None:
    rows, columns, depth = 11 * tile[0] - 8, 3 * tile[1] - 16, 64
    random = np.random.default_rng(3)
    left = random.integers(-2, 3, (rows, depth)).astype(np.float16)
    right = random.integers(-2, 3, (depth, columns)).astype(np.float16)
    type = np.float16 if element == "f16" else np.float32
    result = random.integers(-9, 10, (rows, columns)).astype(type)
    wanted = left.astype(np.float32) @ right.astype(np.float32) + result.astype(np.float32)
    cubin = compiled(with_result(persistent(*tile), element, "addf"))
    sizes = [np.int32(size) for size in (rows, columns, depth)]
    launch_cubin(cubin, "gemm", [left, right, result, *sizes], (2, 3, 1))
    np.testing.assert_array_equal(result.astype(np.float32), wanted)


@pytest.mark.parametrize("tile", TILES[:2])
def test_indices_may_come_from_memory(tile: tuple[int, int, int]) -> None:
    """Which tile is computed, and so where it goes, is in a table: reversed."""
    kernel = ProductKernel("f16", tile, form="persistent", result="f16")
    entry = """%entry = offset %locks, %tile : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %place, %known = load_ptr_tko weak %entry token=%t0
      : tile<ptr<i32>> -> tile<i32>, token
    %row = divi %place,"""
    text = aligned_result(kernel).replace("%row = divi %tile,", entry)
    text = text.replace("%column = remi %tile,", "%column = remi %place,")
    cubin = compiled(text.encode())
    extents = (7 * tile[0] - 8, 5 * tile[1] - 24, 136)
    for blocks in (1, 4, 35):
        case = dense_case(kernel, extents, blocks)
        arguments = case.arguments()
        arguments[3] = np.arange(35, dtype=np.int32)[::-1].copy()
        launch_cubin(cubin, "product", arguments, case.grid)
        assert not case.difference(arguments[RESULT]), blocks

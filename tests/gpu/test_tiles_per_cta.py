"""Products whose tiles are computed two at once, on the GPU: results are exact."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

from tests.kernels.product_text import Order, ProductKernel  # noqa: E402
from tests.kernels.random_products import aligned_result, dense_case  # noqa: E402
from tileiras.codegen.target import Feature, get_target  # noqa: E402
from tileiras.driver import compile_module, with_environment  # noqa: E402
from tileiras.options import CompileOptions  # noqa: E402

from .launch import gpu_name, launch_cubin  # noqa: E402

pytestmark = pytest.mark.gpu

RESULT = 2
"""The position of the result among the arguments."""
ORDERS: tuple[Order, ...] = ("rows", "columns", "diagonal")
"""Neighbouring tiles read the same A, the same B, or nothing in common."""


@pytest.mark.parametrize("result", ["f16", "f32"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("tile", [(128, 128, 64), (64, 128, 64), (128, 64, 64)])
def test_two_tiles_products_are_exact(
    tile: tuple[int, int, int], order: Order, result: str
) -> None:
    if not get_target(gpu_name()).has(Feature.WGMMA):
        pytest.skip("two tiles at once take wgmma")
    kernel = ProductKernel("f16", tile, form="persistent", order=order, result=result)
    options = with_environment(CompileOptions(gpu_name=gpu_name()))
    cubin = compile_module(aligned_result(kernel).encode(), options).output
    rows, columns, _ = tile
    # An odd number of tiles, ragged at both edges; then an even one of whole tiles.
    for extents in ((5 * rows - 8, 7 * columns - 24, 456), (6 * rows, 4 * columns, 256)):
        tiles = -(-extents[0] // rows) * -(-extents[1] // columns)
        for blocks in (1, 2, 3, 8, 11, tiles // 2, tiles - 1, tiles, tiles + 5):
            case = dense_case(kernel, extents, blocks)
            arguments = case.arguments()
            launch_cubin(cubin, "product", arguments, case.grid)
            assert not case.difference(arguments[RESULT]), blocks


@pytest.mark.parametrize("order", [*ORDERS, None])
@pytest.mark.parametrize("tile", [(128, 128, 64), (64, 128, 64), (128, 64, 64)])
def test_two_tiles_tile_blocks_are_exact(tile: tuple[int, int, int], order: Order | None) -> None:
    """Grids in which it pays, odd and even, and one in which each block does its own tile."""
    if not get_target(gpu_name()).has(Feature.WGMMA):
        pytest.skip("two tiles at once take wgmma")
    kernel = ProductKernel("f16", tile, form="plain" if order is None else "numbered")
    kernel = replace(kernel, order=order or "rows")
    options = with_environment(CompileOptions(gpu_name=gpu_name()))
    cubin = compile_module(kernel.text().encode(), options).output
    rows, columns, _ = tile
    for counts, depth in (((13, 11), 456), ((12, 14), 72), ((24, 22), 128), ((5, 7), 256)):
        extents = (counts[0] * rows - 8, counts[1] * columns - 24, depth)
        grid = counts if order is None else (counts[0] * counts[1],)
        case = dense_case(kernel, extents, *grid)
        arguments = case.arguments()
        launch_cubin(cubin, "product", arguments, case.grid)
        assert not case.difference(arguments[RESULT]), counts


@pytest.mark.parametrize("along_columns", [False, True])
@pytest.mark.parametrize(
    ("element", "tile"),
    [("f16", (64, 256, 64)), ("f32", (128, 256, 32)), ("f8E4M3FN", (128, 256, 128))],
)
def test_tiles_as_one_are_exact(
    element: str, tile: tuple[int, int, int], along_columns: bool
) -> None:
    """Rounds and tiles alone, odd and even rows of tiles, whichever axis goes along rows."""
    if not get_target(gpu_name()).has(Feature.WGMMA):
        pytest.skip("two tiles as one take wgmma")
    result = "f32" if element == "f32" else "f16"
    kernel = ProductKernel(element, tile, result=result, whole=True)
    text = aligned_result(kernel)
    if along_columns:
        text = text.replace("%x, %y, %z = get_tile_block_id", "%y, %x, %z = get_tile_block_id")
    options = with_environment(CompileOptions(gpu_name=gpu_name()))
    cubin = compile_module(text.encode(), options).output
    rows, columns, _ = tile
    for counts, depth in (((24, 12), 448), ((23, 13), 256), ((3, 5), 512), ((1, 1), 128)):
        extents = (counts[0] * rows - 16, counts[1] * columns - 32, depth)
        case = dense_case(kernel, extents, *(reversed(counts) if along_columns else counts))
        arguments = case.arguments()
        launch_cubin(cubin, "product", arguments, case.grid)
        assert not case.difference(arguments[RESULT]), counts

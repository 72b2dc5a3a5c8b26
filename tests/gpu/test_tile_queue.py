"""Tile blocks that are drawn from a queue, on the GPU: in place, so that each must come once."""

from __future__ import annotations

from functools import cache

import pytest

np = pytest.importorskip("numpy")

from tests.kernels.uneven_products import (  # noqa: E402
    KINDS,
    uneven_arguments,
    uneven_product,
)

from .launch import compile_for_this_gpu, launch_cubin, launch_repeatedly  # noqa: E402

pytestmark = pytest.mark.gpu

TILES = [(128, 256), (256, 128)]
RESULT = 2
LAUNCHES = 1000


@cache
def cubin_of(kind: str, tile: tuple[int, int], in_place: bool) -> bytes:
    """A kernel, compiled once."""
    return compile_for_this_gpu(uneven_product(kind, *tile, in_place=in_place))


@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tiles", [(1, 1), (11, 12), (7, 19), (23, 13), (40, 17)], ids=str)
def test_every_tile_is_computed_once(
    kind: str, tile: tuple[int, int], tiles: tuple[int, int]
) -> None:
    """Fewer tiles than SMs, as many, one more, and several for each."""
    arguments, grid, wanted = uneven_arguments(kind, tile, tiles, 9, in_place=True)
    launch_cubin(cubin_of(kind, tile, True), "uneven", arguments, grid)
    assert np.array_equal(arguments[RESULT].view(np.float16), wanted.ravel())


@pytest.mark.parametrize("kind", KINDS)
def test_many_launches_give_the_same_bits(kind: str) -> None:
    """Each finds the table of queues as it was: empty."""
    arguments, grid, wanted = uneven_arguments(kind, TILES[0], (23, 7), 5)
    cubin = cubin_of(kind, TILES[0], False)
    results = launch_repeatedly(cubin, "uneven", arguments, grid, RESULT, LAUNCHES)
    assert all(np.array_equal(found.view(np.float16), wanted.ravel()) for found in results)

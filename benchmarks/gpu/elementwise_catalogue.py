"""What is measured of `elementwise_kernels.py`: launches of many small tile blocks."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from catalogue import ITEM_BYTES, Array, Entry

TILES = (256, 512, 1024)
COUNT = 1 << 25


def elementwise() -> Iterator[Entry]:
    """Additions of the client's benchmark, and activations in tiles of 256 to 1024 elements."""
    yield _entry("matrix add", "matrix_add", "add", ((1 << 20, 128),) * 2, (8, 128), (131072, 1))
    yield _entry("matrix add", "matrix_add", "add", ((1 << 20, 128),) * 2, (1, 128), (1 << 20, 1))
    yield _entry("add", "vector_add", "add", ((1 << 30,),) * 2, (1024,), (1 << 20,))
    for tile in TILES:
        grid, shapes = (COUNT // tile,), ((COUNT,),)
        yield _entry("silu", "silu", "silu", shapes, (tile,), grid)
        yield _entry("gelu", "gelu", "gelu", shapes, (tile,), grid)
        yield _entry("dropout", "dropout", "dropout", shapes, (tile,), grid, (7,))
        heads = tile // 64
        shapes = ((8192, 32, 128), (8192, 64), (8192, 64))
        yield _entry("rope", "rope", "rope", shapes, (heads, 64), (8192, 32 // heads))
    for tokens, heads in ((2048, 32), (16384, 32), (8192, 8), (4096, 64)):
        shapes = ((tokens, heads, 128), (tokens, 64), (tokens, 64))
        yield _entry("rope", "rope", "rope", shapes, (8, 64), (tokens, heads // 8))
    for count in (1 << 20, 1 << 22, 1 << 27, 3 << 22):
        grid, shapes = (count // 1024,), ((count,),)
        yield _entry("dropout", "dropout", "dropout", shapes, (1024,), grid, (7,))
    for rows, columns in ((4096, 11264), (8192, 8192), (8192, 14336), (16384, 4096)):
        shapes, grid = ((rows, columns),) * 2, (rows, columns // 1024)
        yield _entry("swiglu", "swiglu", "swiglu", shapes, (1024,), grid)
    for columns in (2048, 8192):
        for tile in (512, 1024):
            shapes, grid = ((128, columns),) * 2, (128, columns // tile)
            yield _entry("swiglu", "swiglu", "swiglu", shapes, (tile,), grid)


def _entry(
    name: str,
    kernel: str,
    reference: str,
    shapes: tuple[tuple[int, ...], ...],
    constants: tuple[int, ...],
    grid: tuple[int, ...],
    scalars: tuple[int, ...] = (),
) -> Entry:
    """One kernel on f16 arrays; the result has the shape of the first."""
    sizes = "x".join(str(size) for size in shapes[0])
    tile = "x".join(str(size) for size in constants)
    inputs = tuple(Array("float16", shape) for shape in shapes)
    out = Array("float16", shapes[0], "output")
    moved = sum(map(prod, shapes)) + prod(shapes[0])
    return Entry(
        f"{name} f16 {sizes} tile {tile}",
        "memory",
        kernel,
        (*inputs, out, *scalars),
        constants,
        (*grid, *(1,) * (3 - len(grid))),
        reference,
        0,
        ITEM_BYTES["float16"] * moved,
    )

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
    yield from functions()


def functions() -> Iterator[Entry]:
    """Mathematical functions of f32: vectors, in tiles of 1024 and of 4096 elements."""
    shapes = ((2 * COUNT,),)
    for tile in (1024, 4096):
        grid = (2 * COUNT // tile,)
        for name, kernel in (("sin", "sine"), ("cos", "cosine"), ("tan", "tangent")):
            yield _entry(name, kernel, name, shapes, (tile,), grid, dtype="float32")
    tile, grid = 4096, (2 * COUNT // 4096,)
    yield _entry("exp", "exponential", "exp", shapes, (tile,), grid, dtype="float32")
    fill = {"dtype": "float32", "fill": "around 8"}
    yield _entry("log", "logarithm", "log", shapes, (tile,), grid, **fill)
    yield _entry("pow", "power", "pow", shapes * 2, (tile,), grid, **fill)
    for name, kernel in (("sin", "sine"), ("cos", "cosine")):
        yield _entry(name, kernel, name, shapes, (tile,), grid, dtype="float16")


def _entry(
    name: str,
    kernel: str,
    reference: str,
    shapes: tuple[tuple[int, ...], ...],
    constants: tuple[int, ...],
    grid: tuple[int, ...],
    scalars: tuple[int, ...] = (),
    *,
    dtype: str = "float16",
    fill: str = "normal",
) -> Entry:
    """One kernel on arrays of one type; the result has the shape of the first."""
    sizes = "x".join(str(size) for size in shapes[0])
    tile = "x".join(str(size) for size in constants)
    inputs = tuple(Array(dtype, shape, fill) for shape in shapes)
    out = Array(dtype, shapes[0], "output")
    moved = sum(map(prod, shapes)) + prod(shapes[0])
    return Entry(
        f"{name} {'f16' if dtype == 'float16' else 'f32'} {sizes} tile {tile}",
        "memory",
        kernel,
        (*inputs, out, *scalars),
        constants,
        (*grid, *(1,) * (3 - len(grid))),
        reference,
        0,
        ITEM_BYTES[dtype] * moved,
    )

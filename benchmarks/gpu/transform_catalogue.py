"""What is measured of `transform_kernels.py`."""

from __future__ import annotations

from collections.abc import Iterator

from catalogue import ITEM_BYTES, Array, Entry

POINTS, PACKED = 16, 64
"""Points along each of three dims, and elements of a row of the packed array."""


def transforms() -> Iterator[Entry]:
    """Fourier transforms of 4096 points, by the shape of the client's benchmark and others."""
    yield _fourier("float16", 16384, 2)
    yield _fourier("float32", 16384, 2)
    yield _fourier("float16", 16384, 1)
    yield _fourier("float32", 16384, 1)
    yield _fourier("float16", 1000, 2)


def _fourier(dtype: str, batch: int, rows: int) -> Entry:
    """Transforms of `batch` rows, `rows` a tile block."""
    n, count = POINTS, POINTS**3
    shape = (batch, 2 * count // PACKED, PACKED)
    roots = Array(dtype, (n, n, 2), f"roots {n}")
    name = {"float16": "c32", "float32": "c64"}[dtype]
    return Entry(
        f"Fourier transform {name} {batch}x{count} {rows} rows",
        "memory",
        "fourier",
        (
            Array(dtype, shape),
            Array(dtype, shape, "output"),
            *(roots, roots, roots),
            Array(dtype, (n, n * n, 2), f"roots {count}"),
            Array(dtype, (n, n, 2), f"roots {n * n}"),
        ),
        (rows, n, PACKED),
        (batch // rows, 1, 1),
        "fourier",
        0,
        2 * ITEM_BYTES[dtype] * 2 * count * batch,
    )

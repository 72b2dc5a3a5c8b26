"""What is measured of `axis_kernels.py`."""

from __future__ import annotations

from collections.abc import Iterator

from catalogue import ITEM_BYTES, Array, Entry

SIZE = 8192


def scans_and_extremes() -> Iterator[Entry]:
    """Prefix sums and places of extremes along rows and columns, f32 and f16."""
    for dtype in ("float32", "float16"):
        square = (SIZE, SIZE)
        yield _entry("scan_rows", dtype, square, (1, SIZE))
        yield _entry("scan_rows", dtype, square, (4, SIZE))
        for tile in ((1, 1024), (64, 64), (16, 256)):
            yield _entry("scan_rows_in_tiles", dtype, square, tile)
        for tile in ((64, 64), (32, 64), (64, 128), (128, 32)):
            yield _entry("scan_columns_in_tiles", dtype, square, tile)
        yield _entry("scan_columns_in_tiles", dtype, (2048, 65536), (64, 64))
        yield _entry("argmax_rows", dtype, square, (1, SIZE))
        yield _entry("argmax_rows", dtype, square, (4, SIZE))
        for tile in ((64, 64), (32, 64), (64, 128)):
            yield _entry("argmax_columns_in_tiles", dtype, square, tile)
        yield _entry("argmax_columns_in_tiles", dtype, (2048, 65536), (64, 64))


def _entry(kernel: str, dtype: str, shape: tuple[int, int], tile: tuple[int, int]) -> Entry:
    """One kernel on rows or columns; `in_tiles` loops over tiles of them."""
    is_down, is_scan = "columns" in kernel, kernel.startswith("scan")
    count = shape[1] // tile[1] if is_down else shape[0] // tile[0]
    out = Array(dtype, shape, "output")
    if not is_scan:
        out = Array("int32", (shape[1 if is_down else 0],), "output")
    moved = ITEM_BYTES[dtype] * shape[0] * shape[1]
    short = {"float32": "f32", "float16": "f16"}[dtype]
    return Entry(
        f"{kernel.replace('_', ' ')} {short} {shape[0]}x{shape[1]} {tile[0]}x{tile[1]}",
        "memory",
        kernel,
        (Array(dtype, shape), out),
        tile,
        (count, 1, 1),
        f"{'scan' if is_scan else 'argmax'}_{'columns' if is_down else 'rows'}",
        0,
        moved * (2 if is_scan else 1),
    )

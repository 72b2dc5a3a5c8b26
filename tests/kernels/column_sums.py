"""Kernels that combine the rows of a matrix, in tiles, as text."""

from __future__ import annotations

import numpy as np

COLUMNS = 128
TILE_ROWS = 64

_FLOAT_SUM = ("f32", "0.0", "0.0 : f32", "addf", "")
_FLOAT_MAX = ("f32", "0.5", "0xFF800000 : f32", "maxf", "")
_INTEGER_SUM = ("i32", "0", "0 : i32", "addi", "")
_INTEGER_MIN = ("i32", "17", "2147483647 : i32", "mini", "signed")
FUNCTIONS = {"sum": _FLOAT_SUM, "max": _FLOAT_MAX, "integers": _INTEGER_SUM, "min": _INTEGER_MIN}


def column_kernel(
    function: str = "sum", reduced: bool = True, first: int = 0, step: int = 1
) -> str:
    """Every tile block combines the rows of 128 columns, each `step`-th tile from `first` on.

    Without `reduced` it stores the tile of 64x128 that the loop hands on.
    """
    type, initial, identity, name, mode = FUNCTIONS[function]
    rows = f"tensor_view<?x?x{type}, strides=[?,1]>"
    tiles = f"partition_view<tile=(64x128), padding_value = zero, {rows}>"
    shape = "128" if reduced else "64x128"
    out = f"tensor_view<?x{type}, strides=[1]>" if reduced else rows
    result = f"partition_view<tile=({shape}), {out}>"
    reduction = f"""
    %sum = reduce %sums dim=0 identities=[{identity}] : tile<64x128x{type}> -> tile<128x{type}>
    (%e: tile<{type}>, %acc: tile<{type}>) {{
      %both = {name} %e, %acc {mode} : tile<{type}>
      yield %both : tile<{type}>
    }}"""
    sizes = "shape = [%columns], strides = [1]"
    if not reduced:
        reduction, sizes = "", "shape = [%c64, %columns], strides = [%columns, 1]"
    place = "[%b]" if reduced else "[%c0, %b]"
    indices = "tile<i32>"
    stored = "%sum" if reduced else "%sums"
    return f"""
cuda_tile.module @m {{
  entry @columns(%x: tile<ptr<{type}>>, %out: tile<ptr<{type}>>, %rows: tile<i32>,
                 %columns: tile<i32>) {{
    %c0 = constant <i32: 0> : tile<i32>
    %first = constant <i32: {first}> : tile<i32>
    %step = constant <i32: {step}> : tile<i32>
    %c64 = constant <i32: 64> : tile<i32>
    %start = constant <{type}: {initial}> : tile<64x128x{type}>
    %t = make_token : token
    %b, %by, %bz = get_tile_block_id : tile<i32>
    %a0 = assume div_by<16>, %x : tile<ptr<{type}>>
    %v = make_tensor_view %a0, shape = [%rows, %columns], strides = [%columns, 1]
      : tile<i32> -> {rows}
    %p = make_partition_view %v : {tiles}
    %a1 = assume div_by<16>, %out : tile<ptr<{type}>>
    %o = make_tensor_view %a1, {sizes} : tile<i32> -> {out}
    %op = make_partition_view %o : {result}
    %n = divi %rows, %c64 signed rounding<positive_inf> : tile<i32>
    %sums = for %i in (%first to %n, step %step) : tile<i32>
      iter_values(%s = %start) -> (tile<64x128x{type}>) {{
      %y, %r = load_view_tko weak %p[%i, %b] token = %t : {tiles}, tile<i32>
        -> tile<64x128x{type}>, token
      %more = {name} %s, %y {mode} : tile<64x128x{type}>
      continue %more : tile<64x128x{type}>
    }}{reduction}
    %w = store_view_tko weak {stored}, %op{place} token = %t
      : tile<{shape}x{type}>, {result}, {indices} -> token
    return
  }}
}}
"""


def wide_kernel(function: str = "sum", columns: int = 1024) -> str:
    """The same with so many columns a tile block, more than a CTA has registers for."""
    text = column_kernel(function)
    for old, new in (("64x128", "64x{}"), ("tile<128x", "tile<{}x"), ("(128)", "({})")):
        text = text.replace(old, new.format(columns))
    return text


class ColumnCase:
    """Arguments for a number of rows and of tile blocks, and what must come out."""

    def __init__(self, function: str, rows: int, blocks: int, columns: int = COLUMNS):
        generator = np.random.default_rng(rows)
        dtype = np.float32 if FUNCTIONS[function][0] == "f32" else np.int32
        self.function, self.grid = function, (blocks, 1, 1)
        size = (max(rows, 1), columns * blocks)
        self.x = generator.integers(-99, 99, size).astype(dtype)
        self.out = np.full(columns * blocks, -7, dtype)
        self.rows = rows

    def arguments(self) -> list[int | np.ndarray]:
        """In the order of the kernel's parameters."""
        return [self.x, self.out, self.rows, self.x.shape[1]]

    def check(self, first: int = 0, step: int = 1) -> None:
        """The function of all rows of the tiles that the loop goes through, and the start."""
        padded = np.zeros((-(-self.rows // TILE_ROWS) * TILE_ROWS, self.x.shape[1]), self.x.dtype)
        padded[: self.rows] = self.x[: self.rows]
        tiles = padded.reshape(-1, TILE_ROWS, self.x.shape[1])[first::step]
        start = self.x.dtype.type(float(FUNCTIONS[self.function][1]))
        rows = np.concatenate([np.full((1, self.x.shape[1]), start), *tiles])
        wanted = {"max": np.max, "min": np.min}.get(self.function, np.sum)(rows, axis=0)
        np.testing.assert_array_equal(self.out, wanted.astype(self.x.dtype))

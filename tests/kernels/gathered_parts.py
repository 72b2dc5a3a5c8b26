"""A product whose left operand lies in parts, as on several GPUs: their addresses are looked up.

A table has a row of five numbers for each part: where it starts in `data` (bytes), rows, columns,
elements from row to row, and 1. Tile block (x, y) computes tile (x, y) of the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.kernels.grouped_lists import ARRAY

Sizes = tuple[int, int, int]
"""M of a part (or of a tile), N and K."""

_ARGUMENT = """
  %{x}p = assume div_by<16>, %{low} : tile<ptr<f16>>
  %{x} = make_tensor_view %{x}p, shape = [%{rows}, %{columns}], strides = [%{stride}, 1]
    : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
"""

_KERNEL = """
cuda_tile.module @m {{
entry @gathered(%data: tile<ptr<f16>>, %table: tile<ptr<i64>>, %parts: tile<i32>,
                %tiles: tile<i32>, %b: tile<ptr<f16>>, %c: tile<ptr<f16>>, %m: tile<i32>,
                %n: tile<i32>, %k: tile<i32>) {{
  %token = make_token : token
  %start = ptr_to_int %data : tile<ptr<f16>> -> tile<i64>
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %two = constant <i32: 2> : tile<i32>
  %three = constant <i32: 3> : tile<i32>
  %sum0 = constant <f32: 0.0> : tile<{tm}x{tn}xf32>
  %x, %y, %z = get_tile_block_id : tile<i32>
  %list0 = make_tensor_view %table, shape = [%parts, 5], strides = [5, 1]
    : tile<i32> -> tensor_view<?x5xi64, strides=[5,1]>
  %list = make_partition_view %list0
    : partition_view<tile=(1x8), tensor_view<?x5xi64, strides=[5,1]>>
  %stride = assume div_by<8>, %n : tile<i32>
  %part = divi %{rows}, %tiles signed rounding<negative_inf> : tile<i32>
  %first = muli %part, %tiles : tile<i32>
  %i = subi %{rows}, %first : tile<i32>
{operands}
  %cp0 = assume div_by<16>, %c : tile<ptr<f16>>
  %cv = make_tensor_view %cp0, shape = [%m, %n], strides = [%stride, 1]
    : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
  %ap = make_partition_view %A
    : partition_view<tile=({tm}x{tk}), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
  %bp = make_partition_view %B
    : partition_view<tile=({tk}x{tn}), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
  %cp = make_partition_view %cv
    : partition_view<tile=({tm}x{tn}), tensor_view<?x?xf16, strides=[?,1]>>
  %steps:2 = get_index_space_shape %bp
    : partition_view<tile=({tk}x{tn}), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
      -> tile<i32>
  %sum = for %step in (%zero to %steps#0, step %one) : tile<i32>
      iter_values(%s = %sum0) -> (tile<{tm}x{tn}xf32>) {{
    %ta, %tta = load_view_tko weak %ap[%i, %step] token = %token
      : partition_view<tile=({tm}x{tk}), padding_value = zero,
          tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<{tm}x{tk}xf16>, token
    %tb, %ttb = load_view_tko weak %bp[%step, %{columns}] token = %token
      : partition_view<tile=({tk}x{tn}), padding_value = zero,
          tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<{tk}x{tn}xf16>, token
    %more = mmaf %ta, %tb, %s
      : tile<{tm}x{tk}xf16>, tile<{tk}x{tn}xf16>, tile<{tm}x{tn}xf32>
    continue %more : tile<{tm}x{tn}xf32>
  }}
  %half = ftof %sum rounding<nearest_even> : tile<{tm}x{tn}xf32> -> tile<{tm}x{tn}xf16>
  %done = store_view_tko weak %half, %cp[%{rows}, %{columns}] token = %token
    : tile<{tm}x{tn}xf16>, partition_view<tile=({tm}x{tn}),
        tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> token
  return
}}
}}
"""


def gathered_parts(tile: Sizes, *, rows: str = "x", looked_up: str = "A") -> str:
    """The kernel with tiles of M, N and K.

    `rows`: the axis of the grid along which tiles of rows lie. `looked_up`: operands that lie in
    parts ("A", "AB" or none): B then has the same rows in each part, A alone if it is an argument.
    """
    tm, tn, tk = tile
    arguments = {
        "A": {"low": "data", "rows": "m", "columns": "k", "stride": "k8"},
        "B": {"low": "b", "rows": "k", "columns": "n", "stride": "stride"},
    }
    operands = "  %k8 = assume div_by<8>, %k : tile<i32>\n" + "".join(
        ARRAY.format(x=x, list="list", third="%three", g="%part")
        if x in looked_up
        else _ARGUMENT.format(x=x, **arguments[x])
        for x in "AB"
    )
    columns = "y" if rows == "x" else "x"
    return _KERNEL.format(tm=tm, tn=tn, tk=tk, operands=operands, rows=rows, columns=columns)


@dataclass
class Parts:
    """Parts of A one behind the other in `data`, B, and a C full of what must go away."""

    tile: Sizes
    data: np.ndarray
    table: np.ndarray
    b: np.ndarray
    c: np.ndarray

    def arguments(self) -> list[Any]:
        """What the kernel gets."""
        tiles = -(-int(self.table[0][1]) // self.tile[0])
        sizes = (self.c.shape[0], *reversed(self.b.shape))
        return [self.data, self.table, len(self.table), tiles, self.b, self.c, *sizes]

    def grid(self, rows: str = "x") -> tuple[int, int, int]:
        """Tile blocks for all tiles of the result."""
        m, n = (-(-size // step) for size, step in zip(self.c.shape, self.tile[:2], strict=True))
        return (m, n, 1) if rows == "x" else (n, m, 1)

    def is_right(self) -> bool:
        """Whether C is the product of all parts and B."""
        rows = [
            self.data[start // 2 : start // 2 + m * stride].reshape(m, stride)[:, :k]
            for start, m, k, stride, _ in ([int(n) for n in row] for row in self.table)
        ]
        wanted = np.concatenate(rows).astype(np.float64) @ self.b.astype(np.float64)
        return np.array_equal(self.c.astype(np.float64), wanted)


def make_parts(tile: Sizes, sizes: Sizes, parts: int = 2) -> Parts:
    """Random small integers, whose products are exact; M is that of a part, whole tiles."""
    random = np.random.default_rng(7)
    m, n, k = sizes
    stride = k + 8
    data = random.integers(-2, 3, parts * m * stride).astype(np.float16)
    table = np.array([(2 * part * m * stride, m, k, stride, 1) for part in range(parts)], np.int64)
    b = random.integers(-2, 3, (k, n)).astype(np.float16)
    return Parts(tile, data, table, b, np.full((parts * m, n), -7, np.float16))

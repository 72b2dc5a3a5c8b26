"""Grouped products over lists of arrays: addresses and sizes are loaded in the loop over groups.

A table has a row of five numbers for each array: where it starts in `data` (bytes), rows, columns,
elements from row to row, and 1. CTAs walk over the tiles of all groups in a `loop` that breaks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Sizes = tuple[int, int, int]
"""M, N and K of a group."""

ARRAY = """
    %{x}row, %{x}t = load_view_tko weak %{list}[{g}, %zero]
      : partition_view<tile=(1x8), tensor_view<?x5xi64, strides=[5,1]>>, tile<i32>
        -> tile<1x8xi64>, token
    %{x}e0 = extract %{x}row[%zero, %zero] : tile<1x8xi64> -> tile<1x1xi64>
    %{x}e1 = extract %{x}row[%zero, %one] : tile<1x8xi64> -> tile<1x1xi64>
    %{x}e2 = extract %{x}row[%zero, %two] : tile<1x8xi64> -> tile<1x1xi64>
    %{x}e3 = extract %{x}row[%zero, {third}] : tile<1x8xi64> -> tile<1x1xi64>
    %{x}s0 = reshape %{x}e0 : tile<1x1xi64> -> tile<i64>
    %{x}s1 = reshape %{x}e1 : tile<1x1xi64> -> tile<i64>
    %{x}s2 = reshape %{x}e2 : tile<1x1xi64> -> tile<i64>
    %{x}s3 = reshape %{x}e3 : tile<1x1xi64> -> tile<i64>
    %{x}a = addi %start, %{x}s0 : tile<i64>
    %{x}p0 = int_to_ptr %{x}a : tile<i64> -> tile<ptr<f16>>
    %{x}p = assume div_by<16>, %{x}p0 : tile<ptr<f16>>
    %{x}d0 = trunci %{x}s1 : tile<i64> -> tile<i32>
    %{x}d1 = trunci %{x}s2 : tile<i64> -> tile<i32>
    %{x}d2 = trunci %{x}s3 : tile<i64> -> tile<i32>
    %{x}m = assume bounded<0, ?>, %{x}d0 : tile<i32>
    %{x}n = assume bounded<0, ?>, %{x}d1 : tile<i32>
    %{x}q = assume div_by<8>, %{x}d2 : tile<i32>
    %{x} = make_tensor_view %{x}p, shape = [%{x}m, %{x}n], strides = [%{x}q, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
"""
"""A view of the array that row `g` of a table tells of; `third` is the place of its stride."""

_KERNEL = """
cuda_tile.module @m {{
entry @grouped(%data: tile<ptr<f16>>, %alist: tile<ptr<i64>>, %blist: tile<ptr<i64>>,
               %clist: tile<ptr<i64>>, %groups: tile<i32>, %third: tile<i32>) {{
  %token = make_token : token
  %start = ptr_to_int %data : tile<ptr<f16>> -> tile<i64>
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %two = constant <i32: 2> : tile<i32>
  %three = constant <i32: 3> : tile<i32>
  %sum0 = constant <f32: 0.0> : tile<{tm}x{tn}xf32>
  %first, %y, %z = get_tile_block_id : tile<i32>
  %step, %ny, %nz = get_num_tile_blocks : tile<i32>
{lists}
{before}
  %end:3 = for %g in (%zero to %groups, step %one) : tile<i32>
      iter_values(%before = %zero, %tile = %first, %t0 = %token)
      -> (tile<i32>, tile<i32>, token) {{
{arrays}
    %ap = make_partition_view %A
      : partition_view<tile=({tm}x{tk}), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %bp = make_partition_view %B
      : partition_view<tile=({tk}x{tn}), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %cp = make_partition_view %C
      : partition_view<tile=({tm}x{tn}), tensor_view<?x?xf16, strides=[?,1]>>
    %as:2 = get_index_space_shape %ap
      : partition_view<tile=({tm}x{tk}), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
        -> tile<i32>
    %bs:2 = get_index_space_shape %bp
      : partition_view<tile=({tk}x{tn}), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
        -> tile<i32>
    %tiles = muli %as#0, %bs#1 : tile<i32>
    %after = addi %before, %tiles : tile<i32>
    %done:2 = loop iter_values(%at = %tile, %t1 = %t0) : tile<i32>, token -> tile<i32>, token {{
      %is_here = cmpi less_than %at, %after, signed : tile<i32> -> tile<i1>
      if %is_here {{
      }} else {{
        break %at, %t1 : tile<i32>, token
      }}
      %number = subi %at, %before : tile<i32>
      %i = divi %number, %bs#1 signed rounding<negative_inf> : tile<i32>
      %j = remi %number, %bs#1 signed : tile<i32>
      %sum = for %k in (%zero to %as#1, step %one) : tile<i32>
          iter_values(%s = %sum0) -> (tile<{tm}x{tn}xf32>) {{
        %ta, %tta = load_view_tko weak %ap[%i, %k] token = %token
          : partition_view<tile=({tm}x{tk}), padding_value = zero,
              tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<{tm}x{tk}xf16>, token
        %tb, %ttb = load_view_tko weak %bp[%k, %j] token = %token
          : partition_view<tile=({tk}x{tn}), padding_value = zero,
              tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<{tk}x{tn}xf16>, token
        %more = mmaf %ta, %tb, %s
          : tile<{tm}x{tk}xf16>, tile<{tk}x{tn}xf16>, tile<{tm}x{tn}xf32>
        continue %more : tile<{tm}x{tn}xf32>
      }}
      %half = ftof %sum rounding<nearest_even> : tile<{tm}x{tn}xf32> -> tile<{tm}x{tn}xf16>
      %t2 = store_view_tko weak %half, %cp[%i, %j] token = %t1
        : tile<{tm}x{tn}xf16>, partition_view<tile=({tm}x{tn}),
            tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> token
      %next = addi %at, %step : tile<i32>
      continue %next, %t2 : tile<i32>, token
    }}
    continue %after, %done#0, %done#1 : tile<i32>, tile<i32>, token
  }}
  return
}}
}}
"""

_LIST = """
  %{x}list0 = make_tensor_view %{low}list, shape = [%groups, 5], strides = [5, 1]
    : tile<i32> -> tensor_view<?x5xi64, strides=[5,1]>
  %{x}list = make_partition_view %{x}list0
    : partition_view<tile=(1x8), tensor_view<?x5xi64, strides=[5,1]>>
"""


def grouped_lists(tile: Sizes, *, computed_index: bool = False, common: str = "") -> str:
    """The kernel with tiles of M, N and K; `computed_index`: one slice's place is an argument.

    Of arrays in `common` ("B") all groups have the first: its view is made before the loops.
    """
    tm, tn, tk = tile
    third = "%third" if computed_index else "%three"
    early = "".join(ARRAY.format(x=x, list=f"{x}list", third=third, g="%zero") for x in common)
    own = [x for x in "ABC" if x not in common]
    return _KERNEL.format(
        tm=tm,
        tn=tn,
        tk=tk,
        lists="".join(_LIST.format(x=x, low=x.lower()) for x in "ABC"),
        before=early,
        arrays="".join(ARRAY.format(x=x, list=f"{x}list", third=third, g="%g") for x in own),
    )


@dataclass
class Groups:
    """Matrices of small integers, whose products are exact, one behind the other in `data`."""

    sizes: tuple[Sizes, ...]
    data: np.ndarray
    tables: tuple[np.ndarray, np.ndarray, np.ndarray]
    common: str = ""

    def arguments(self) -> list[Any]:
        """What the kernel gets."""
        return [self.data, *self.tables, len(self.sizes), 3]

    def matrix(self, which: int, group: int) -> np.ndarray:
        """A, B or C of a group (0, 1, 2)."""
        offset, rows, columns, stride, _ = (int(n) for n in self.tables[which][group])
        first = offset // 2
        whole = self.data[first : first + rows * stride].reshape(rows, stride)
        return whole[:, :columns]

    def wrong(self) -> list[int]:
        """The groups whose C is not A times B."""
        found = []
        for group in range(len(self.sizes)):
            a, b = (
                self.matrix(which, 0 if "AB"[which] in self.common else group).astype(np.float64)
                for which in (0, 1)
            )
            if not np.array_equal(a @ b, self.matrix(2, group).astype(np.float64)):
                found.append(group)
        return found


def make_groups(sizes: tuple[Sizes, ...], seed: int = 0, common: str = "") -> Groups:
    """Random groups; rows are padded to 16 bytes, the padding of A and B is not zero.

    Of matrices in `common` (see `grouped_lists`) the first is every group's.
    """
    random = np.random.default_rng(seed)
    tables = tuple(np.zeros((len(sizes), 5), np.int64) for _ in range(3))
    end = 0
    for group, which, rows, columns in _shapes(sizes):
        stride = -(-columns // 8) * 8 + 8
        tables[which][group] = (2 * end, rows, columns, stride, 1)
        end += rows * stride
    data = random.integers(-2, 3, end).astype(np.float16)
    made = Groups(sizes, data, (tables[0], tables[1], tables[2]), common)
    for group in range(len(sizes)):
        made.matrix(2, group)[...] = -7
    return made


def _shapes(sizes: tuple[Sizes, ...]) -> Iterator[tuple[int, int, int, int]]:
    for group, (m, n, k) in enumerate(sizes):
        yield from ((group, 0, m, k), (group, 1, k, n), (group, 2, m, n))

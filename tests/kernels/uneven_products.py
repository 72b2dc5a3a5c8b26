"""Products whose tile blocks take different times, as text: c = a @ b in tiles.

    loaded    the depth of a column of tiles is loaded, in steps of K: lengths[y]
    known     a row of tiles has as many steps as its number says
    guarded   tile blocks return early where their number is below a loaded one

What is not multiplied stays as it was: the kernel adds to c, in place, if it is asked to.
"""

from __future__ import annotations

from typing import Any

import numpy as np

KINDS = ("loaded", "known", "guarded")

_TEXT = """
cuda_tile.module @m {
  entry @uneven(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f16>>, %L: tile<ptr<i32>>,
                %M: tile<i32>, %N: tile<i32>, %K: tile<i32>, %S: tile<i32>) {
    %A1 = assume div_by<16>, %A : tile<ptr<f16>>
    %B1 = assume div_by<16>, %B : tile<ptr<f16>>
    %C1 = assume div_by<16>, %C : tile<ptr<f16>>
    %N1 = assume div_by<16>, %N : tile<i32>
    %K1 = assume div_by<16>, %K : tile<i32>
    %t = make_token : token
    %ta = make_tensor_view %A1, shape = [%M, %K1], strides = [%K1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tb = make_tensor_view %B1, shape = [%K1, %N1], strides = [%N1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tc = make_tensor_view %C1, shape = [%M, %N1], strides = [%N1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tl = make_tensor_view %L, shape = [%S], strides = [1]
      : tile<i32> -> tensor_view<?xi32, strides=[1]>
    %pa = make_partition_view %ta
      : partition_view<tile=(ROWSx64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pb = make_partition_view %tb
      : partition_view<tile=(64xCOLS), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pc = make_partition_view %tc
      : partition_view<tile=(ROWSxCOLS), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pl = make_partition_view %tl
      : partition_view<tile=(1), tensor_view<?xi32, strides=[1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %all:2 = get_index_space_shape %pa
      : partition_view<tile=(ROWSx64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
        -> tile<i32>
    %l1, %ul = load_view_tko weak %pl[%y] token = %t
      : partition_view<tile=(1), tensor_view<?xi32, strides=[1]>>, tile<i32>
      -> tile<1xi32>, token
    %length = reshape %l1 : tile<1xi32> -> tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %zero = constant <f32: 0.0> : tile<ROWSxCOLSxf32>
DECIDES
STARTS
    %sum = for %k in (%c0 to %steps, step %c1) : tile<i32>
        iter_values(%s = %start) -> (tile<ROWSxCOLSxf32>) {
      %a, %ka = load_view_tko weak %pa[%x, %k] token = %t
        : partition_view<tile=(ROWSx64), padding_value = zero,
          tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<ROWSx64xf16>, token
      %b, %kb = load_view_tko weak %pb[%k, %y] token = %t
        : partition_view<tile=(64xCOLS), padding_value = zero,
          tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<64xCOLSxf16>, token
      %d = mmaf %a, %b, %s : tile<ROWSx64xf16>, tile<64xCOLSxf16>, tile<ROWSxCOLSxf32>
      continue %d : tile<ROWSxCOLSxf32>
    }
    %h = ftof %sum : tile<ROWSxCOLSxf32> -> tile<ROWSxCOLSxf16>
    %u = store_view_tko weak %h, %pc[%x, %y] token = TOKEN
      : tile<ROWSxCOLSxf16>, partition_view<tile=(ROWSxCOLS), padding_value = zero,
        tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> token
    return
  }
}
"""
_DECIDES = {
    "loaded": "    %steps = mini %length, %all#1 signed : tile<i32>",
    "known": "    %n = addi %x, %c1 : tile<i32>\n    %steps = mini %n, %all#1 signed : tile<i32>",
    "guarded": """    %absent = cmpi less_than %x, %length, signed : tile<i32> -> tile<i1>
    if %absent {
      return
    }
    %steps = addi %all#1, %c0 : tile<i32>""",
}
_IN_PLACE = """    %old, %uc = load_view_tko weak %pc[%x, %y] token = %t
      : partition_view<tile=(ROWSxCOLS), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>,
        tile<i32> -> tile<ROWSxCOLSxf16>, token
    %start = ftof %old : tile<ROWSxCOLSxf16> -> tile<ROWSxCOLSxf32>"""


def uneven_product(
    kind: str, rows: int = 128, columns: int = 256, *, in_place: bool = False
) -> bytes:
    """The kernel; its grid has a row of tile blocks along x for each row of tiles."""
    start = _IN_PLACE if in_place else "    %start = addf %zero, %zero : tile<ROWSxCOLSxf32>"
    text = _TEXT.replace("DECIDES", _DECIDES[kind]).replace("STARTS", start)
    text = text.replace("TOKEN", "%uc" if in_place else "%t")
    return text.replace("ROWS", str(rows)).replace("COLS", str(columns)).encode()


def uneven_arguments(
    kind: str, tile: tuple[int, int], tiles: tuple[int, int], steps: int, *, in_place: bool = False
) -> tuple[list[Any], tuple[int, int, int], np.ndarray]:
    """Arguments of small integers, the grid, and the result: exact."""
    rng = np.random.default_rng(tiles[0])
    (rows, columns), depth = tile, 64 * steps
    a = rng.integers(-1, 2, (tiles[0] * rows, depth)).astype(np.float16)
    b = rng.integers(-1, 2, (depth, tiles[1] * columns)).astype(np.float16)
    c = rng.integers(-3, 4, (tiles[0] * rows, tiles[1] * columns)).astype(np.float16)
    most = tiles[0] if kind == "guarded" else steps
    lengths = rng.integers(0, most + 1, tiles[1]).astype(np.int32)
    wanted = c.astype(np.float32)
    for x, y in np.ndindex(*tiles):
        if kind == "guarded" and x < lengths[y]:
            continue
        end = 64 * {"loaded": lengths[y], "known": min(x + 1, steps), "guarded": steps}[kind]
        at = np.s_[x * rows : (x + 1) * rows, y * columns : (y + 1) * columns]
        product = a[at[0], :end].astype(np.float32) @ b[:end, at[1]].astype(np.float32)
        wanted[at] = product + (wanted[at] if in_place else 0)
    arrays = [a.view(np.uint16).ravel(), b.view(np.uint16).ravel(), c.view(np.uint16).ravel()]
    sizes = [a.shape[0], b.shape[1], depth, tiles[1]]
    return [*arrays, lengths, *sizes], (*tiles, 1), wanted.astype(np.float16)

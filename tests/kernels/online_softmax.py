"""Kernels that keep a maximum and a sum of each column of a row's tiles, as text."""

from __future__ import annotations

import numpy as np

ROWS = 2
WIDTH = 128


def online_softmax(element: str = "f16", *, floor: str = "", aligned: bool = True) -> str:
    """`out[r] = log(sum(exp(x[r]))), max(x[r])`, a row a tile block, in tiles of 128 columns.

    `floor`: a number that maxima are not below. Rows that are not `aligned` start anywhere.
    """
    tile, wide = f"tile<1x{WIDTH}x{element}>", f"tile<1x{WIDTH}xf32>"
    rows, one = f"tensor_view<?x?x{element}, strides=[?,1]>", "tile<1x1xf32>"
    tiles = f"partition_view<tile=(1x{WIDTH}), padding_value = neg_inf, {rows}>"
    loaded = "%x" if element == "f32" else "%x0"
    widened = "" if element == "f32" else f"%x = ftof %x0 : {tile} -> {wide}"
    limited = f"%n = maxf %n0, %floor : {wide}" if floor else ""
    bound = f"%floor = constant <f32: {floor}> : {wide}" if floor else ""
    facts = "div_by<16>" if aligned else "div_by<2>"
    out = "tensor_view<?x2xf32, strides=[2,1]>"
    cell = f"partition_view<tile=(1x1), {out}>"
    return f"""
cuda_tile.module @m {{
  entry @softmax(%p: tile<ptr<{element}>>, %q: tile<ptr<f32>>, %rows: tile<i32>,
                 %columns0: tile<i32>, %tiles: tile<i32>) {{
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %low = constant <f32: 0xFF800000> : {wide}
    %none = constant <f32: 0.0> : {wide}
    {bound}
    %t = make_token : token
    %columns = assume {facts}, %columns0 : tile<i32>
    %p16 = assume {facts}, %p : tile<ptr<{element}>>
    %r, %b1, %b2 = get_tile_block_id : tile<i32>
    %v = make_tensor_view %p16, shape = [%rows, %columns], strides = [%columns, 1]
      : tile<i32> -> {rows}
    %u = make_partition_view %v : {tiles}
    %o = make_tensor_view %q, shape = [%rows, 2], strides = [2, 1] : tile<i32> -> {out}
    %w = make_partition_view %o : {cell}
    %m, %l = for %j in (%c0 to %tiles, step %c1) : tile<i32>
        iter_values(%mi = %low, %li = %none) -> ({wide}, {wide}) {{
      {loaded}, %a = load_view_tko weak %u[%r, %j] token = %t : {tiles}, tile<i32> -> {tile}, token
      {widened}
      {"%n0" if floor else "%n"} = maxf %mi, %x : {wide}
      {limited}
      %d = subf %mi, %n : {wide}
      %f = exp %d : {wide}
      %e = subf %x, %n : {wide}
      %y = exp %e : {wide}
      %s = fma %li, %f, %y : {wide}
      continue %n, %s : {wide}, {wide}
    }}
    %top = reduce %m dim=1 identities=[0xFF800000 : f32] : {wide} -> tile<1xf32>
      (%g: tile<f32>, %h: tile<f32>) {{
        %i = maxf %g, %h : tile<f32>
        yield %i : tile<f32>
      }}
    %top1 = reshape %top : tile<1xf32> -> {one}
    %high = broadcast %top1 : {one} -> {wide}
    %below = subf %m, %high : {wide}
    %fade = exp %below : {wide}
    %part = mulf %l, %fade : {wide}
    %all = reduce %part dim=1 identities=[0.0 : f32] : {wide} -> tile<1xf32>
      (%g: tile<f32>, %h: tile<f32>) {{
        %i = addf %g, %h : tile<f32>
        yield %i : tile<f32>
      }}
    %all1 = reshape %all : tile<1xf32> -> {one}
    %k0 = store_view_tko weak %all1, %w[%r, %c0] token = %t : {one}, {cell}, tile<i32> -> token
    %k1 = store_view_tko weak %top1, %w[%r, %c1] token = %t : {one}, {cell}, tile<i32> -> token
    return
  }}
}}"""


def expected(x: np.ndarray) -> np.ndarray:
    """Sum of powers below the maximum, and the maximum, of each row, in float64."""
    wide = x.astype(np.float64)
    top = wide.max(axis=1, keepdims=True)
    return np.concatenate([np.exp(wide - top).sum(axis=1, keepdims=True), top], axis=1)

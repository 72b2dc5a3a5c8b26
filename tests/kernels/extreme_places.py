"""Extremes of the columns, or rows, of a matrix and their places, tile after tile, as text."""

from __future__ import annotations

START = {
    ("f16", "maxf"): "0xFC00",
    ("f32", "maxf"): "0xFF800000",
    ("f16", "minf"): "0x7C00",
    ("f32", "minf"): "0x7F800000",
    ("i32", "maxi"): "-2147483648",
    ("i32", "mini"): "2147483647",
}
"""The number that every other one is beyond."""

_NANS = """%an = cmpf not_equal unordered %a, %a : {known}
        %cn = cmpf not_equal unordered %c, %c : {known}
        %is = cmpf equal ordered %a, %a : {known}
        %alone = andi %is, %cn : tile<i1>
        %wins = ori %more, %alone : tile<i1>
        %both = andi %an, %cn : tile<i1>
        %like = ori %same, %both : tile<i1>"""
"""Numbers win over NaNs, and of those the lower place."""
_NO_NANS = """%wins = ori %more, %more : tile<i1>
        %like = ori %same, %same : tile<i1>"""


def extremes_kernel(
    type: str = "f16",
    tile: tuple[int, int] = (64, 64),
    dim: int = 0,
    function: str = "maxf",
    start: str = "",
) -> str:
    """A tile block for so many columns (or rows), as cuTile Python writes it.

    Parameters: the matrix, the extremes, their places, how many rows and columns.
    """
    shape, left = f"{tile[0]}x{tile[1]}", tile[1 - dim]
    view = f"tensor_view<?x?x{type}, strides=[?,1]>"
    tiles = f"partition_view<tile=({shape}), padding_value = zero, {view}>"
    line = f"{tile[0]}x1" if dim == 0 else f"1x{tile[1]}"
    start = start or START[type, function]
    beyond = "greater_than" if function.startswith("max") else "less_than"
    ordered, signed, sign, compare = "ordered ", "", "", "cmpf"
    if type == "i32":
        ordered, signed, sign, compare = "", ", signed", " signed", "cmpi"
    known = f"tile<{type}> -> tile<i1>"
    nans = _NO_NANS if type == "i32" else _NANS.format(known=known)
    return f"""
cuda_tile.module @m {{
  entry @extremes(%x: tile<ptr<{type}>>, %out: tile<ptr<{type}>>, %places: tile<ptr<i32>>,
                  %rows: tile<i32>, %columns: tile<i32>) {{
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %step = constant <i32: {tile[dim]}> : tile<i32>
    %start = constant <{type}: {start}> : tile<{left}x{type}>
    %none = constant <i32: -1> : tile<{left}xi32>
    %t = make_token : token
    %b, %by, %bz = get_tile_block_id : tile<i32>
    %a0 = assume div_by<16>, %x : tile<ptr<{type}>>
    %m = assume div_by<16>, %rows : tile<i32>
    %n = assume div_by<16>, %columns : tile<i32>
    %v = make_tensor_view %a0, shape = [%m, %n], strides = [%n, 1] : tile<i32> -> {view}
    %p = make_partition_view %v : {tiles}
    %count = divi %{"rows" if dim == 0 else "columns"}, %step signed rounding<positive_inf>
      : tile<i32>
    %i0 = iota : tile<{tile[dim]}xi32>
    %i1 = reshape %i0 : tile<{tile[dim]}xi32> -> tile<{line}xi32>
    %i2 = broadcast %i1 : tile<{line}xi32> -> tile<{shape}xi32>
    %found:2 = for %i in (%c0 to %count, step %c1) : tile<i32>
      iter_values(%top = %start, %where = %none) -> (tile<{left}x{type}>, tile<{left}xi32>) {{
      %y, %r = load_view_tko weak %p{"[%i, %b]" if dim == 0 else "[%b, %i]"} token = %t
        : {tiles}, tile<i32> -> tile<{shape}x{type}>, token
      %pair:2 = reduce %y, %i2 dim={dim} identities=[{start} : {type}, 0 : i32]
        : tile<{shape}x{type}>, tile<{shape}xi32> -> tile<{left}x{type}>, tile<{left}xi32>
      (%a: tile<{type}>, %c: tile<{type}>, %k: tile<i32>, %l: tile<i32>) {{
        %more = {compare} {beyond} {ordered}%a, %c{signed} : {known}
        %same = {compare} equal {ordered}%a, %c{signed} : {known}
        {nans}
        %lower = cmpi less_than %k, %l, signed : tile<i32> -> tile<i1>
        %tie = andi %like, %lower : tile<i1>
        %takes = ori %wins, %tie : tile<i1>
        %e = select %takes, %a, %c : tile<i1>, tile<{type}>
        %f = select %takes, %k, %l : tile<i1>, tile<i32>
        yield %e, %f : tile<{type}>, tile<i32>
      }}
      %j = muli %i, %step : tile<i32>
      %j1 = reshape %j : tile<i32> -> tile<1xi32>
      %j2 = broadcast %j1 : tile<1xi32> -> tile<{left}xi32>
      %here = addi %pair#1, %j2 : tile<{left}xi32>
      %high = reduce %y dim={dim} identities=[{start} : {type}]
        : tile<{shape}x{type}> -> tile<{left}x{type}> (%a: tile<{type}>, %c: tile<{type}>) {{
        %e = {function} %a, %c{sign} : tile<{type}>
        yield %e : tile<{type}>
      }}
      %new = {compare} {beyond} {ordered}%high, %top{signed}
        : tile<{left}x{type}> -> tile<{left}xi1>
      %place = select %new, %here, %where : tile<{left}xi1>, tile<{left}xi32>
      %next = {function} %top, %high{sign} : tile<{left}x{type}>
      continue %next, %place : tile<{left}x{type}>, tile<{left}xi32>
    }}
    %o = make_tensor_view %out, shape = [%{"columns" if dim == 0 else "rows"}], strides = [1]
      : tile<i32> -> tensor_view<?x{type}, strides=[1]>
    %op = make_partition_view %o : partition_view<tile=({left}), tensor_view<?x{type}, strides=[1]>>
    %s = store_view_tko weak %found#0, %op[%b] token = %t : tile<{left}x{type}>,
      partition_view<tile=({left}), tensor_view<?x{type}, strides=[1]>>, tile<i32> -> token
    %w = make_tensor_view %places, shape = [%{"columns" if dim == 0 else "rows"}], strides = [1]
      : tile<i32> -> tensor_view<?xi32, strides=[1]>
    %wp = make_partition_view %w : partition_view<tile=({left}), tensor_view<?xi32, strides=[1]>>
    %z = store_view_tko weak %found#1, %wp[%b] token = %t : tile<{left}xi32>,
      partition_view<tile=({left}), tensor_view<?xi32, strides=[1]>>, tile<i32> -> token
    return
  }}
}}
"""

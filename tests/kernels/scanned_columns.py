"""Prefix sums down the columns, or along the rows, of a matrix, tile after tile, as text."""

from __future__ import annotations


def scan_kernel(
    type: str = "f16", tile: tuple[int, int] = (64, 64), dim: int = 0, scans: bool = True
) -> str:
    """A tile block for so many columns (or rows); without `scans` it writes sums over tiles.

    Parameters: the matrix, the result, how many rows and columns.
    """
    rows, columns = tile
    shape = f"{rows}x{columns}"
    left = columns if dim == 0 else rows
    view = f"tensor_view<?x?x{type}, strides=[?,1]>"
    tiles = f"partition_view<tile=({shape}), padding_value = zero, {view}>"
    line = f"1x{left}" if dim == 0 else f"{left}x1"
    place = "[%i, %b]" if dim == 0 else "[%b, %i]"
    body = f"""(%e: tile<{type}>, %acc: tile<{type}>) {{
        %both = addf %e, %acc : tile<{type}>
        yield %both : tile<{type}>
      }}"""
    scanned = f"""%s = scan %y dim={dim} reverse=false identities=[0.0 : {type}]
        : tile<{shape}x{type}> -> tile<{shape}x{type}> {body}
      %result = addf %s, %w : tile<{shape}x{type}>"""
    return f"""
cuda_tile.module @m {{
  entry @scan(%x: tile<ptr<{type}>>, %out: tile<ptr<{type}>>, %rows: tile<i32>,
              %columns: tile<i32>) {{
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %step = constant <i32: {tile[dim]}> : tile<i32>
    %start = constant <{type}: 0.0> : tile<{left}x{type}>
    %t = make_token : token
    %b, %by, %bz = get_tile_block_id : tile<i32>
    %a0 = assume div_by<16>, %x : tile<ptr<{type}>>
    %m = assume div_by<16>, %rows : tile<i32>
    %n = assume div_by<16>, %columns : tile<i32>
    %v = make_tensor_view %a0, shape = [%m, %n], strides = [%n, 1] : tile<i32> -> {view}
    %p = make_partition_view %v : {tiles}
    %a1 = assume div_by<16>, %out : tile<ptr<{type}>>
    %o = make_tensor_view %a1, shape = [%m, %n], strides = [%n, 1] : tile<i32> -> {view}
    %op = make_partition_view %o : {tiles}
    %count = divi %{"rows" if dim == 0 else "columns"}, %step signed rounding<positive_inf>
      : tile<i32>
    %sums = for %i in (%c0 to %count, step %c1) : tile<i32>
      iter_values(%before = %start) -> (tile<{left}x{type}>) {{
      %y, %r = load_view_tko weak %p{place} token = %t : {tiles}, tile<i32>
        -> tile<{shape}x{type}>, token
      %u = reshape %before : tile<{left}x{type}> -> tile<{line}x{type}>
      %w = broadcast %u : tile<{line}x{type}> -> tile<{shape}x{type}>
      {scanned if scans else f"%result = addf %y, %w : tile<{shape}x{type}>"}
      %z = store_view_tko weak %result, %op{place} token = %t
        : tile<{shape}x{type}>, {tiles}, tile<i32> -> token
      %sum = reduce %y dim={dim} identities=[0.0 : {type}]
        : tile<{shape}x{type}> -> tile<{left}x{type}> {body}
      %after = addf %before, %sum : tile<{left}x{type}>
      continue %after : tile<{left}x{type}>
    }}
    return
  }}
}}
"""

"""Attention without softmax as text: `O = (Q K^T) V`, Q kept over the loop, P in registers."""

from __future__ import annotations

_VIEW = "tensor_view<?xDEPTHxf16, strides=[DEPTH,1]>"

_TEMPLATE = """
cuda_tile.module @m {
  entry @attention(%Q: tile<ptr<f16>>, %K: tile<ptr<f16>>, %V: tile<ptr<f16>>, %O: tile<ptr<f16>>,
                   %length: tile<i32>) {
    %q1 = assume div_by<16>, %Q : tile<ptr<f16>>
    %k1 = assume div_by<16>, %K : tile<ptr<f16>>
    %v1 = assume div_by<16>, %V : tile<ptr<f16>>
    %t0 = make_token : token
    %tq = make_tensor_view %q1, shape = [%length, DEPTH], strides = [DEPTH, 1] : tile<i32> -> VIEW
    %tk = make_tensor_view %k1, shape = [%length, DEPTH], strides = [DEPTH, 1] : tile<i32> -> VIEW
    %tv = make_tensor_view %v1, shape = [%length, DEPTH], strides = [DEPTH, 1] : tile<i32> -> VIEW
    %to = make_tensor_view %O, shape = [%length, DEPTH], strides = [DEPTH, 1] : tile<i32> -> VIEW
    %pq = make_partition_view %tq : partition_view<tile=(ROWSxDEPTH), padding_value = zero, VIEW>
    %pk = make_partition_view %tk : partition_view<tile=(KEYSxDEPTH), padding_value = zero, VIEW>
    %pv = make_partition_view %tv : partition_view<tile=(KEYSxDEPTH), padding_value = zero, VIEW>
    %po = make_partition_view %to : partition_view<tile=(ROWSxDEPTH), VIEW>
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %is:2 = get_index_space_shape %pk
      : partition_view<tile=(KEYSxDEPTH), padding_value = zero, VIEW> -> tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %z = constant <f32: 0.0> : tile<ROWSxDEPTHxf32>SCORES
    %q, %uq = load_view_tko weak %pq[%bx, %c0] token = %t0
      : partition_view<tile=(ROWSxDEPTH), padding_value = zero, VIEW>, tile<i32>
      -> tile<ROWSxDEPTHxf16>, token
    LOOPS
    %h = ftof %acc : tile<ROWSxDEPTHxf32> -> tile<ROWSxDEPTHxf16>
    %s = store_view_tko weak %h, %po[%bx, %c0] token = %t0
      : tile<ROWSxDEPTHxf16>, partition_view<tile=(ROWSxDEPTH), VIEW>, tile<i32> -> token
    return
  }
}
"""
LOOP = """%acc_N = for %j_N in (%c0 to %is#0, step %c1) : tile<i32>
        iter_values(%a_N = INIT) -> (tile<ROWSxDEPTHxf32>) {
      %k_N, %uk_N = load_view_tko weak %pk[%j_N, %c0] token = %t0
        : partition_view<tile=(KEYSxDEPTH), padding_value = zero, VIEW>, tile<i32>
        -> tile<KEYSxDEPTHxf16>, token
      %kt_N = permute %k_N [1, 0] : tile<KEYSxDEPTHxf16> -> tile<DEPTHxKEYSxf16>
      %p_N = mmaf %q, %kt_N, ZERO : tile<ROWSxDEPTHxf16>, tile<DEPTHxKEYSxf16>, tile<ROWSxKEYSxf32>
      %r_N = ftof %p_N : tile<ROWSxKEYSxf32> -> tile<ROWSxKEYSxf16>
      %v_N, %uv_N = load_view_tko weak %pv[%j_N, %c0] token = %t0
        : partition_view<tile=(KEYSxDEPTH), padding_value = zero, VIEW>, tile<i32>
        -> tile<KEYSxDEPTHxf16>, token
      %d_N = mmaf %r_N, %v_N, %a_N : tile<ROWSxKEYSxf16>, tile<KEYSxDEPTHxf16>, tile<ROWSxDEPTHxf32>
      continue %d_N : tile<ROWSxDEPTHxf32>
    }
    """


GRADIENT = """%acc_N = for %j_N in (%c0 to %is#0, step %c1) : tile<i32>
        iter_values(%a_N = INIT) -> (tile<ROWSxDEPTHxf32>) {
      %k_N, %uk_N = load_view_tko weak %pk[%j_N, %c0] token = %t0
        : partition_view<tile=(KEYSxDEPTH), padding_value = zero, VIEW>, tile<i32>
        -> tile<KEYSxDEPTHxf16>, token
      %w_N, %uw_N = load_view_tko weak %pw[%j_N] token = %t0
        : partition_view<tile=(KEYS), padding_value = zero, ROW>, tile<i32>
        -> tile<KEYSxf16>, token
      %kt_N = permute %k_N [1, 0] : tile<KEYSxDEPTHxf16> -> tile<DEPTHxKEYSxf16>
      %p_N = mmaf %q, %kt_N, ZERO : tile<ROWSxDEPTHxf16>, tile<DEPTHxKEYSxf16>, tile<ROWSxKEYSxf32>
      %w1_N = reshape %w_N : tile<KEYSxf16> -> tile<1xKEYSxf16>
      %w2_N = broadcast %w1_N : tile<1xKEYSxf16> -> tile<ROWSxKEYSxf16>
      %w3_N = ftof %w2_N : tile<ROWSxKEYSxf16> -> tile<ROWSxKEYSxf32>
      %e_N = mulf %p_N, %w3_N : tile<ROWSxKEYSxf32>
      %h_N = exp2 %e_N : tile<ROWSxKEYSxf32>
      %v_N, %uv_N = load_view_tko weak %pv[%j_N, %c0] token = %t0
        : partition_view<tile=(KEYSxDEPTH), padding_value = zero, VIEW>, tile<i32>
        -> tile<KEYSxDEPTHxf16>, token
      %vt_N = permute %v_N [1, 0] : tile<KEYSxDEPTHxf16> -> tile<DEPTHxKEYSxf16>
      %g_N = mmaf %q, %vt_N, ZERO : tile<ROWSxDEPTHxf16>, tile<DEPTHxKEYSxf16>, tile<ROWSxKEYSxf32>
      %x_N = mulf %h_N, %g_N : tile<ROWSxKEYSxf32>
      %r_N = ftof %x_N : tile<ROWSxKEYSxf32> -> tile<ROWSxKEYSxf16>
      %d_N = mmaf %r_N, %k_N, %a_N : tile<ROWSxKEYSxf16>, tile<KEYSxDEPTHxf16>, tile<ROWSxDEPTHxf32>
      continue %d_N : tile<ROWSxDEPTHxf32>
    }
    """
"""As in gradients of attention: two products of an iteration read the same keys, and a row of
weights is loaded that belongs to their columns.
"""


def _sized(text: str, rows: int, keys: int, depth: int) -> str:
    """The text for tiles of so many queries and keys, and heads of `depth`."""
    scores = "\n    %zs = constant <f32: 0.0> : tile<ROWSxKEYSxf32>" if keys != depth else ""
    text = text.replace("SCORES", scores).replace("ZERO", "%zs" if scores else "%z")
    for name, extent in (("ROWS", rows), ("KEYS", keys), ("DEPTH", depth)):
        text = text.replace(name, str(extent))
    return text


ATTENTION = _sized(_TEMPLATE, 128, 64, 64)
"""The kernel for 128 queries, 64 keys and heads of 64, without its `LOOPS`."""


def attention(
    loops: int = 1, rows: int = 128, keys: int = 64, depth: int = 64, element: str = "f16"
) -> bytes:
    """The text; several loops over the same keys follow each other, as a causal kernel has them."""
    text, total = "", "%z"
    for number in range(loops):
        text += LOOP.replace("INIT", total).replace("_N", f"_{number}")
        total = f"%acc_{number}"
    whole = _TEMPLATE.replace("LOOPS", text).replace("%acc :", f"{total} :").replace("VIEW", _VIEW)
    return _sized(whole, rows, keys, depth).replace("f16", element).encode()


def attention_gradient(
    rows: int = 128, keys: int = 64, depth: int = 64, *, wide_weights: bool = False
) -> bytes:
    """The text with `GRADIENT` as its loop; its weights are the first of the values.

    `wide_weights`: they are in f32, and an argument in front of the length.
    """
    row = "tensor_view<?xf16, strides=[1]>"
    made = f"""%tw = make_tensor_view %v1, shape = [%length], strides = [1] : tile<i32> -> {row}
    %pw = make_partition_view %tw : partition_view<tile=(KEYS), padding_value = zero, {row}>
    """
    loop = GRADIENT.replace("INIT", "%z").replace("_N", "_0").replace("ROW>", f"{row}>")
    text = _TEMPLATE.replace("LOOPS", made + loop)
    text = text.replace("%acc :", "%acc_0 :").replace("VIEW", _VIEW)
    if wide_weights:
        text = text.replace("%length: tile<i32>)", "%W: tile<ptr<f32>>, %length: tile<i32>)")
        text = text.replace(
            "%t0 = make_token",
            "%w1 = assume div_by<16>, %W : tile<ptr<f32>>\n    %t0 = make_token",
            1,
        )
        text = text.replace(
            "make_tensor_view %v1, shape = [%length], ", "make_tensor_view %w1, shape = [%length], "
        )
        text = text.replace("tensor_view<?xf16, strides=[1]>", "tensor_view<?xf32, strides=[1]>")
        text = text.replace("tile<KEYSxf16>", "tile<KEYSxf32>").replace(
            "tile<1xKEYSxf16>", "tile<1xKEYSxf32>"
        )
        text = text.replace(
            "%w2_0 = broadcast %w1_0 : tile<1xKEYSxf32> -> tile<ROWSxKEYSxf16>",
            "%w3_0 = broadcast %w1_0 : tile<1xKEYSxf32> -> tile<ROWSxKEYSxf32>",
        )
        narrow = "%w3_0 = ftof %w2_0 : tile<ROWSxKEYSxf16> -> tile<ROWSxKEYSxf32>\n"
        text = text.replace(narrow, "")
    return _sized(text, rows, keys, depth).encode()


def two_gradients(rows: int = 128, keys: int = 64, depth: int = 128) -> bytes:
    """The sum of two gradients, as of keys and of values: the powers are a left operand, too."""
    text = attention_gradient(rows, keys, depth).decode()
    sums, scores = f"tile<{rows}x{depth}xf32>", f"tile<{rows}x{keys}"
    values = f"tile<{keys}x{depth}xf16>"
    replaced = {
        "%acc_0 = for": "%acc_0:2 = for",
        f"(%a_0 = %z) -> ({sums})": f"(%a_0 = %z, %b_0 = %z) -> ({sums}, {sums})",
        "%vt_0 = permute": f"%s_0 = ftof %h_0 : {scores}xf32> -> {scores}xf16>\n"
        f"      %u_0 = mmaf %s_0, %v_0, %b_0 : {scores}xf16>, {values}, {sums}\n"
        "      %vt_0 = permute",
        f"continue %d_0 : {sums}": f"continue %d_0, %u_0 : {sums}, {sums}",
        f"%h = ftof %acc_0 : {sums}": f"%both = addf %acc_0#0, %acc_0#1 : {sums}\n"
        f"    %h = ftof %both : {sums}",
    }
    for old, new in replaced.items():
        assert old in text, old
        text = text.replace(old, new)
    return text.encode()


def persistent_attention(loops: int, rows: int, keys: int, depth: int) -> bytes:
    """Each block makes several tiles, whose sum each iteration halves before it adds to it."""
    text, tile = attention(loops, rows, keys, depth).decode(), f"tile<{rows}x{depth}xf32>"
    for n in range(loops):
        halved = f"%b_{n} = mulf %a_{n}, %half : {tile}\n      %v_{n}, %uv_{n}"
        text = text.replace(f"%v_{n}, %uv_{n}", halved)
        text = text.replace(f"%r_{n}, %v_{n}, %a_{n} :", f"%r_{n}, %v_{n}, %b_{n} :")
    start, end = text.index("%q, %uq"), text.index("    return\n")
    body = text[start:end].replace("%pq[%bx", "%pq[%tile").replace("%po[%bx", "%po[%tile")
    outer = f"""%half = constant <f32: 0.5> : {tile}
    %gx, %gy, %gz = get_num_tile_blocks : tile<i32>
    %ro = constant <i32: {rows}> : tile<i32>
    %tiles = divi %length, %ro signed rounding<positive_inf> : tile<i32>
    for %tile in (%bx to %tiles, step %gx) : tile<i32> {{
    {body}continue
    }}
"""
    return (text[:start] + outer + text[end:]).encode()

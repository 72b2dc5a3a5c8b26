"""Attention without softmax as text: `O = (Q K^T) V`, Q kept over the loop, P in registers."""

from __future__ import annotations

_VIEW = "tensor_view<?x64xf16, strides=[64,1]>"

ATTENTION = """
cuda_tile.module @m {
  entry @attention(%Q: tile<ptr<f16>>, %K: tile<ptr<f16>>, %V: tile<ptr<f16>>, %O: tile<ptr<f16>>,
                   %length: tile<i32>) {
    %q1 = assume div_by<16>, %Q : tile<ptr<f16>>
    %k1 = assume div_by<16>, %K : tile<ptr<f16>>
    %v1 = assume div_by<16>, %V : tile<ptr<f16>>
    %t0 = make_token : token
    %tq = make_tensor_view %q1, shape = [%length, 64], strides = [64, 1] : tile<i32> -> VIEW
    %tk = make_tensor_view %k1, shape = [%length, 64], strides = [64, 1] : tile<i32> -> VIEW
    %tv = make_tensor_view %v1, shape = [%length, 64], strides = [64, 1] : tile<i32> -> VIEW
    %to = make_tensor_view %O, shape = [%length, 64], strides = [64, 1] : tile<i32> -> VIEW
    %pq = make_partition_view %tq : partition_view<tile=(128x64), padding_value = zero, VIEW>
    %pk = make_partition_view %tk : partition_view<tile=(64x64), padding_value = zero, VIEW>
    %pv = make_partition_view %tv : partition_view<tile=(64x64), padding_value = zero, VIEW>
    %po = make_partition_view %to : partition_view<tile=(128x64), VIEW>
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %is:2 = get_index_space_shape %pk : partition_view<tile=(64x64), padding_value = zero, VIEW>
      -> tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %z = constant <f32: 0.0> : tile<128x64xf32>
    %q, %uq = load_view_tko weak %pq[%bx, %c0] token = %t0
      : partition_view<tile=(128x64), padding_value = zero, VIEW>, tile<i32>
      -> tile<128x64xf16>, token
    LOOPS
    %h = ftof %acc : tile<128x64xf32> -> tile<128x64xf16>
    %s = store_view_tko weak %h, %po[%bx, %c0] token = %t0
      : tile<128x64xf16>, partition_view<tile=(128x64), VIEW>, tile<i32> -> token
    return
  }
}
"""
LOOP = """%acc_N = for %j_N in (%c0 to %is#0, step %c1) : tile<i32>
        iter_values(%a_N = INIT) -> (tile<128x64xf32>) {
      %k_N, %uk_N = load_view_tko weak %pk[%j_N, %c0] token = %t0
        : partition_view<tile=(64x64), padding_value = zero, VIEW>, tile<i32>
        -> tile<64x64xf16>, token
      %kt_N = permute %k_N [1, 0] : tile<64x64xf16> -> tile<64x64xf16>
      %p_N = mmaf %q, %kt_N, %z : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      %r_N = ftof %p_N : tile<128x64xf32> -> tile<128x64xf16>
      %v_N, %uv_N = load_view_tko weak %pv[%j_N, %c0] token = %t0
        : partition_view<tile=(64x64), padding_value = zero, VIEW>, tile<i32>
        -> tile<64x64xf16>, token
      %d_N = mmaf %r_N, %v_N, %a_N : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      continue %d_N : tile<128x64xf32>
    }
    """


def attention(loops: int = 1) -> bytes:
    """The text; several loops over the same keys follow each other, as a causal kernel has them."""
    text, total = "", "%z"
    for number in range(loops):
        text += LOOP.replace("INIT", total).replace("_N", f"_{number}")
        total = f"%acc_{number}"
    whole = ATTENTION.replace("LOOPS", text).replace("%acc :", f"{total} :")
    return whole.replace("VIEW", _VIEW).encode()

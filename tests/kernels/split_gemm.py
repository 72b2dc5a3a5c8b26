"""A product whose depth tile blocks share: under a lock they add to one tile of the result."""

from __future__ import annotations

from tests.kernels.lock_kernels import LOOP

OPERAND = "tensor_view<?x?xf16, strides=[?,1]>"
RESULT = "tensor_view<?x?xf32, strides=[?,1]>"

SPLIT_GEMM = f"""
cuda_tile.module @m {{
  entry @split(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f32>>,
               %locks: tile<ptr<i32>>, %M: tile<i32>, %N: tile<i32>, %K: tile<i32>) {{
    %A1 = assume div_by<16>, %A : tile<ptr<f16>>
    %B1 = assume div_by<16>, %B : tile<ptr<f16>>
    %C1 = assume div_by<16>, %C : tile<ptr<f32>>
    %N1 = assume div_by<16>, %N : tile<i32>
    %K1 = assume div_by<16>, %K : tile<i32>
    %t0 = make_token : token
    %ta = make_tensor_view %A1, shape = [%M, %K1], strides = [%K1, 1] : tile<i32> -> {OPERAND}
    %tb = make_tensor_view %B1, shape = [%K1, %N1], strides = [%N1, 1] : tile<i32> -> {OPERAND}
    %tc = make_tensor_view %C1, shape = [%M, %N1], strides = [%N1, 1] : tile<i32> -> {RESULT}
    %pa = make_partition_view %ta : VIEWA
    %pb = make_partition_view %tb : VIEWB
    %pc = make_partition_view %tc : VIEWC
    %column, %part, %bz = get_tile_block_id : tile<i32>
    %is:2 = get_index_space_shape %pa : VIEWA -> tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %c2 = constant <i32: 2> : tile<i32>
    %lock = offset %locks, %column : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    BEFORE
    %z = constant <f32: 0.0> : tile<64x64xf32>
    %acc = for %k in (%part to %is#1, step %c2) : tile<i32>
        iter_values(%a0 = %z) -> (tile<64x64xf32>) {{
      %a, %ka = load_view_tko weak %pa[%c0, %k] token = %start
        : VIEWA, tile<i32> -> tile<64x64xf16>, token
      %b, %kb = load_view_tko weak %pb[%k, %column] token = %start
        : VIEWB, tile<i32> -> tile<64x64xf16>, token
      %d = mmaf %a, %b, %a0 : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      continue %d : tile<64x64xf32>
    }}{LOOP}
    %sum, %read = load_view_tko weak %pc[%c0, %column] token = %held
      : VIEWC, tile<i32> -> tile<64x64xf32>, token
    %more = addf %sum, %acc : tile<64x64xf32>
    %written = store_view_tko weak %more, %pc[%c0, %column] token = %read
      : tile<64x64xf32>, VIEWC, tile<i32> -> token
    %was, %free = atomic_rmw_tko release device %lock, xchg, %c0 token=%written
      : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    return
  }}
}}
"""
BEFORE = {
    "nothing": "%start = join_tokens %t0, %t0 : token",
    "acquire": "%flag, %start = load_ptr_tko acquire device %lock token=%t0 "
    ": tile<ptr<i32>> -> tile<i32>, token",
    "grid": "%start = gdc_wait_tko token = %t0 -> token",
}
"""What the loads of the operands come after in token order."""


def split_gemm(before: str = "nothing") -> bytes:
    """The product of 64x64x64 tiles, every second step of the depth in each tile block."""
    view = "partition_view<tile=(64x64), padding_value = zero, %s>"
    text = SPLIT_GEMM.replace("BEFORE", BEFORE[before])
    text = text.replace("VIEWA", view % OPERAND).replace("VIEWB", view % OPERAND)
    return text.replace("VIEWC", f"partition_view<tile=(64x64), {RESULT}>").encode()

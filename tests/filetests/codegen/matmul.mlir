// RUN: --emit=ptx --gpu-name=sm_80
// RUN: --emit=ptx --gpu-name=sm_90
// RUN: --emit=ptx --gpu-name=sm_120
// EXACT
// One tile block's product of f16 tiles with f32 sums, over a loop.
cuda_tile.module @m {
  entry @matmul(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>) {
    %t = make_token : token
    %a16 = assume div_by<16>, %a : tile<ptr<f16>>
    %b16 = assume div_by<16>, %b : tile<ptr<f16>>
    %c16 = assume div_by<16>, %c : tile<ptr<f32>>
    %av = make_tensor_view %a16, shape = [512, 256], strides = [256, 1]
        : tensor_view<512x256xf16, strides=[256,1]>
    %bv = make_tensor_view %b16, shape = [256, 512], strides = [512, 1]
        : tensor_view<256x512xf16, strides=[512,1]>
    %cv = make_tensor_view %c16, shape = [512, 512], strides = [512, 1]
        : tensor_view<512x512xf32, strides=[512,1]>
    %ap = make_partition_view %av
        : partition_view<tile=(32x16), tensor_view<512x256xf16, strides=[256,1]>>
    %bp = make_partition_view %bv
        : partition_view<tile=(16x32), tensor_view<256x512xf16, strides=[512,1]>>
    %cp = make_partition_view %cv
        : partition_view<tile=(32x32), tensor_view<512x512xf32, strides=[512,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %zero = constant <f32: 0.0> : tile<32x32xf32>
    %first = constant <i32: 0> : tile<i32>
    %steps = constant <i32: 16> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %sum = for %i in (%first to %steps, step %one) : tile<i32>
        iter_values(%acc = %zero) -> (tile<32x32xf32>) {
      %at, %ta = load_view_tko weak %ap[%x, %i] token = %t
          : partition_view<tile=(32x16), tensor_view<512x256xf16, strides=[256,1]>>,
            tile<i32> -> tile<32x16xf16>, token
      %bt, %tb = load_view_tko weak %bp[%i, %y] token = %t
          : partition_view<tile=(16x32), tensor_view<256x512xf16, strides=[512,1]>>,
            tile<i32> -> tile<16x32xf16>, token
      %next = mmaf %at, %bt, %acc : tile<32x16xf16>, tile<16x32xf16>, tile<32x32xf32>
      continue %next : tile<32x32xf32>
    }
    %done = store_view_tko weak %sum, %cp[%x, %y] token = %t
        : tile<32x32xf32>, partition_view<tile=(32x32), tensor_view<512x512xf32, strides=[512,1]>>,
          tile<i32> -> token
    return
  }
}

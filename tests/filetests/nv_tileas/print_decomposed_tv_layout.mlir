// RUN: ...,tileas-print-decomposed-tv-layout --gpu-name=sm_80
// What each thread holds of a product, of its operands, and of what is stored.
// CHECK: @product
// CHECK: %tile = nv_tileas.tiled_load : 16x16xf16
// CHECK-NEXT{LITERAL}:   tv     ((2,16),8):((128,1),16)
// CHECK-NEXT{LITERAL}:   lane   (2,16):(8@1,1@0)
// CHECK-NEXT{LITERAL}:   warp   1:0
// CHECK-NEXT{LITERAL}:   value  8:1@1
// CHECK: = nv_tileas.mma_dot : 16x8xf32
// CHECK-NEXT{LITERAL}:   tv     ((4,8),(2,2)):((32,1),(16,8))
// CHECK-NEXT{LITERAL}:   lane   (4,8):(2@1,1@0)
// CHECK-NEXT{LITERAL}:   warp   1:0
// CHECK-NEXT{LITERAL}:   value  (2,2):(1@1,8@0)
// CHECK: builtin.module
cuda_tile.module @m {
  entry @product(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>) {
    %t = make_token : token
    %a16 = assume div_by<16>, %a : tile<ptr<f16>>
    %b16 = assume div_by<16>, %b : tile<ptr<f16>>
    %c16 = assume div_by<16>, %c : tile<ptr<f32>>
    %av = make_tensor_view %a16, shape = [16, 16], strides = [16, 1]
        : tensor_view<16x16xf16, strides=[16,1]>
    %bv = make_tensor_view %b16, shape = [16, 8], strides = [8, 1]
        : tensor_view<16x8xf16, strides=[8,1]>
    %cv = make_tensor_view %c16, shape = [16, 8], strides = [8, 1]
        : tensor_view<16x8xf32, strides=[8,1]>
    %ap = make_partition_view %av
        : partition_view<tile=(16x16), tensor_view<16x16xf16, strides=[16,1]>>
    %bp = make_partition_view %bv
        : partition_view<tile=(16x8), tensor_view<16x8xf16, strides=[8,1]>>
    %cp = make_partition_view %cv
        : partition_view<tile=(16x8), tensor_view<16x8xf32, strides=[8,1]>>
    %zero = constant <i32: 0> : tile<i32>
    %sum = constant <f32: 0.0> : tile<16x8xf32>
    %at, %ta = load_view_tko weak %ap[%zero, %zero] token = %t
        : partition_view<tile=(16x16), tensor_view<16x16xf16, strides=[16,1]>>, tile<i32>
          -> tile<16x16xf16>, token
    %bt, %tb = load_view_tko weak %bp[%zero, %zero] token = %t
        : partition_view<tile=(16x8), tensor_view<16x8xf16, strides=[8,1]>>, tile<i32>
          -> tile<16x8xf16>, token
    %product = mmaf %at, %bt, %sum : tile<16x16xf16>, tile<16x8xf16>, tile<16x8xf32>
    %done = store_view_tko weak %product, %cp[%zero, %zero] token = %t
        : tile<16x8xf32>, partition_view<tile=(16x8), tensor_view<16x8xf32, strides=[8,1]>>,
          tile<i32> -> token
    return
  }
}
// -----
// A kernel without tiles has no layouts.
// CHECK-NOT: tv
// CHECK: builtin.module
cuda_tile.module @m {
  entry @empty() {
    return
  }
}

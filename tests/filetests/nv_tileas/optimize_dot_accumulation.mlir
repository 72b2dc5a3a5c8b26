// RUN: canonicalize,cse,convert-cudatile-to-tileaa,choose-strategy,tileas-plan-cta,tileas-assign-dot-layouts,tileas-assign-load-store-layouts,insert-barriers,tileas-assign-warp-roles,convert-tileaa-to-tileas,tileas-optimize-dot-accumulation
// waits_behind_what_does_not_read_the_sum
// CHECK: nv_tileas.wgmma_dot
// CHECK-SAME: from_zero
// CHECK: nv_tileaa.mulf
// CHECK: nv_tileas.dot_wait
// CHECK: nv_tileas.async.pipeline.consumer_release
// CHECK: nv_tileaa.addf
cuda_tile.module @m {
  entry @gemm(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f32>>, %n: tile<i32>) {
    %a0 = assume div_by<16>, %A : tile<ptr<f16>>
    %b0 = assume div_by<16>, %B : tile<ptr<f16>>
    %t = make_token : token
    %at = make_tensor_view %a0, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf16, strides=[1024,1]>
    %bt = make_tensor_view %b0, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf16, strides=[1024,1]>
    %ct = make_tensor_view %C, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf32, strides=[1024,1]>
    %av = make_partition_view %at
      : partition_view<tile=(64x64), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %bv = make_partition_view %bt
      : partition_view<tile=(64x128), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %cv = make_partition_view %ct
      : partition_view<tile=(64x128), tensor_view<1024x1024xf32, strides=[1024,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %zero = constant <f32: 0.0> : tile<64x128xf32>
    %sum = for %k in (%c0 to %n, step %c1) : tile<i32>
        iter_values(%s = %zero) -> (tile<64x128xf32>) {
      %a, %ta = load_view_tko weak %av[%x, %k] token = %t
        : partition_view<tile=(64x64), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32>
        -> tile<64x64xf16>, token
      %b, %tb = load_view_tko weak %bv[%k, %y] token = %t
        : partition_view<tile=(64x128), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32>
        -> tile<64x128xf16>, token
      %p = mmaf %a, %b, %zero : tile<64x64xf16>, tile<64x128xf16>, tile<64x128xf32>
      %e = mulf %s, %s : tile<64x128xf32>
      %d = addf %p, %e : tile<64x128xf32>
      continue %d : tile<64x128xf32>
    }
    %u = store_view_tko weak %sum, %cv[%x, %y] token = %t
      : tile<64x128xf32>, partition_view<tile=(64x128), tensor_view<1024x1024xf32, strides=[1024,1]>>,
        tile<i32> -> token
    return
  }
}
// -----
// leaves_a_product_that_says_itself_how_many_stay_unfinished
// CHECK: nv_tileas.wgmma_dot
// CHECK-NOT: from_zero
// CHECK-SAME: pending
// CHECK-NEXT: nv_tileas.async.pipeline.consumer_release
// CHECK-NEXT: continue
cuda_tile.module @m {
  entry @gemm(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f32>>, %n: tile<i32>) {
    %a0 = assume div_by<16>, %A : tile<ptr<f16>>
    %b0 = assume div_by<16>, %B : tile<ptr<f16>>
    %t = make_token : token
    %at = make_tensor_view %a0, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf16, strides=[1024,1]>
    %bt = make_tensor_view %b0, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf16, strides=[1024,1]>
    %ct = make_tensor_view %C, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf32, strides=[1024,1]>
    %av = make_partition_view %at
      : partition_view<tile=(64x64), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %bv = make_partition_view %bt
      : partition_view<tile=(64x128), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %cv = make_partition_view %ct
      : partition_view<tile=(64x128), tensor_view<1024x1024xf32, strides=[1024,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %zero = constant <f32: 0.0> : tile<64x128xf32>
    %sum = for %k in (%c0 to %n, step %c1) : tile<i32>
        iter_values(%s = %zero) -> (tile<64x128xf32>) {
      %a, %ta = load_view_tko weak %av[%x, %k] token = %t
        : partition_view<tile=(64x64), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32>
        -> tile<64x64xf16>, token
      %b, %tb = load_view_tko weak %bv[%k, %y] token = %t
        : partition_view<tile=(64x128), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32>
        -> tile<64x128xf16>, token
      %d = mmaf %a, %b, %s : tile<64x64xf16>, tile<64x128xf16>, tile<64x128xf32>
      continue %d : tile<64x128xf32>
    }
    %u = store_view_tko weak %sum, %cv[%x, %y] token = %t
      : tile<64x128xf32>, partition_view<tile=(64x128), tensor_view<1024x1024xf32, strides=[1024,1]>>,
        tile<i32> -> token
    return
  }
}
// -----
// a_product_of_fragments_with_zeros_takes_no_accumulator
// CHECK: nv_tileas.wgmma_dot
// CHECK-SAME: from_zero
cuda_tile.module @m {
  entry @gemm(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f32>>, %n: tile<i32>) {
    %a0 = assume div_by<16>, %A : tile<ptr<f16>>
    %b0 = assume div_by<16>, %B : tile<ptr<f16>>
    %t = make_token : token
    %at = make_tensor_view %a0, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf16, strides=[1024,1]>
    %bt = make_tensor_view %b0, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf16, strides=[1024,1]>
    %ct = make_tensor_view %C, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf32, strides=[1024,1]>
    %av = make_partition_view %at
      : partition_view<tile=(64x64), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %bv = make_partition_view %bt
      : partition_view<tile=(64x128), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %cv = make_partition_view %ct
      : partition_view<tile=(64x128), tensor_view<1024x1024xf32, strides=[1024,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %zero = constant <f32: 0.0> : tile<64x128xf32>
    %sum = for %k in (%c0 to %n, step %c1) : tile<i32>
        iter_values(%s = %zero) -> (tile<64x128xf32>) {
      %a, %ta = load_view_tko weak %av[%x, %k] token = %t
        : partition_view<tile=(64x64), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32>
        -> tile<64x64xf16>, token
      %b, %tb = load_view_tko weak %bv[%k, %y] token = %t
        : partition_view<tile=(64x128), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32>
        -> tile<64x128xf16>, token
      %f = mulf %a, %a : tile<64x64xf16>
      %p = mmaf %f, %b, %zero : tile<64x64xf16>, tile<64x128xf16>, tile<64x128xf32>
      %e = mulf %s, %s : tile<64x128xf32>
      %d = addf %p, %e : tile<64x128xf32>
      continue %d : tile<64x128xf32>
    }
    %u = store_view_tko weak %sum, %cv[%x, %y] token = %t
      : tile<64x128xf32>, partition_view<tile=(64x128), tensor_view<1024x1024xf32, strides=[1024,1]>>,
        tile<i32> -> token
    return
  }
}

// RUN: ...,tileas-plan-cta
// stores_by_tma_what_a_persistent_kernel_computes
// CHECK: store_warp = 1
// CHECK: nv_tileaa.tiled_store
// CHECK-SAME: by_tma
cuda_tile.module @m {
  entry @gemm(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f16>>,
              %M: tile<i32>, %N: tile<i32>, %K: tile<i32>) {
    %A1 = assume div_by<16>, %A : tile<ptr<f16>>
    %B1 = assume div_by<16>, %B : tile<ptr<f16>>
    %N1 = assume div_by<16>, %N : tile<i32>
    %K1 = assume div_by<16>, %K : tile<i32>
    %C1 = assume div_by<16>, %C : tile<ptr<f16>>
    %t0 = make_token : token
    %ta = make_tensor_view %A1, shape = [%M, %K1], strides = [%K1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tb = make_tensor_view %B1, shape = [%K1, %N1], strides = [%N1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tc = make_tensor_view %C1, shape = [%M, %N1], strides = [%N1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %pa = make_partition_view %ta : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pb = make_partition_view %tb : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pc = make_partition_view %tc : partition_view<tile=(128x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %px, %by, %bz = get_tile_block_id : tile<i32>
    %is:2 = get_index_space_shape %pa : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>> -> tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %z = constant <f32: 0.0> : tile<128x128xf32>
    %c2 = constant <i32: 2> : tile<i32>
    %te = for %bx in (%px to %is#0, step %c2) : tile<i32> iter_values(%to = %t0) -> (token) {
    %acc, %tl = for %k in (%c0 to %is#1, step %c1) : tile<i32>
        iter_values(%a0 = %z, %t = %t0) -> (tile<128x128xf32>, token) {
      %a, %ka = load_view_tko weak %pa[%bx, %k] token = %t0
        : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<128x64xf16>, token
      %b, %kb = load_view_tko weak %pb[%k, %by] token = %t0
        : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x128xf16>, token
      %d = mmaf %a, %b, %a0 : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      continue %d, %t : tile<128x128xf32>, token
    }
    %h = ftof %acc : tile<128x128xf32> -> tile<128x128xf16>
    %s = store_view_tko weak %h, %pc[%bx, %by] token = %to
      : tile<128x128xf16>, partition_view<tile=(128x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> token
    continue %s : token
    }
    return
  }
}
// -----
// reduces_by_tma_what_a_persistent_kernel_adds
// CHECK: store_warp = 1
// CHECK: nv_tileaa.tiled_atomic_red addf
// CHECK-SAME: by_tma
cuda_tile.module @m {
  entry @gemm(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f32>>,
              %M: tile<i32>, %N: tile<i32>, %K: tile<i32>) {
    %A1 = assume div_by<16>, %A : tile<ptr<f16>>
    %B1 = assume div_by<16>, %B : tile<ptr<f16>>
    %N1 = assume div_by<16>, %N : tile<i32>
    %K1 = assume div_by<16>, %K : tile<i32>
    %C1 = assume div_by<16>, %C : tile<ptr<f32>>
    %t0 = make_token : token
    %ta = make_tensor_view %A1, shape = [%M, %K1], strides = [%K1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tb = make_tensor_view %B1, shape = [%K1, %N1], strides = [%N1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tc = make_tensor_view %C1, shape = [%M, %N1], strides = [%N1, 1]
      : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %pa = make_partition_view %ta : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pb = make_partition_view %tb : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pc = make_partition_view %tc : partition_view<tile=(128x128), tensor_view<?x?xf32, strides=[?,1]>>
    %px, %by, %bz = get_tile_block_id : tile<i32>
    %is:2 = get_index_space_shape %pa : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>> -> tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %z = constant <f32: 0.0> : tile<128x128xf32>
    %c2 = constant <i32: 2> : tile<i32>
    %te = for %bx in (%px to %is#0, step %c2) : tile<i32> iter_values(%to = %t0) -> (token) {
    %acc, %tl = for %k in (%c0 to %is#1, step %c1) : tile<i32>
        iter_values(%a0 = %z, %t = %t0) -> (tile<128x128xf32>, token) {
      %a, %ka = load_view_tko weak %pa[%bx, %k] token = %t0
        : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<128x64xf16>, token
      %b, %kb = load_view_tko weak %pb[%k, %by] token = %t0
        : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x128xf16>, token
      %d = mmaf %a, %b, %a0 : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      continue %d, %t : tile<128x128xf32>, token
    }
    %h = ftof %acc : tile<128x128xf32> -> tile<128x128xf16>
    %s = atomic_red_view_tko relaxed device %pc[%bx, %by], addf, %acc token = %to : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
    continue %s : token
    }
    return
  }
}
// -----
// leaves_the_tile_of_one_block_to_its_threads
// CHECK: store_warp = 0
// CHECK-NOT: by_tma
// CHECK: nv_tileaa.tiled_store
cuda_tile.module @m {
  entry @gemm(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f16>>,
              %M: tile<i32>, %N: tile<i32>, %K: tile<i32>) {
    %A1 = assume div_by<16>, %A : tile<ptr<f16>>
    %B1 = assume div_by<16>, %B : tile<ptr<f16>>
    %N1 = assume div_by<16>, %N : tile<i32>
    %K1 = assume div_by<16>, %K : tile<i32>
    %C1 = assume div_by<16>, %C : tile<ptr<f16>>
    %t0 = make_token : token
    %ta = make_tensor_view %A1, shape = [%M, %K1], strides = [%K1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tb = make_tensor_view %B1, shape = [%K1, %N1], strides = [%N1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tc = make_tensor_view %C1, shape = [%M, %N1], strides = [%N1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %pa = make_partition_view %ta : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pb = make_partition_view %tb : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pc = make_partition_view %tc : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %is:2 = get_index_space_shape %pa : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>> -> tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %z = constant <f32: 0.0> : tile<64x128xf32>
    %acc, %tl = for %k in (%c0 to %is#1, step %c1) : tile<i32>
        iter_values(%a0 = %z, %t = %t0) -> (tile<64x128xf32>, token) {
      %a, %ka = load_view_tko weak %pa[%bx, %k] token = %t0
        : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x64xf16>, token
      %b, %kb = load_view_tko weak %pb[%k, %by] token = %t0
        : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x128xf16>, token
      %d = mmaf %a, %b, %a0 : tile<64x64xf16>, tile<64x128xf16>, tile<64x128xf32>
      continue %d, %t : tile<64x128xf32>, token
    }
    %h = ftof %acc : tile<64x128xf32> -> tile<64x128xf16>
    %s = store_view_tko weak %h, %pc[%bx, %by] token = %tl
      : tile<64x128xf16>, partition_view<tile=(64x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> token
    return
  }
}
// -----
// leaves_rows_that_may_be_unaligned_to_threads
// CHECK: store_warp = 0
// CHECK-NOT: by_tma
// CHECK: nv_tileaa.tiled_atomic_red
cuda_tile.module @m {
  entry @gemm(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f32>>,
              %M: tile<i32>, %N: tile<i32>, %K: tile<i32>) {
    %A1 = assume div_by<4>, %A : tile<ptr<f16>>
    %B1 = assume div_by<16>, %B : tile<ptr<f16>>
    %N1 = assume div_by<16>, %N : tile<i32>
    %K1 = assume div_by<16>, %K : tile<i32>
    %t0 = make_token : token
    %ta = make_tensor_view %A1, shape = [%M, %K1], strides = [%K1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tb = make_tensor_view %B1, shape = [%K1, %N1], strides = [%N1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tc = make_tensor_view %C, shape = [%M, %N1], strides = [%N1, 1]
      : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %pa = make_partition_view %ta : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pb = make_partition_view %tb : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pc = make_partition_view %tc : partition_view<tile=(128x128), tensor_view<?x?xf32, strides=[?,1]>>
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %is:2 = get_index_space_shape %pa : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>> -> tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %z = constant <f32: 0.0> : tile<128x128xf32>
    %acc, %tl = for %k in (%c0 to %is#1, step %c1) : tile<i32>
        iter_values(%a0 = %z, %t = %t0) -> (tile<128x128xf32>, token) {
      %a, %ka = load_view_tko weak %pa[%bx, %k] token = %t0
        : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<128x64xf16>, token
      %b, %kb = load_view_tko weak %pb[%k, %by] token = %t0
        : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x128xf16>, token
      %d = mmaf %a, %b, %a0 : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      continue %d, %t : tile<128x128xf32>, token
    }
    %h = ftof %acc : tile<128x128xf32> -> tile<128x128xf16>
    %s = atomic_red_view_tko relaxed device %pc[%bx, %by], addf, %acc token = %tl : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
    return
  }
}

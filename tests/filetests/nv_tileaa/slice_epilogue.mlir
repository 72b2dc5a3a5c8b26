// RUN: ...,slice-epilogue
// CHECK: nv_tileaa.dot {{.*}} -> tensor<128x256xf32>
// CHECK: nv_tileaa.extract {{.*}} : tensor<128x256xf32> -> tensor<128x32xf32>
// CHECK: nv_tileaa.tiled_store
// CHECK: nv_tileaa.extract
// CHECK: nv_tileaa.tiled_store
// CHECK-NOT: tiled_store {{.*}} : tensor<128x256xf16>
cuda_tile.module @m {
  entry @stores_slices_where_all_is_too_much(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f16>>,
              %M: tile<i32>, %N: tile<i32>, %K: tile<i32>, %D: tile<ptr<f32>>, %E: tile<ptr<f32>>) {
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
    %pb = make_partition_view %tb : partition_view<tile=(64x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pc = make_partition_view %tc : partition_view<tile=(128x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %is:2 = get_index_space_shape %pa : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>> -> tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %z = constant <f32: 0.0> : tile<128x256xf32>
    %acc, %tl = for %k in (%c0 to %is#1, step %c1) : tile<i32>
        iter_values(%a0 = %z, %t = %t0) -> (tile<128x256xf32>, token) {
      %a, %ka = load_view_tko weak %pa[%bx, %k] token = %t0
        : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<128x64xf16>, token
      %b, %kb = load_view_tko weak %pb[%k, %by] token = %t0
        : partition_view<tile=(64x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x256xf16>, token
      %d = mmaf %a, %b, %a0 : tile<128x64xf16>, tile<64x256xf16>, tile<128x256xf32>
      
      continue %d, %t : tile<128x256xf32>, token
    }
    %tv0 = assume div_by<16>, %D : tile<ptr<f32>>
%tv1 = assume div_by<16>, %E : tile<ptr<f32>>
%bp = make_tensor_view %tv0, shape=[%M, %N1], strides=[%N1, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
%bv = make_partition_view %bp : partition_view<tile=(128x256), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>
%ep = make_tensor_view %tv1, shape=[%M, %N1], strides=[%N1, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
%ev = make_partition_view %ep : partition_view<tile=(128x256), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>
%old, %oldt = load_view_tko weak %bv[%bx, %by] token = %t0 : partition_view<tile=(128x256), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> tile<128x256xf32>, token
%sum2 = addf %acc, %old : tile<128x256xf32>
%tan = tanh %sum2 : tile<128x256xf32>
%st2 = store_view_tko weak %tan, %ev[%bx, %by] token = %t0 : tile<128x256xf32>, partition_view<tile=(128x256), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
%h = ftof %sum2 : tile<128x256xf32> -> tile<128x256xf16>
    %s = store_view_tko weak %h, %pc[%bx, %by] token = %tl
      : tile<128x256xf16>, partition_view<tile=(128x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> token
    return
  }
}
// -----
// CHECK-NOT: nv_tileaa.extract
// CHECK: nv_tileaa.tiled_store {{.*}} : tensor<128x256xf16>
cuda_tile.module @m {
  entry @leaves_an_epilogue_that_fits(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f16>>,
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
    %pb = make_partition_view %tb : partition_view<tile=(64x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pc = make_partition_view %tc : partition_view<tile=(128x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %is:2 = get_index_space_shape %pa : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>> -> tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %z = constant <f32: 0.0> : tile<128x256xf32>
    %acc, %tl = for %k in (%c0 to %is#1, step %c1) : tile<i32>
        iter_values(%a0 = %z, %t = %t0) -> (tile<128x256xf32>, token) {
      %a, %ka = load_view_tko weak %pa[%bx, %k] token = %t0
        : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<128x64xf16>, token
      %b, %kb = load_view_tko weak %pb[%k, %by] token = %t0
        : partition_view<tile=(64x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x256xf16>, token
      %d = mmaf %a, %b, %a0 : tile<128x64xf16>, tile<64x256xf16>, tile<128x256xf32>
      
      continue %d, %t : tile<128x256xf32>, token
    }
    %h = ftof %acc : tile<128x256xf32> -> tile<128x256xf16>
    %s = store_view_tko weak %h, %pc[%bx, %by] token = %tl
      : tile<128x256xf16>, partition_view<tile=(128x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> token
    return
  }
}
// -----
// CHECK: nv_tileaa.dot {{.*}} -> tensor<128x256xf32>
// CHECK: nv_tileaa.extract {{.*}} : tensor<128x256xf32> -> tensor<
// CHECK: nv_tileaa.store
// CHECK: nv_tileaa.store
// CHECK-NOT: nv_tileaa.store {{.*}}tensor<128x256x
cuda_tile.module @m {
  entry @slices_what_is_loaded_and_stored_through_pointers(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f16>>,
              %M: tile<i32>, %N: tile<i32>, %K: tile<i32>, %D: tile<ptr<f32>>, %E: tile<ptr<f32>>) {
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
    %pb = make_partition_view %tb : partition_view<tile=(64x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pc = make_partition_view %tc : partition_view<tile=(128x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %is:2 = get_index_space_shape %pa : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>> -> tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %z = constant <f32: 0.0> : tile<128x256xf32>
    %acc, %tl = for %k in (%c0 to %is#1, step %c1) : tile<i32>
        iter_values(%a0 = %z, %t = %t0) -> (tile<128x256xf32>, token) {
      %a, %ka = load_view_tko weak %pa[%bx, %k] token = %t0
        : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<128x64xf16>, token
      %b, %kb = load_view_tko weak %pb[%k, %by] token = %t0
        : partition_view<tile=(64x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x256xf16>, token
      %d = mmaf %a, %b, %a0 : tile<128x64xf16>, tile<64x256xf16>, tile<128x256xf32>
      
      continue %d, %t : tile<128x256xf32>, token
    }
    %rows = iota : tile<128xi32>
    %columns = iota : tile<256xi32>
    %r2 = reshape %rows : tile<128xi32> -> tile<128x1xi32>
    %q2 = reshape %columns : tile<256xi32> -> tile<1x256xi32>
    %rb = broadcast %r2 : tile<128x1xi32> -> tile<128x256xi32>
    %qb = broadcast %q2 : tile<1x256xi32> -> tile<128x256xi32>
    %wide = constant <i32: 256> : tile<128x256xi32>
    %first = muli %rb, %wide : tile<128x256xi32>
    %place = addi %first, %qb : tile<128x256xi32>
    %d2 = reshape %D : tile<ptr<f32>> -> tile<1x1xptr<f32>>
    %db = broadcast %d2 : tile<1x1xptr<f32>> -> tile<128x256xptr<f32>>
    %dp = offset %db, %place : tile<128x256xptr<f32>>, tile<128x256xi32> -> tile<128x256xptr<f32>>
    %e2 = reshape %E : tile<ptr<f32>> -> tile<1x1xptr<f32>>
    %eb = broadcast %e2 : tile<1x1xptr<f32>> -> tile<128x256xptr<f32>>
    %ep = offset %eb, %place : tile<128x256xptr<f32>>, tile<128x256xi32> -> tile<128x256xptr<f32>>
    %old, %oldt = load_ptr_tko weak %dp token = %t0
      : tile<128x256xptr<f32>> -> tile<128x256xf32>, token
    %sum = addf %acc, %old : tile<128x256xf32>
    %s = store_ptr_tko weak %ep, %sum token = %tl
      : tile<128x256xptr<f32>>, tile<128x256xf32> -> token
    return
  }
}

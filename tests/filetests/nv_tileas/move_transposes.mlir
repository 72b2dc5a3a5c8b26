// RUN: ...,tileas-move-transposes
// idle_warps_transpose_values_for_both_warpgroups
// CHECK: %[[KEYS:.*]] = nv_tileas.async.pipeline.create_pipeline
// CHECK: %[[VALUES:.*]] = nv_tileas.async.pipeline.create_pipeline {stages = 1, stage_bytes = 16384, consumers = 2
// CHECK: %[[COPIES:.*]] = nv_tileas.async.pipeline.create_pipeline {stages = 2, stage_bytes = 16384, consumers = 2, gather_threads = 64
// CHECK: nv_tileas.transpose_warps {
// CHECK: nv_tileaa.for
// CHECK-NEXT: %[[TILE:.*]] = nv_tileas.async.pipeline.consumer_wait %[[VALUES]]
// CHECK-NEXT: nv_tileas.async.pipeline.producer_acquire %[[COPIES]] {bytes = 0}
// CHECK-NEXT: nv_tileas.transpose_tile %[[TILE]] into %[[COPIES]]
// CHECK-NEXT: nv_tileas.async.pipeline.producer_commit %[[COPIES]]
// CHECK-NEXT: nv_tileas.async.pipeline.consumer_release %[[VALUES]]
// CHECK: } consumer {
// CHECK-NOT: smem_transpose
// CHECK: %[[TRANSPOSED:.*]] = nv_tileas.async.pipeline.consumer_wait %[[COPIES]]
// CHECK-NEXT: nv_tileas.wgmma_dot %{{.*}}, %[[TRANSPOSED]]
// CHECK: nv_tileas.async.pipeline.consumer_release %[[COPIES]]
cuda_tile.module @m {
  entry @attention(%Q: tile<ptr<f8E4M3FN>>, %K: tile<ptr<f8E4M3FN>>, %V: tile<ptr<f8E4M3FN>>, %O: tile<ptr<f8E4M3FN>>,
                   %length: tile<i32>) {
    %q1 = assume div_by<16>, %Q : tile<ptr<f8E4M3FN>>
    %k1 = assume div_by<16>, %K : tile<ptr<f8E4M3FN>>
    %v1 = assume div_by<16>, %V : tile<ptr<f8E4M3FN>>
    %t0 = make_token : token
    %tq = make_tensor_view %q1, shape = [%length, 128], strides = [128, 1] : tile<i32> -> tensor_view<?x128xf8E4M3FN, strides=[128,1]>
    %tk = make_tensor_view %k1, shape = [%length, 128], strides = [128, 1] : tile<i32> -> tensor_view<?x128xf8E4M3FN, strides=[128,1]>
    %tv = make_tensor_view %v1, shape = [%length, 128], strides = [128, 1] : tile<i32> -> tensor_view<?x128xf8E4M3FN, strides=[128,1]>
    %to = make_tensor_view %O, shape = [%length, 128], strides = [128, 1] : tile<i32> -> tensor_view<?x128xf8E4M3FN, strides=[128,1]>
    %pq = make_partition_view %tq : partition_view<tile=(128x128), padding_value = zero, tensor_view<?x128xf8E4M3FN, strides=[128,1]>>
    %pk = make_partition_view %tk : partition_view<tile=(128x128), padding_value = zero, tensor_view<?x128xf8E4M3FN, strides=[128,1]>>
    %pv = make_partition_view %tv : partition_view<tile=(128x128), padding_value = zero, tensor_view<?x128xf8E4M3FN, strides=[128,1]>>
    %po = make_partition_view %to : partition_view<tile=(128x128), tensor_view<?x128xf8E4M3FN, strides=[128,1]>>
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %is:2 = get_index_space_shape %pk
      : partition_view<tile=(128x128), padding_value = zero, tensor_view<?x128xf8E4M3FN, strides=[128,1]>> -> tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %z = constant <f32: 0.0> : tile<128x128xf32>
    %q, %uq = load_view_tko weak %pq[%bx, %c0] token = %t0
      : partition_view<tile=(128x128), padding_value = zero, tensor_view<?x128xf8E4M3FN, strides=[128,1]>>, tile<i32>
      -> tile<128x128xf8E4M3FN>, token
    %acc_0 = for %j_0 in (%c0 to %is#0, step %c1) : tile<i32>
        iter_values(%a_0 = %z) -> (tile<128x128xf32>) {
      %k_0, %uk_0 = load_view_tko weak %pk[%j_0, %c0] token = %t0
        : partition_view<tile=(128x128), padding_value = zero, tensor_view<?x128xf8E4M3FN, strides=[128,1]>>, tile<i32>
        -> tile<128x128xf8E4M3FN>, token
      %kt_0 = permute %k_0 [1, 0] : tile<128x128xf8E4M3FN> -> tile<128x128xf8E4M3FN>
      %p_0 = mmaf %q, %kt_0, %z : tile<128x128xf8E4M3FN>, tile<128x128xf8E4M3FN>, tile<128x128xf32>
      %r_0 = ftof %p_0 : tile<128x128xf32> -> tile<128x128xf8E4M3FN>
      %v_0, %uv_0 = load_view_tko weak %pv[%j_0, %c0] token = %t0
        : partition_view<tile=(128x128), padding_value = zero, tensor_view<?x128xf8E4M3FN, strides=[128,1]>>, tile<i32>
        -> tile<128x128xf8E4M3FN>, token
      %d_0 = mmaf %r_0, %v_0, %a_0 : tile<128x128xf8E4M3FN>, tile<128x128xf8E4M3FN>, tile<128x128xf32>
      continue %d_0 : tile<128x128xf32>
    }
    %h = ftof %acc_0 : tile<128x128xf32> -> tile<128x128xf8E4M3FN>
    %s = store_view_tko weak %h, %po[%bx, %c0] token = %t0
      : tile<128x128xf8E4M3FN>, partition_view<tile=(128x128), tensor_view<?x128xf8E4M3FN, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
// -----
// leaves_the_values_where_no_warp_is_idle
// CHECK-NOT: transpose_warps
// CHECK: nv_tileas.smem_transpose
cuda_tile.module @m {
  entry @attention(%Q: tile<ptr<f8E4M3FN>>, %K: tile<ptr<f8E4M3FN>>, %V: tile<ptr<f8E4M3FN>>, %O: tile<ptr<f8E4M3FN>>,
                   %length: tile<i32>) {
    %q1 = assume div_by<16>, %Q : tile<ptr<f8E4M3FN>>
    %k1 = assume div_by<16>, %K : tile<ptr<f8E4M3FN>>
    %v1 = assume div_by<16>, %V : tile<ptr<f8E4M3FN>>
    %t0 = make_token : token
    %tq = make_tensor_view %q1, shape = [%length, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf8E4M3FN, strides=[64,1]>
    %tk = make_tensor_view %k1, shape = [%length, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf8E4M3FN, strides=[64,1]>
    %tv = make_tensor_view %v1, shape = [%length, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf8E4M3FN, strides=[64,1]>
    %to = make_tensor_view %O, shape = [%length, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf8E4M3FN, strides=[64,1]>
    %pq = make_partition_view %tq : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x64xf8E4M3FN, strides=[64,1]>>
    %pk = make_partition_view %tk : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf8E4M3FN, strides=[64,1]>>
    %pv = make_partition_view %tv : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf8E4M3FN, strides=[64,1]>>
    %po = make_partition_view %to : partition_view<tile=(128x64), tensor_view<?x64xf8E4M3FN, strides=[64,1]>>
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %is:2 = get_index_space_shape %pk
      : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf8E4M3FN, strides=[64,1]>> -> tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %z = constant <f32: 0.0> : tile<128x64xf32>
    %q, %uq = load_view_tko weak %pq[%bx, %c0] token = %t0
      : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x64xf8E4M3FN, strides=[64,1]>>, tile<i32>
      -> tile<128x64xf8E4M3FN>, token
    %acc_0 = for %j_0 in (%c0 to %is#0, step %c1) : tile<i32>
        iter_values(%a_0 = %z) -> (tile<128x64xf32>) {
      %k_0, %uk_0 = load_view_tko weak %pk[%j_0, %c0] token = %t0
        : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf8E4M3FN, strides=[64,1]>>, tile<i32>
        -> tile<64x64xf8E4M3FN>, token
      %kt_0 = permute %k_0 [1, 0] : tile<64x64xf8E4M3FN> -> tile<64x64xf8E4M3FN>
      %p_0 = mmaf %q, %kt_0, %z : tile<128x64xf8E4M3FN>, tile<64x64xf8E4M3FN>, tile<128x64xf32>
      %r_0 = ftof %p_0 : tile<128x64xf32> -> tile<128x64xf8E4M3FN>
      %v_0, %uv_0 = load_view_tko weak %pv[%j_0, %c0] token = %t0
        : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf8E4M3FN, strides=[64,1]>>, tile<i32>
        -> tile<64x64xf8E4M3FN>, token
      %d_0 = mmaf %r_0, %v_0, %a_0 : tile<128x64xf8E4M3FN>, tile<64x64xf8E4M3FN>, tile<128x64xf32>
      continue %d_0 : tile<128x64xf32>
    }
    %h = ftof %acc_0 : tile<128x64xf32> -> tile<128x64xf8E4M3FN>
    %s = store_view_tko weak %h, %po[%bx, %c0] token = %t0
      : tile<128x64xf8E4M3FN>, partition_view<tile=(128x64), tensor_view<?x64xf8E4M3FN, strides=[64,1]>>, tile<i32> -> token
    return
  }
}

// RUN: ...,tileas-hoist-transposes
// transposes_while_the_product_before_is_running
// CHECK: %[[SCORES:.*]] = nv_tileas.wgmma_dot
// CHECK-NEXT: %[[TILE:.*]] = nv_tileas.async.pipeline.consumer_wait %[[PIPELINE:pipeline_[0-9]]]
// CHECK-NEXT: %[[TRANSPOSED:.*]] = nv_tileas.smem_transpose %[[TILE]]
// CHECK-NEXT: nv_tileas.async.pipeline.consumer_release %[[PIPELINE]]
// CHECK-NEXT: nv_tileas.dot_wait %[[SCORES]]
// CHECK: nv_tileas.wgmma_dot %{{.*}}, %[[TRANSPOSED]]
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
// -----
// leaves_a_transpose_that_no_product_comes_before
// CHECK: nv_tileaa.exp
// CHECK: nv_tileas.async.pipeline.consumer_wait
// CHECK: nv_tileas.smem_transpose
// CHECK-NEXT: nv_tileas.async.pipeline.consumer_release
// CHECK: nv_tileas.wgmma_dot
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
      %f_0 = ftof %q : tile<128x64xf8E4M3FN> -> tile<128x64xf32>
      %e_0 = exp %f_0 : tile<128x64xf32>
      %r_0 = ftof %e_0 : tile<128x64xf32> -> tile<128x64xf8E4M3FN>
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

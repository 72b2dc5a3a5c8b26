// RUN: ...,tileas-put-off-products
// issues_the_last_product_an_iteration_late
// CHECK: nv_tileaa.if
// CHECK: nv_tileaa.for
// CHECK: consumer_wait %[[KEYS:pipeline[_0-9]*]] at
// CHECK: nv_tileas.wgmma_dot
// CHECK: nv_tileas.wgmma_dot
// CHECK: %[[FIRST:.*]] = nv_tileaa.cmpi not_equal
// CHECK-NEXT: %[[TILE:.*]] = nv_tileas.async.pipeline.held_tile %[[KEYS]] {age = 1, offset = 0}
// CHECK-NEXT: nv_tileas.wgmma_dot %{{.*}}, %[[TILE]], %{{.*}} adds_if = %[[FIRST]]
// CHECK: consumer_release %[[KEYS]] {keep = 1}
// CHECK: nv_tileaa.exp2
// CHECK: nv_tileaa.continue
// CHECK: %[[LAST:.*]] = nv_tileas.async.pipeline.held_tile %[[KEYS]] {age = 0, offset = 0}
// CHECK-NEXT: nv_tileas.wgmma_dot %{{.*}}, %[[LAST]]
// CHECK: consumer_release %[[KEYS]] {keep = 0}
cuda_tile.module @m {
  entry @attention(%Q: tile<ptr<f16>>, %K: tile<ptr<f16>>, %V: tile<ptr<f16>>, %O: tile<ptr<f16>>,
                   %length: tile<i32>) {
    %q1 = assume div_by<16>, %Q : tile<ptr<f16>>
    %k1 = assume div_by<16>, %K : tile<ptr<f16>>
    %v1 = assume div_by<16>, %V : tile<ptr<f16>>
    %t0 = make_token : token
    %tq = make_tensor_view %q1, shape = [%length, 128], strides = [128, 1] : tile<i32> -> tensor_view<?x128xf16, strides=[128,1]>
    %tk = make_tensor_view %k1, shape = [%length, 128], strides = [128, 1] : tile<i32> -> tensor_view<?x128xf16, strides=[128,1]>
    %tv = make_tensor_view %v1, shape = [%length, 128], strides = [128, 1] : tile<i32> -> tensor_view<?x128xf16, strides=[128,1]>
    %to = make_tensor_view %O, shape = [%length, 128], strides = [128, 1] : tile<i32> -> tensor_view<?x128xf16, strides=[128,1]>
    %pq = make_partition_view %tq : partition_view<tile=(128x128), padding_value = zero, tensor_view<?x128xf16, strides=[128,1]>>
    %pk = make_partition_view %tk : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x128xf16, strides=[128,1]>>
    %pv = make_partition_view %tv : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x128xf16, strides=[128,1]>>
    %po = make_partition_view %to : partition_view<tile=(128x128), tensor_view<?x128xf16, strides=[128,1]>>
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %is:2 = get_index_space_shape %pk
      : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x128xf16, strides=[128,1]>> -> tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %z = constant <f32: 0.0> : tile<128x128xf32>
    %zs = constant <f32: 0.0> : tile<128x64xf32>
    %q, %uq = load_view_tko weak %pq[%bx, %c0] token = %t0
      : partition_view<tile=(128x128), padding_value = zero, tensor_view<?x128xf16, strides=[128,1]>>, tile<i32>
      -> tile<128x128xf16>, token
    %tw = make_tensor_view %v1, shape = [%length], strides = [1] : tile<i32> -> tensor_view<?xf16, strides=[1]>
    %pw = make_partition_view %tw : partition_view<tile=(64), padding_value = zero, tensor_view<?xf16, strides=[1]>>
    %acc_0 = for %j_0 in (%c0 to %is#0, step %c1) : tile<i32>
        iter_values(%a_0 = %z) -> (tile<128x128xf32>) {
      %k_0, %uk_0 = load_view_tko weak %pk[%j_0, %c0] token = %t0
        : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x128xf16, strides=[128,1]>>, tile<i32>
        -> tile<64x128xf16>, token
      %w_0, %uw_0 = load_view_tko weak %pw[%j_0] token = %t0
        : partition_view<tile=(64), padding_value = zero, tensor_view<?xf16, strides=[1]>>, tile<i32>
        -> tile<64xf16>, token
      %kt_0 = permute %k_0 [1, 0] : tile<64x128xf16> -> tile<128x64xf16>
      %p_0 = mmaf %q, %kt_0, %zs : tile<128x128xf16>, tile<128x64xf16>, tile<128x64xf32>
      %w1_0 = reshape %w_0 : tile<64xf16> -> tile<1x64xf16>
      %w2_0 = broadcast %w1_0 : tile<1x64xf16> -> tile<128x64xf16>
      %w3_0 = ftof %w2_0 : tile<128x64xf16> -> tile<128x64xf32>
      %e_0 = mulf %p_0, %w3_0 : tile<128x64xf32>
      %h_0 = exp2 %e_0 : tile<128x64xf32>
      %v_0, %uv_0 = load_view_tko weak %pv[%j_0, %c0] token = %t0
        : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x128xf16, strides=[128,1]>>, tile<i32>
        -> tile<64x128xf16>, token
      %vt_0 = permute %v_0 [1, 0] : tile<64x128xf16> -> tile<128x64xf16>
      %g_0 = mmaf %q, %vt_0, %zs : tile<128x128xf16>, tile<128x64xf16>, tile<128x64xf32>
      %x_0 = mulf %h_0, %g_0 : tile<128x64xf32>
      %r_0 = ftof %x_0 : tile<128x64xf32> -> tile<128x64xf16>
      %d_0 = mmaf %r_0, %k_0, %a_0 : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      continue %d_0 : tile<128x128xf32>
    }
    
    %h = ftof %acc_0 : tile<128x128xf32> -> tile<128x128xf16>
    %s = store_view_tko weak %h, %po[%bx, %c0] token = %t0
      : tile<128x128xf16>, partition_view<tile=(128x128), tensor_view<?x128xf16, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
// -----
// leaves_products_where_threads_take_as_long
// CHECK: nv_tileas.wgmma_dot
// CHECK-NOT: held_tile
// CHECK-NOT: adds_if
cuda_tile.module @m {
  entry @attention(%Q: tile<ptr<f16>>, %K: tile<ptr<f16>>, %V: tile<ptr<f16>>, %O: tile<ptr<f16>>,
                   %length: tile<i32>) {
    %q1 = assume div_by<16>, %Q : tile<ptr<f16>>
    %k1 = assume div_by<16>, %K : tile<ptr<f16>>
    %v1 = assume div_by<16>, %V : tile<ptr<f16>>
    %t0 = make_token : token
    %tq = make_tensor_view %q1, shape = [%length, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %tk = make_tensor_view %k1, shape = [%length, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %tv = make_tensor_view %v1, shape = [%length, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %to = make_tensor_view %O, shape = [%length, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %pq = make_partition_view %tq : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>
    %pk = make_partition_view %tk : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>
    %pv = make_partition_view %tv : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>
    %po = make_partition_view %to : partition_view<tile=(128x64), tensor_view<?x64xf16, strides=[64,1]>>
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %is:2 = get_index_space_shape %pk
      : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>> -> tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %z = constant <f32: 0.0> : tile<128x64xf32>
    %q, %uq = load_view_tko weak %pq[%bx, %c0] token = %t0
      : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>, tile<i32>
      -> tile<128x64xf16>, token
    %tw = make_tensor_view %v1, shape = [%length], strides = [1] : tile<i32> -> tensor_view<?xf16, strides=[1]>
    %pw = make_partition_view %tw : partition_view<tile=(64), padding_value = zero, tensor_view<?xf16, strides=[1]>>
    %acc_0 = for %j_0 in (%c0 to %is#0, step %c1) : tile<i32>
        iter_values(%a_0 = %z) -> (tile<128x64xf32>) {
      %k_0, %uk_0 = load_view_tko weak %pk[%j_0, %c0] token = %t0
        : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>, tile<i32>
        -> tile<64x64xf16>, token
      %w_0, %uw_0 = load_view_tko weak %pw[%j_0] token = %t0
        : partition_view<tile=(64), padding_value = zero, tensor_view<?xf16, strides=[1]>>, tile<i32>
        -> tile<64xf16>, token
      %kt_0 = permute %k_0 [1, 0] : tile<64x64xf16> -> tile<64x64xf16>
      %p_0 = mmaf %q, %kt_0, %z : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      %w1_0 = reshape %w_0 : tile<64xf16> -> tile<1x64xf16>
      %w2_0 = broadcast %w1_0 : tile<1x64xf16> -> tile<128x64xf16>
      %w3_0 = ftof %w2_0 : tile<128x64xf16> -> tile<128x64xf32>
      %e_0 = mulf %p_0, %w3_0 : tile<128x64xf32>
      %h_0 = exp2 %e_0 : tile<128x64xf32>
      %v_0, %uv_0 = load_view_tko weak %pv[%j_0, %c0] token = %t0
        : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>, tile<i32>
        -> tile<64x64xf16>, token
      %vt_0 = permute %v_0 [1, 0] : tile<64x64xf16> -> tile<64x64xf16>
      %g_0 = mmaf %q, %vt_0, %z : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      %x_0 = mulf %h_0, %g_0 : tile<128x64xf32>
      %r_0 = ftof %x_0 : tile<128x64xf32> -> tile<128x64xf16>
      %d_0 = mmaf %r_0, %k_0, %a_0 : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      continue %d_0 : tile<128x64xf32>
    }
    
    %h = ftof %acc_0 : tile<128x64xf32> -> tile<128x64xf16>
    %s = store_view_tko weak %h, %po[%bx, %c0] token = %t0
      : tile<128x64xf16>, partition_view<tile=(128x64), tensor_view<?x64xf16, strides=[64,1]>>, tile<i32> -> token
    return
  }
}

// RUN: canonicalize,cse,convert-cudatile-to-tileaa,choose-strategy,tileas-plan-cta,insert-barriers,tileas-assign-dot-layouts,tileas-assign-load-store-layouts,tileas-assign-warp-roles,convert-tileaa-to-tileas --gpu-name=sm_100
// gives_products_to_a_warp_of_their_own
// CHECK: #tmem0 = #nv_tileas.tensor_memory<block_m = 128>
// CHECK-NEXT: !tmem0 = !nv_tileas.memdesc<128x128xf32, #tmem0, tmem>
// CHECK: #shared0 = #nv_tileas.nvmma_shared<swizzle = 128, major = 1>
// CHECK-NEXT: !smem0 = !nv_tileas.memdesc<128x64xf16, #shared0, smem>
// CHECK-NEXT: !smem1 = !nv_tileas.memdesc<64x128xf16, #shared0, smem>
// CHECK: %[[SUM:.*]] = nv_tileas.create_accumulator {stages = 1, column = 0, columns = 128, readers = 8} : !tmem0
// CHECK: nv_tileas.product_warp {
// CHECK: nv_tileas.accumulator_acquire %[[SUM]]
// CHECK: nv_tileaa.for
// CHECK: nv_tileas.async.pipeline.consumer_wait %{{.*}} at [0, 16384] : (!nv_tileas.pipeline) -> (!smem0, !smem1)
// CHECK: nv_tileas.tcgen05_dot
// CHECK: nv_tileas.stage_release
// CHECK: nv_tileas.accumulator_commit %[[SUM]]
// CHECK: consumer {
// CHECK-NOT: nv_tileaa.for
// CHECK: nv_tileas.accumulator_load %[[SUM]]
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
      : partition_view<tile=(128x64), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %bv = make_partition_view %bt
      : partition_view<tile=(64x128), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %cv = make_partition_view %ct
      : partition_view<tile=(128x128), tensor_view<1024x1024xf32, strides=[1024,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %zero = constant <f32: 0.0> : tile<128x128xf32>
    %sum = for %k in (%c0 to %n, step %c1) : tile<i32>
        iter_values(%s = %zero) -> (tile<128x128xf32>) {
      %a, %ta = load_view_tko weak %av[%x, %k] token = %t
        : partition_view<tile=(128x64), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32>
        -> tile<128x64xf16>, token
      %b, %tb = load_view_tko weak %bv[%k, %y] token = %t
        : partition_view<tile=(64x128), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32>
        -> tile<64x128xf16>, token
      %d = mmaf %a, %b, %s : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      continue %d : tile<128x128xf32>
    }
    %u = store_view_tko weak %sum, %cv[%x, %y] token = %t
      : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<1024x1024xf32, strides=[1024,1]>>,
        tile<i32> -> token
    return
  }
}
// -----
// gives_attention_to_a_warp_of_its_own
// CHECK: %[[SCORES:.*]] = nv_tileas.create_accumulator {stages = 2, column = 0, columns = 64, readers = 4}
// CHECK: %[[SUM:.*]] = nv_tileas.create_accumulator {scaled, stages = 1, column = 128, columns = 64, readers = 4}
// CHECK: %[[LEFT:.*]] = nv_tileas.create_left_operand {column = 192, writers = 4}
// CHECK: nv_tileas.product_warp {
// CHECK: nv_tileas.async.pipeline.consumer_wait
// CHECK-NEXT: nv_tileas.accumulator_acquire %[[SUM]]
// CHECK-NEXT: nv_tileas.accumulator_commit %[[SUM]]
// CHECK: nv_tileaa.if
// CHECK: nv_tileas.accumulator_acquire %[[SCORES]]
// CHECK: nv_tileaa.for
// CHECK: nv_tileaa.if
// CHECK: nv_tileas.accumulator_acquire %[[SCORES]]
// CHECK: nv_tileas.tcgen05_dot
// CHECK: nv_tileas.accumulator_commit %[[SCORES]]
// CHECK: nv_tileas.left_operand_wait %[[LEFT]]
// CHECK-NEXT: nv_tileas.tcgen05_dot %[[LEFT]], %{{.*}} into %[[SUM]]
// CHECK: nv_tileas.left_operand_release %[[LEFT]]
// CHECK-NEXT: nv_tileas.accumulator_commit %[[SUM]]
// CHECK: nv_tileas.stage_release
// CHECK: consumer {
// CHECK: nv_tileaa.for
// CHECK: nv_tileas.accumulator_load %[[SCORES]]
// CHECK: nv_tileas.accumulator_scale %[[SUM]] by
// CHECK-NEXT: nv_tileas.left_operand_store %{{.*}} into %[[LEFT]]
// CHECK: nv_tileaa.continue
// CHECK: nv_tileas.accumulator_load %[[SUM]]
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
    %half = constant <f32: 0.5> : tile<128x64xf32>
    %q, %uq = load_view_tko weak %pq[%bx, %c0] token = %t0
      : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>, tile<i32>
      -> tile<128x64xf16>, token
    %acc_0 = for %j_0 in (%c0 to %is#0, step %c1) : tile<i32>
        iter_values(%a_0 = %z) -> (tile<128x64xf32>) {
      %k_0, %uk_0 = load_view_tko weak %pk[%j_0, %c0] token = %t0
        : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>, tile<i32>
        -> tile<64x64xf16>, token
      %kt_0 = permute %k_0 [1, 0] : tile<64x64xf16> -> tile<64x64xf16>
      %p_0 = mmaf %q, %kt_0, %z : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      %r_0 = ftof %p_0 : tile<128x64xf32> -> tile<128x64xf16>
      %b_0 = mulf %a_0, %half : tile<128x64xf32>
      %v_0, %uv_0 = load_view_tko weak %pv[%j_0, %c0] token = %t0
        : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>, tile<i32>
        -> tile<64x64xf16>, token
      %d_0 = mmaf %r_0, %v_0, %b_0 : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      continue %d_0 : tile<128x64xf32>
    }
    
    %h = ftof %acc_0 : tile<128x64xf32> -> tile<128x64xf16>
    %s = store_view_tko weak %h, %po[%bx, %c0] token = %t0
      : tile<128x64xf16>, partition_view<tile=(128x64), tensor_view<?x64xf16, strides=[64,1]>>, tile<i32> -> token
    return
  }
}

// RUN: canonicalize,cse,convert-cudatile-to-tileaa,tileas-plan-cta,tileas-assign-dot-layouts,tileas-assign-load-store-layouts,tileas-assign-warp-roles,convert-tileaa-to-tileas
// makes_maps_of_views_of_a_loop_again_before_their_next_use
// CHECK: nv_tileas.async.pipeline.agent_switch
// CHECK: producer {
// CHECK: %[[COMMON:.*]] = nv_tileas.make_tiled_tma_desc %{{.*}} box [64, 64] {swizzle = 128} :
// CHECK: nv_tileaa.for
// CHECK: %[[OWN:.*]] = nv_tileas.make_tiled_tma_desc %{{.*}} box [128, 64] {swizzle = 128, renewed} :
// CHECK-NOT: make_tiled_tma_desc
// CHECK: nv_tileas.renew_tiled_tma_descs [%[[OWN]]] after [%pipeline]
// CHECK-NEXT: nv_tileaa.for
// CHECK: using %[[OWN]] {axis = 1, offset = 0}
// CHECK: using %[[COMMON]] {axis = 1, offset = 16384}
// CHECK: } consumer {
// CHECK: nv_tileas.async.pipeline.stage_for_tma_store
// CHECK: } store {
// CHECK: nv_tileaa.for
// CHECK: %[[STORED:.*]] = nv_tileas.make_tiled_tma_desc %{{.*}} box [64, 64] {swizzle = 128, renewed} :
// CHECK: nv_tileas.renew_tiled_tma_descs [%[[STORED]]] after []
// CHECK-NEXT: nv_tileas.async.pipeline.store_stage %{{.*}} using %[[STORED]] :
cuda_tile.module @m {
  entry @grouped(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f16>>, %groups: tile<i32>, %n: tile<i32>) {
    %b0 = assume div_by<16>, %B : tile<ptr<f16>>
    %t = make_token : token
    %bt = make_tensor_view %b0, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf16, strides=[1024,1]>
    %bv = make_partition_view %bt
      : partition_view<tile=(64x128), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %size = constant <i32: 1048576> : tile<i32>
    %zero = constant <f32: 0.0> : tile<128x128xf32>
    for %g in (%c0 to %groups, step %c1) : tile<i32> {
      %skip = muli %g, %size : tile<i32>
      %ap = offset %A, %skip : tile<ptr<f16>>, tile<i32> -> tile<ptr<f16>>
      %cp = offset %C, %skip : tile<ptr<f16>>, tile<i32> -> tile<ptr<f16>>
      %a0 = assume div_by<16>, %ap : tile<ptr<f16>>
      %e0 = assume div_by<16>, %cp : tile<ptr<f16>>
      %at = make_tensor_view %a0, shape = [1024, 1024], strides = [1024, 1]
        : tensor_view<1024x1024xf16, strides=[1024,1]>
      %et = make_tensor_view %e0, shape = [1024, 1024], strides = [1024, 1]
        : tensor_view<1024x1024xf16, strides=[1024,1]>
      %av = make_partition_view %at
        : partition_view<tile=(128x64), tensor_view<1024x1024xf16, strides=[1024,1]>>
      %cv = make_partition_view %et
        : partition_view<tile=(128x128), tensor_view<1024x1024xf16, strides=[1024,1]>>
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
      %half = ftof %sum rounding<nearest_even> : tile<128x128xf32> -> tile<128x128xf16>
      %u = store_view_tko weak %half, %cv[%x, %y] token = %t
        : tile<128x128xf16>, partition_view<tile=(128x128), tensor_view<1024x1024xf16, strides=[1024,1]>>,
          tile<i32> -> token
      continue
    }
    return
  }
}
// -----
// copies_by_threads_where_every_copy_would_need_a_map
// CHECK: producer {
// CHECK-NOT: renew
// CHECK: nv_tileas.async.tiled_load
// CHECK: } consumer {
cuda_tile.module @m {
  entry @moving(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f32>>, %n: tile<i32>) {
    %b0 = assume div_by<16>, %B : tile<ptr<f16>>
    %t = make_token : token
    %bt = make_tensor_view %b0, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf16, strides=[1024,1]>
    %ct = make_tensor_view %C, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf32, strides=[1024,1]>
    %bv = make_partition_view %bt
      : partition_view<tile=(64x128), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %cv = make_partition_view %ct
      : partition_view<tile=(128x128), tensor_view<1024x1024xf32, strides=[1024,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %size = constant <i32: 1048576> : tile<i32>
    %zero = constant <f32: 0.0> : tile<128x128xf32>
    %sum = for %k in (%c0 to %n, step %c1) : tile<i32>
        iter_values(%s = %zero) -> (tile<128x128xf32>) {
      %skip = muli %k, %size : tile<i32>
      %ap = offset %A, %skip : tile<ptr<f16>>, tile<i32> -> tile<ptr<f16>>
      %a0 = assume div_by<16>, %ap : tile<ptr<f16>>
      %at = make_tensor_view %a0, shape = [1024, 1024], strides = [1024, 1]
        : tensor_view<1024x1024xf16, strides=[1024,1]>
      %av = make_partition_view %at
        : partition_view<tile=(128x64), tensor_view<1024x1024xf16, strides=[1024,1]>>
      %a, %ta = load_view_tko weak %av[%x, %c0] token = %t
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

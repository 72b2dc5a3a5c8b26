// RUN: canonicalize,cse,convert-cudatile-to-tileaa,choose-strategy,tileas-plan-cta,insert-barriers,tileas-assign-dot-layouts,tileas-assign-load-store-layouts,tileas-assign-warp-roles,convert-tileaa-to-tileas --gpu-name=sm_100
// gives_products_to_a_warp_of_their_own
// CHECK: #tmem0 = #nv_tileas.tensor_memory<block_m = 128>
// CHECK-NEXT: !tmem0 = !nv_tileas.memdesc<128x128xf32, #tmem0, tmem>
// CHECK: #shared0 = #nv_tileas.nvmma_shared<swizzle = 128, major = 1>
// CHECK-NEXT: !smem0 = !nv_tileas.memdesc<128x64xf16, #shared0, smem>
// CHECK-NEXT: !smem1 = !nv_tileas.memdesc<64x128xf16, #shared0, smem>
// CHECK: %[[SUM:.*]] = nv_tileas.create_accumulator {stages = 1, column = 0, columns = 128, readers = 8} : !tmem0
// CHECK: nv_tileas.product_agent {
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

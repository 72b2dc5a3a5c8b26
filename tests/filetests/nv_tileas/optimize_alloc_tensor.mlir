// RUN: canonicalize,cse,convert-cudatile-to-tileaa,choose-strategy,tileas-plan-cta,tileas-assign-dot-layouts,tileas-assign-load-store-layouts,insert-barriers,tileas-assign-warp-roles,convert-tileaa-to-tileas,tileas-legalize-reduce,tileas-materialize-convert-layout,tileas-optimize-alloc-tensor
// gives_a_pipeline_the_stages_that_there_is_room_for
// CHECK-NOT: nv_tileas.kernel_plan
// CHECK: nv_tileas.async.pipeline.create_pipeline
// CHECK-NOT: nv_tileas.pipeline_plan
// CHECK: nv_tileas.async.pipeline.agent_switch
// CHECK: nv_tileas.dot_wait
// CHECK: nv_tileas.async.pipeline.free_pipelines
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
// leaves_kernels_whose_warps_do_the_same
// CHECK-NOT: nv_tileas.async.pipeline.free_pipelines
// CHECK: nv_tileas.tiled_load
// CHECK-NOT: nv_tileas.async.pipeline.free_pipelines
// CHECK: return
cuda_tile.module @m {
  entry @copy(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>) {
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %at = make_tensor_view %a, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %bt = make_tensor_view %b, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %av = make_partition_view %at : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>
    %bv = make_partition_view %bt : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>
    %x, %tx = load_view_tko weak %av[%i] token = %t
      : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32>
      -> tile<1024xf32>, token
    %s = store_view_tko weak %x, %bv[%i] token = %t
      : tile<1024xf32>, partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32>
      -> token
    return
  }
}

// RUN: canonicalize,cse,convert-cudatile-to-tileaa,choose-strategy,tileas-plan-cta,tileas-assign-dot-layouts,tileas-assign-load-store-layouts,insert-barriers,tileas-assign-warp-roles,convert-tileaa-to-tileas,tileas-remove-barriers
// removes_the_barrier_where_threads_store_what_they_have_loaded
// CHECK: nv_tileas.tiled_load
// CHECK-NOT: nv_tileaa.barrier
// CHECK: nv_tileas.tiled_store
cuda_tile.module @m {
  entry @twice(%a: tile<ptr<f32>>) {
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %v = make_tensor_view %a, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %w = make_partition_view %v : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>
    %x, %tx = load_view_tko weak %w[%i] token = %t : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
    %y = exp %x : tile<1024xf32>
    %s = store_view_tko weak %y, %w[%i] token = %tx : tile<1024xf32>, partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
// -----
// keeps_the_barrier_where_elements_may_overlap
// CHECK: nv_tileas.tiled_load
// CHECK: nv_tileaa.barrier
// CHECK: nv_tileas.tiled_store
cuda_tile.module @m {
  entry @twice(%a: tile<ptr<f32>>, %n: tile<i64>) {
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %v = make_tensor_view %a, shape = [4096], strides = [%n] : tile<i64> -> tensor_view<4096xf32, strides=[?]>
    %w = make_partition_view %v : partition_view<tile=(1024), tensor_view<4096xf32, strides=[?]>>
    %x, %tx = load_view_tko weak %w[%i] token = %t : partition_view<tile=(1024), tensor_view<4096xf32, strides=[?]>>, tile<i32> -> tile<1024xf32>, token
    %y = exp %x : tile<1024xf32>
    %s = store_view_tko weak %y, %w[%i] token = %tx : tile<1024xf32>, partition_view<tile=(1024), tensor_view<4096xf32, strides=[?]>>, tile<i32> -> token
    return
  }
}

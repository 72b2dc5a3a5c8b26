// RUN: convert-cudatile-to-tileaa
// CHECK: nv_tileaa.func @makes_facts_and_memory_order_explicit
// CHECK: nv_tileaa.create_mem_token
// CHECK: nv_tileaa.make_memref {{.*}}base_align = 16
// CHECK: nv_tileaa.tiled_load
// CHECK: nv_tileaa.addf
// CHECK: nv_tileaa.tiled_store
cuda_tile.module @m {
  entry @makes_facts_and_memory_order_explicit(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %c1 = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %p1 = assume div_by<16>, %p : tile<ptr<f32>>
    %v = make_tensor_view %p1, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %w = make_partition_view %v : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %a, %ta = load_view_tko weak %w[%x] token = %t
      : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
    %b = addf %a, %a : tile<1024xf32>
    %s = store_view_tko weak %b, %w[%x] token = %ta
      : tile<1024xf32>, partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
// -----
// CHECK: nv_tileaa.func @promises_nothing_that_is_not_assumed
// CHECK-NOT: base_align = 16
// CHECK: nv_tileaa.tiled_store
cuda_tile.module @m {
  entry @promises_nothing_that_is_not_assumed(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %c1 = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %p1 = assume div_by<1>, %p : tile<ptr<f32>>
    %v = make_tensor_view %p1, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %w = make_partition_view %v : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %a, %ta = load_view_tko weak %w[%x] token = %t
      : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
    %b = addf %a, %a : tile<1024xf32>
    %s = store_view_tko weak %b, %w[%x] token = %ta
      : tile<1024xf32>, partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}

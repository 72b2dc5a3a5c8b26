// RUN: canonicalize,cse,convert-cudatile-to-tileaa,insert-barriers
// threads_meet_between_a_store_and_a_load_behind_it
// CHECK: nv_tileaa.tiled_store
// CHECK-NEXT: nv_tileaa.barrier
// CHECK: nv_tileaa.tiled_load
// CHECK-NOT: nv_tileaa.barrier
// CHECK: return
cuda_tile.module @m {
  entry @ordered(%a: tile<ptr<f32>>, %i: tile<i32>, %j: tile<i32>) {
    %x = constant <f32: 1.0> : tile<64xf32>
    %v = make_tensor_view %a, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %w = make_partition_view %v : partition_view<tile=(64), tensor_view<4096xf32, strides=[1]>>
    %s = store_view_tko weak %x, %w[%i]
      : tile<64xf32>, partition_view<tile=(64), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> token
    %y, %t = load_view_tko weak %w[%j] token = %s
      : partition_view<tile=(64), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> tile<64xf32>, token
    print_tko "%f\0A", %y : tile<64xf32> -> token
    return
  }
}
// -----
// accesses_in_no_order_need_no_barrier
// CHECK: nv_tileaa.tiled_store
// CHECK-NOT: nv_tileaa.barrier
// CHECK: return
cuda_tile.module @m {
  entry @unordered(%a: tile<ptr<f32>>, %i: tile<i32>, %j: tile<i32>) {
    %x = constant <f32: 1.0> : tile<64xf32>
    %v = make_tensor_view %a, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %w = make_partition_view %v : partition_view<tile=(64), tensor_view<4096xf32, strides=[1]>>
    %s = store_view_tko weak %x, %w[%i]
      : tile<64xf32>, partition_view<tile=(64), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> token
    %y, %t = load_view_tko weak %w[%j]
      : partition_view<tile=(64), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> tile<64xf32>, token
    print_tko "%f\0A", %y : tile<64xf32> -> token
    return
  }
}

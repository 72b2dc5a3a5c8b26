// RUN: hoist-views
// CHECK: make_tensor_view
// CHECK: make_partition_view
// CHECK: for
// CHECK-NOT: make_tensor_view
// CHECK: load_view_tko
cuda_tile.module @m {
  entry @moves_a_view_in_front_of_its_loop(%p: tile<ptr<f16>>, %n: tile<i32>, %m: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<16x16xf32>
    for %i in (%zero to %m, step %one) : tile<i32> {
      %s = muli %n, %n : tile<i32>
      %v = make_tensor_view %p, shape = [%s, 16], strides = [16, 1]
        : tile<i32> -> tensor_view<?x16xf16, strides=[16,1]>
      %t = make_partition_view %v
        : partition_view<tile=(16x16), tensor_view<?x16xf16, strides=[16,1]>>
      %x, %token = load_view_tko weak %t[%i, %zero]
        : partition_view<tile=(16x16), tensor_view<?x16xf16, strides=[16,1]>>, tile<i32>
        -> tile<16x16xf16>, token
      %y = mmaf %x, %x, %none : tile<16x16xf16>, tile<16x16xf16>, tile<16x16xf32>
      print_tko "%f", %y : tile<16x16xf32> -> token
      continue
    }
    return
  }
}
// -----
// CHECK: for
// CHECK: make_tensor_view
// CHECK: load_view_tko
cuda_tile.module @m {
  entry @leaves_a_view_of_what_the_loop_computes(%p: tile<ptr<f16>>, %n: tile<i32>, %m: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<16x16xf32>
    for %i in (%zero to %m, step %one) : tile<i32> {
      %s = muli %n, %i : tile<i32>
      %v = make_tensor_view %p, shape = [%s, 16], strides = [16, 1]
        : tile<i32> -> tensor_view<?x16xf16, strides=[16,1]>
      %t = make_partition_view %v
        : partition_view<tile=(16x16), tensor_view<?x16xf16, strides=[16,1]>>
      %x, %token = load_view_tko weak %t[%i, %zero]
        : partition_view<tile=(16x16), tensor_view<?x16xf16, strides=[16,1]>>, tile<i32>
        -> tile<16x16xf16>, token
      %y = mmaf %x, %x, %none : tile<16x16xf16>, tile<16x16xf16>, tile<16x16xf32>
      print_tko "%f", %y : tile<16x16xf32> -> token
      continue
    }
    return
  }
}

// RUN: convert-cudatile-to-tileaa,tileas-slicing
// splits_a_copy_into_a_loop
// CHECK: nv_tileaa.func
// CHECK-NOT: tensor<65536xf32>
// CHECK: nv_tileaa.for
// CHECK: nv_tileaa.tiled_load
// CHECK-SAME: tensor<8192xf32>
// CHECK: nv_tileaa.tiled_store
// CHECK-SAME: tensor<8192xf32>
// CHECK: nv_tileaa.continue
cuda_tile.module @m {
  entry @copy(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>) {
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %at = make_tensor_view %a, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %bt = make_tensor_view %b, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %av = make_partition_view %at
        : partition_view<tile=(65536), tensor_view<65536xf32, strides=[1]>>
    %bv = make_partition_view %bt
        : partition_view<tile=(65536), tensor_view<65536xf32, strides=[1]>>
    %x, %tx = load_view_tko weak %av[%i] token = %t
        : partition_view<tile=(65536), tensor_view<65536xf32, strides=[1]>>, tile<i32>
          -> tile<65536xf32>, token
    %s = store_view_tko weak %x, %bv[%i] token = %t
        : tile<65536xf32>, partition_view<tile=(65536), tensor_view<65536xf32, strides=[1]>>,
          tile<i32> -> token
    return
  }
}
// -----
// leaves_a_store_that_tokens_order_after_its_load
// CHECK: nv_tileaa.tiled_load
// CHECK-SAME: tensor<65536xf32>
// CHECK-NOT: nv_tileaa.for
cuda_tile.module @m {
  entry @ordered(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>) {
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %at = make_tensor_view %a, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %bt = make_tensor_view %b, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %av = make_partition_view %at
        : partition_view<tile=(65536), tensor_view<65536xf32, strides=[1]>>
    %bv = make_partition_view %bt
        : partition_view<tile=(65536), tensor_view<65536xf32, strides=[1]>>
    %x, %tx = load_view_tko weak %av[%i] token = %t
        : partition_view<tile=(65536), tensor_view<65536xf32, strides=[1]>>, tile<i32>
          -> tile<65536xf32>, token
    %s = store_view_tko weak %x, %bv[%i] token = %tx
        : tile<65536xf32>, partition_view<tile=(65536), tensor_view<65536xf32, strides=[1]>>,
          tile<i32> -> token
    return
  }
}
// -----
// leaves_a_tile_that_fits
// CHECK: nv_tileaa.tiled_load
// CHECK-SAME: tensor<32768xf32>
// CHECK-NOT: nv_tileaa.for
cuda_tile.module @m {
  entry @small(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>) {
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %at = make_tensor_view %a, shape = [32768], strides = [1] : tensor_view<32768xf32, strides=[1]>
    %bt = make_tensor_view %b, shape = [32768], strides = [1] : tensor_view<32768xf32, strides=[1]>
    %av = make_partition_view %at
        : partition_view<tile=(32768), tensor_view<32768xf32, strides=[1]>>
    %bv = make_partition_view %bt
        : partition_view<tile=(32768), tensor_view<32768xf32, strides=[1]>>
    %x, %tx = load_view_tko weak %av[%i] token = %t
        : partition_view<tile=(32768), tensor_view<32768xf32, strides=[1]>>, tile<i32>
          -> tile<32768xf32>, token
    %s = store_view_tko weak %x, %bv[%i] token = %t
        : tile<32768xf32>, partition_view<tile=(32768), tensor_view<32768xf32, strides=[1]>>,
          tile<i32> -> token
    return
  }
}

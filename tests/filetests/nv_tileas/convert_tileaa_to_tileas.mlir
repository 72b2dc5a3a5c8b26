// RUN: ...,convert-tileaa-to-tileas
// CHECK: #blocked0 = #nv_tileas.layout<
// CHECK: nv_tileas.tiled_load {{.*}}tensor<1024xf32, #blocked0>
// CHECK: nv_tileaa.addf {{.*}} : tensor<1024xf32, #blocked0>
// CHECK: nv_tileas.tiled_store
cuda_tile.module @m {
  entry @gives_every_tensor_a_layout(%p: tile<ptr<f32>>, %n: tile<i32>) {
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
// CHECK-NOT: #nv_tileas.layout
// CHECK: nv_tileaa.print
cuda_tile.module @m {
  entry @leaves_scalars_as_they_are(%x: tile<i32>) {
    print_tko "%d", %x : tile<i32> -> token
    return
  }
}

// RUN: convert-cudatile-to-tileaa,tileas-plan-cta,tileas-assign-dot-layouts,tileas-assign-load-store-layouts,convert-tileaa-to-tileas --verify-each

cuda_tile.module @m {
  // Facts about the pointer end up on the view, and every memory operation has a token.
  // CHECK: #blocked0 = #nv_tileas.layout<
  // CHECK: nv_tileaa.func @doubles(
  // CHECK: nv_tileaa.make_memref {{.*}}base_align = 16
  // CHECK: nv_tileas.tiled_load
  // The loaded tile has a layout, which the addition keeps.
  // CHECK: nv_tileaa.addf {{.*}} : tensor<1024xf32, #blocked0>
  // CHECK: nv_tileas.tiled_store
  // CHECK-NOT: convert_layout
  entry @doubles(%a: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %p = assume div_by<16>, %a : tile<ptr<f32>>
    %view = make_tensor_view %p, shape = [%n], strides = [1]
        : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %tiles = make_partition_view %view
        : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %v, %u = load_view_tko weak %tiles[%x] token = %t
        : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32>
          -> tile<1024xf32>, token
    %s = addf %v, %v : tile<1024xf32>
    %w = store_view_tko weak %s, %tiles[%x] token = %u
        : tile<1024xf32>, partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32>
          -> token
    return
  }
}

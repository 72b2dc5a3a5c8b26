// RUN: ...,tileas-materialize-convert-layout
// a_transposed_tile_goes_through_shared_memory_swizzled
// CHECK: #[[SMEM:.*]] = #nv_tileas.layout<{offset =
// CHECK: nv_tileas.convert_layout %{{.*}} {by = #nv_tileas.through_smem<store = {{[0-9]+}}, load = {{[0-9]+}}, layout = #[[SMEM]]>}
cuda_tile.module @m {
  entry @turn(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f32>>
    %b0 = assume div_by<16>, %b : tile<ptr<f32>>
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %at = make_tensor_view %a0, shape = [64, 64], strides = [1, 64]
      : tensor_view<64x64xf32, strides=[1,64]>
    %bt = make_tensor_view %b0, shape = [64, 64], strides = [64, 1]
      : tensor_view<64x64xf32, strides=[64,1]>
    %av = make_partition_view %at
      : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[1,64]>>
    %bv = make_partition_view %bt
      : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %x, %tx = load_view_tko weak %av[%i, %i] token = %t
      : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[1,64]>>, tile<i32>
      -> tile<64x64xf32>, token
    %s = store_view_tko weak %x, %bv[%i, %i] token = %t
      : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>,
        tile<i32> -> token
    return
  }
}
// -----
// a_slice_that_some_threads_hold_goes_through_shared_memory
// CHECK: nv_tileaa.extract
// CHECK-SAME: by = #nv_tileas.through_smem<
cuda_tile.module @m {
  entry @slice(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %n: tile<i32>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f32>>
    %b0 = assume div_by<16>, %b : tile<ptr<f32>>
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %at = make_tensor_view %a0, shape = [1024], strides = [1] : tensor_view<1024xf32, strides=[1]>
    %bt = make_tensor_view %b0, shape = [128], strides = [1] : tensor_view<128xf32, strides=[1]>
    %av = make_partition_view %at : partition_view<tile=(1024), tensor_view<1024xf32, strides=[1]>>
    %bv = make_partition_view %bt : partition_view<tile=(128), tensor_view<128xf32, strides=[1]>>
    %x, %tx = load_view_tko weak %av[%i] token = %t
      : partition_view<tile=(1024), tensor_view<1024xf32, strides=[1]>>, tile<i32>
      -> tile<1024xf32>, token
    %y = extract %x[%n] : tile<1024xf32> -> tile<128xf32>
    %s = store_view_tko weak %y, %bv[%i] token = %t
      : tile<128xf32>, partition_view<tile=(128), tensor_view<128xf32, strides=[1]>>, tile<i32>
      -> token
    return
  }
}
// -----
// tiles_are_joined_in_registers_and_converted_afterwards
// CHECK: %[[JOINED:.*]] = nv_tileaa.cat
// CHECK-NEXT: nv_tileas.convert_layout %[[JOINED]] {by = #nv_tileas.through_smem<
cuda_tile.module @m {
  entry @join(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f32>>
    %b0 = assume div_by<16>, %b : tile<ptr<f32>>
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %at = make_tensor_view %a0, shape = [64, 64], strides = [64, 1]
      : tensor_view<64x64xf32, strides=[64,1]>
    %bt = make_tensor_view %b0, shape = [32, 128], strides = [128, 1]
      : tensor_view<32x128xf32, strides=[128,1]>
    %av = make_partition_view %at
      : partition_view<tile=(32x64), tensor_view<64x64xf32, strides=[64,1]>>
    %bv = make_partition_view %bt
      : partition_view<tile=(32x128), tensor_view<32x128xf32, strides=[128,1]>>
    %x, %tx = load_view_tko weak %av[%i, %i] token = %t
      : partition_view<tile=(32x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32>
      -> tile<32x64xf32>, token
    %y, %ty = load_view_tko weak %av[%one, %i] token = %t
      : partition_view<tile=(32x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32>
      -> tile<32x64xf32>, token
    %z = cat %x, %y dim = 1 : tile<32x64xf32>, tile<32x64xf32> -> tile<32x128xf32>
    %s = store_view_tko weak %z, %bv[%i, %i] token = %t
      : tile<32x128xf32>, partition_view<tile=(32x128), tensor_view<32x128xf32, strides=[128,1]>>,
        tile<i32> -> token
    return
  }
}
// -----
// leaves_programs_whose_tiles_stay_where_they_are
// CHECK: nv_tileas.tiled_load
// CHECK-NOT: by =
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

// RUN: ...,tileas-dynamic-persistent --gpu-name=sm_90
// CHECK: nv_tileaa.func @draws_tile_blocks
// CHECK: static_tile_scheduler, tile_queue = 1
// CHECK: nv_tileaa.for %{{.*}} to %{{.*}} step %{{.*}} : i32 attributes {takes_over} {
// CHECK: nv_tileaa.tiled_load
// CHECK: nv_tileaa.for
// CHECK: nv_tileaa.dot
// CHECK: nv_tileaa.tiled_store
cuda_tile.module @m {
  entry @draws_tile_blocks(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f16>>, %L: tile<ptr<i32>>,
                %M: tile<i32>, %N: tile<i32>, %K: tile<i32>, %S: tile<i32>) {
    %A1 = assume div_by<16>, %A : tile<ptr<f16>>
    %B1 = assume div_by<16>, %B : tile<ptr<f16>>
    %C1 = assume div_by<16>, %C : tile<ptr<f16>>
    %N1 = assume div_by<16>, %N : tile<i32>
    %K1 = assume div_by<16>, %K : tile<i32>
    %t = make_token : token
    %ta = make_tensor_view %A1, shape = [%M, %K1], strides = [%K1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tb = make_tensor_view %B1, shape = [%K1, %N1], strides = [%N1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tc = make_tensor_view %C1, shape = [%M, %N1], strides = [%N1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tl = make_tensor_view %L, shape = [%S], strides = [1]
      : tile<i32> -> tensor_view<?xi32, strides=[1]>
    %pa = make_partition_view %ta
      : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pb = make_partition_view %tb
      : partition_view<tile=(64x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pc = make_partition_view %tc
      : partition_view<tile=(128x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pl = make_partition_view %tl
      : partition_view<tile=(1), tensor_view<?xi32, strides=[1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %all:2 = get_index_space_shape %pa
      : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
        -> tile<i32>
    %l1, %ul = load_view_tko weak %pl[%y] token = %t
      : partition_view<tile=(1), tensor_view<?xi32, strides=[1]>>, tile<i32>
      -> tile<1xi32>, token
    %length = reshape %l1 : tile<1xi32> -> tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %zero = constant <f32: 0.0> : tile<128x256xf32>
    %steps = mini %length, %all#1 signed : tile<i32>
    %sum = for %k in (%c0 to %steps, step %c1) : tile<i32>
        iter_values(%s = %zero) -> (tile<128x256xf32>) {
      %a, %ka = load_view_tko weak %pa[%x, %k] token = %t
        : partition_view<tile=(128x64), padding_value = zero,
          tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<128x64xf16>, token
      %b, %kb = load_view_tko weak %pb[%k, %y] token = %t
        : partition_view<tile=(64x256), padding_value = zero,
          tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x256xf16>, token
      %d = mmaf %a, %b, %s : tile<128x64xf16>, tile<64x256xf16>, tile<128x256xf32>
      continue %d : tile<128x256xf32>
    }
    %h = ftof %sum : tile<128x256xf32> -> tile<128x256xf16>
    %u = store_view_tko weak %h, %pc[%x, %y] token = %t
      : tile<128x256xf16>, partition_view<tile=(128x256), padding_value = zero,
        tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> token
    return
  }
}
// -----
// CHECK-NOT: takes_over
// CHECK: nv_tileaa.tiled_store
cuda_tile.module @m {
  entry @leaves_tiles_that_share_an_sm(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f16>>, %L: tile<ptr<i32>>,
                %M: tile<i32>, %N: tile<i32>, %K: tile<i32>, %S: tile<i32>) {
    %A1 = assume div_by<16>, %A : tile<ptr<f16>>
    %B1 = assume div_by<16>, %B : tile<ptr<f16>>
    %C1 = assume div_by<16>, %C : tile<ptr<f16>>
    %N1 = assume div_by<16>, %N : tile<i32>
    %K1 = assume div_by<16>, %K : tile<i32>
    %t = make_token : token
    %ta = make_tensor_view %A1, shape = [%M, %K1], strides = [%K1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tb = make_tensor_view %B1, shape = [%K1, %N1], strides = [%N1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tc = make_tensor_view %C1, shape = [%M, %N1], strides = [%N1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tl = make_tensor_view %L, shape = [%S], strides = [1]
      : tile<i32> -> tensor_view<?xi32, strides=[1]>
    %pa = make_partition_view %ta
      : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pb = make_partition_view %tb
      : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pc = make_partition_view %tc
      : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pl = make_partition_view %tl
      : partition_view<tile=(1), tensor_view<?xi32, strides=[1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %all:2 = get_index_space_shape %pa
      : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
        -> tile<i32>
    %l1, %ul = load_view_tko weak %pl[%y] token = %t
      : partition_view<tile=(1), tensor_view<?xi32, strides=[1]>>, tile<i32>
      -> tile<1xi32>, token
    %length = reshape %l1 : tile<1xi32> -> tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %zero = constant <f32: 0.0> : tile<64x128xf32>
    %steps = mini %length, %all#1 signed : tile<i32>
    %sum = for %k in (%c0 to %steps, step %c1) : tile<i32>
        iter_values(%s = %zero) -> (tile<64x128xf32>) {
      %a, %ka = load_view_tko weak %pa[%x, %k] token = %t
        : partition_view<tile=(64x64), padding_value = zero,
          tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x64xf16>, token
      %b, %kb = load_view_tko weak %pb[%k, %y] token = %t
        : partition_view<tile=(64x128), padding_value = zero,
          tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x128xf16>, token
      %d = mmaf %a, %b, %s : tile<64x64xf16>, tile<64x128xf16>, tile<64x128xf32>
      continue %d : tile<64x128xf32>
    }
    %h = ftof %sum : tile<64x128xf32> -> tile<64x128xf16>
    %u = store_view_tko weak %h, %pc[%x, %y] token = %t
      : tile<64x128xf16>, partition_view<tile=(64x128), padding_value = zero,
        tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> token
    return
  }
}

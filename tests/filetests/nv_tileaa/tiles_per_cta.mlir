// RUN: ...,tiles-per-cta
// CHECK: two_tiles = "rounds"
// CHECK: nv_tileaa.dot
// CHECK: nv_tileaa.dot
// CHECK: } else {
// CHECK: nv_tileaa.dot
cuda_tile.module @m {
  entry @computes_two_tiles_of_a_round_at_once(%A0: tile<ptr<f16>>, %B0: tile<ptr<f16>>, %C0: tile<ptr<f32>>, %locks: tile<ptr<i32>>, %M: tile<i32>, %N: tile<i32>, %K: tile<i32>, %Afirst: tile<i32>, %As0: tile<i32>, %As1: tile<i32>, %As2: tile<i32>, %Bfirst: tile<i32>, %Bs0: tile<i32>, %Bs1: tile<i32>, %Bs2: tile<i32>, %Cfirst: tile<i32>, %Cs0: tile<i32>, %Cs1: tile<i32>, %Cs2: tile<i32>) {
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %c2 = constant <i32: 2> : tile<i32>
    %t0 = make_token : token
    %x, %y, %z = get_tile_block_id : tile<i32>
    %nx, %ny, %nz = get_num_tile_blocks : tile<i32>
    %zero = constant <f32: 0.0> : tile<128x128xf32>
    %A1 = offset %A0, %Afirst : tile<ptr<f16>>, tile<i32> -> tile<ptr<f16>>
    %A1k = assume div_by<16>, %A1 : tile<ptr<f16>>
    %As0k = assume div_by<8>, %As0 : tile<i32>
    %As1k = assume div_by<8>, %As1 : tile<i32>
    %As2k = assume div_by<8>, %As2 : tile<i32>
    %tA = make_tensor_view %A1k, shape = [%M, %K], strides = [%As1k, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %pA = make_partition_view %tA : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %B1 = offset %B0, %Bfirst : tile<ptr<f16>>, tile<i32> -> tile<ptr<f16>>
    %B1k = assume div_by<16>, %B1 : tile<ptr<f16>>
    %Bs0k = assume div_by<8>, %Bs0 : tile<i32>
    %Bs1k = assume div_by<8>, %Bs1 : tile<i32>
    %Bs2k = assume div_by<8>, %Bs2 : tile<i32>
    %tB = make_tensor_view %B1k, shape = [%K, %N], strides = [%Bs1k, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %pB = make_partition_view %tB : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %C1 = offset %C0, %Cfirst : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
    %C1k = assume div_by<1>, %C1 : tile<ptr<f32>>
    %Cs0k = assume div_by<1>, %Cs0 : tile<i32>
    %Cs1k = assume div_by<1>, %Cs1 : tile<i32>
    %Cs2k = assume div_by<1>, %Cs2 : tile<i32>
    %tC = make_tensor_view %C1k, shape = [%M, %N], strides = [%Cs1k, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %pC = make_partition_view %tC : partition_view<tile=(128x128), tensor_view<?x?xf32, strides=[?,1]>>
    %space:2 = get_index_space_shape %pA : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>> -> tile<i32>
    %tiles:2 = get_index_space_shape %pC : partition_view<tile=(128x128), tensor_view<?x?xf32, strides=[?,1]>> -> tile<i32>
    %total = muli %tiles#0, %tiles#1 : tile<i32>
    for %tile in (%x to %total, step %nx) : tile<i32> {
    %row = divi %tile, %tiles#1 signed : tile<i32>
    %column = remi %tile, %tiles#1 signed : tile<i32>
    %sum = for %k in (%c0 to %space#1, step %c1) : tile<i32>
    iter_values(%before = %zero) -> (tile<128x128xf32>) {
    %Av, %Avt = load_view_tko weak %pA[%row, %k] token = %t0 : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<128x64xf16>, token
    %Bv, %Bvt = load_view_tko weak %pB[%k, %column] token = %t0 : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x128xf16>, token
    %after = mmaf %Av, %Bv, %before : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
    continue %after : tile<128x128xf32>
    }
    %stored = store_view_tko weak %sum, %pC[%row, %column] token = %t0 : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
    continue
    }
    return
  }
}
// -----
// CHECK-NOT: two_tiles
// CHECK: nv_tileaa.dot
// CHECK-NOT: nv_tileaa.dot
cuda_tile.module @m {
  entry @leaves_tiles_of_which_two_do_not_fit(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f16>>,
              %M: tile<i32>, %N: tile<i32>, %K: tile<i32>) {
    %A1 = assume div_by<16>, %A : tile<ptr<f16>>
    %B1 = assume div_by<16>, %B : tile<ptr<f16>>
    %N1 = assume div_by<16>, %N : tile<i32>
    %K1 = assume div_by<16>, %K : tile<i32>
    %C1 = assume div_by<16>, %C : tile<ptr<f16>>
    %t0 = make_token : token
    %ta = make_tensor_view %A1, shape = [%M, %K1], strides = [%K1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tb = make_tensor_view %B1, shape = [%K1, %N1], strides = [%N1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tc = make_tensor_view %C1, shape = [%M, %N1], strides = [%N1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %pa = make_partition_view %ta : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pb = make_partition_view %tb : partition_view<tile=(64x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pc = make_partition_view %tc : partition_view<tile=(128x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %is:2 = get_index_space_shape %pa : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>> -> tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %z = constant <f32: 0.0> : tile<128x256xf32>
    %acc, %tl = for %k in (%c0 to %is#1, step %c1) : tile<i32>
        iter_values(%a0 = %z, %t = %t0) -> (tile<128x256xf32>, token) {
      %a, %ka = load_view_tko weak %pa[%bx, %k] token = %t0
        : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<128x64xf16>, token
      %b, %kb = load_view_tko weak %pb[%k, %by] token = %t0
        : partition_view<tile=(64x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x256xf16>, token
      %d = mmaf %a, %b, %a0 : tile<128x64xf16>, tile<64x256xf16>, tile<128x256xf32>
      
      continue %d, %t : tile<128x256xf32>, token
    }
    %h = ftof %acc : tile<128x256xf32> -> tile<128x256xf16>
    %s = store_view_tko weak %h, %pc[%bx, %by] token = %tl
      : tile<128x256xf16>, partition_view<tile=(128x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> token
    return
  }
}
// -----
// CHECK: static_tile_scheduler
// CHECK-SAME: two_tiles = "blocks"
// CHECK: nv_tileaa.return
// CHECK: nv_tileaa.for
// CHECK: nv_tileaa.dot
// CHECK: nv_tileaa.dot
// CHECK: nv_tileaa.tiled_store
// CHECK: nv_tileaa.tiled_store
// CHECK: nv_tileaa.for
// CHECK: nv_tileaa.dot
// CHECK: nv_tileaa.tiled_store
// CHECK-NOT: nv_tileaa.dot
cuda_tile.module @m {
  entry @divides_the_grid(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f16>>,
              %M: tile<i32>, %N: tile<i32>, %K: tile<i32>) {
    %A1 = assume div_by<16>, %A : tile<ptr<f16>>
    %B1 = assume div_by<16>, %B : tile<ptr<f16>>
    %N1 = assume div_by<16>, %N : tile<i32>
    %K1 = assume div_by<16>, %K : tile<i32>
    %C1 = assume div_by<16>, %C : tile<ptr<f16>>
    %t0 = make_token : token
    %ta = make_tensor_view %A1, shape = [%M, %K1], strides = [%K1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tb = make_tensor_view %B1, shape = [%K1, %N1], strides = [%N1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tc = make_tensor_view %C1, shape = [%M, %N1], strides = [%N1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %pa = make_partition_view %ta : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pb = make_partition_view %tb : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pc = make_partition_view %tc : partition_view<tile=(128x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %is:2 = get_index_space_shape %pa : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>> -> tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %z = constant <f32: 0.0> : tile<128x128xf32>
    %acc, %tl = for %k in (%c0 to %is#1, step %c1) : tile<i32>
        iter_values(%a0 = %z, %t = %t0) -> (tile<128x128xf32>, token) {
      %a, %ka = load_view_tko weak %pa[%bx, %k] token = %t0
        : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<128x64xf16>, token
      %b, %kb = load_view_tko weak %pb[%k, %by] token = %t0
        : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x128xf16>, token
      %d = mmaf %a, %b, %a0 : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      
      continue %d, %t : tile<128x128xf32>, token
    }
    %h = ftof %acc : tile<128x128xf32> -> tile<128x128xf16>
    %s = store_view_tko weak %h, %pc[%bx, %by] token = %tl
      : tile<128x128xf16>, partition_view<tile=(128x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> token
    return
  }
}

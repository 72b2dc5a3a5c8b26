// RUN: ...,form-clusters --gpu-name=sm_100
// CHECK: cluster = 2, pair
// CHECK: tiled_load
// CHECK-NOT: halved
// CHECK: tensor<128x64xf16>
// CHECK: halved = 1
// CHECK: tensor<64x256xf16>
// CHECK: nv_tileaa.dot
cuda_tile.module @m {
  entry @pairs_the_ctas_that_divide_a_tile(%A0: tile<ptr<f16>>, %B0: tile<ptr<f16>>, %C0: tile<ptr<f32>>, %locks: tile<ptr<i32>>, %M: tile<i32>, %N: tile<i32>, %K: tile<i32>, %Afirst: tile<i32>, %As0: tile<i32>, %As1: tile<i32>, %As2: tile<i32>, %Bfirst: tile<i32>, %Bs0: tile<i32>, %Bs1: tile<i32>, %Bs2: tile<i32>, %Cfirst: tile<i32>, %Cs0: tile<i32>, %Cs1: tile<i32>, %Cs2: tile<i32>) {
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %c2 = constant <i32: 2> : tile<i32>
    %t0 = make_token : token
    %x, %y, %z = get_tile_block_id : tile<i32>
    %nx, %ny, %nz = get_num_tile_blocks : tile<i32>
    %zero = constant <f32: 0.0> : tile<256x256xf32>
    %A1 = offset %A0, %Afirst : tile<ptr<f16>>, tile<i32> -> tile<ptr<f16>>
    %A1k = assume div_by<16>, %A1 : tile<ptr<f16>>
    %As0k = assume div_by<8>, %As0 : tile<i32>
    %As1k = assume div_by<8>, %As1 : tile<i32>
    %As2k = assume div_by<8>, %As2 : tile<i32>
    %tA = make_tensor_view %A1k, shape = [%M, %K], strides = [%As1k, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %pA = make_partition_view %tA : partition_view<tile=(256x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %B1 = offset %B0, %Bfirst : tile<ptr<f16>>, tile<i32> -> tile<ptr<f16>>
    %B1k = assume div_by<16>, %B1 : tile<ptr<f16>>
    %Bs0k = assume div_by<8>, %Bs0 : tile<i32>
    %Bs1k = assume div_by<8>, %Bs1 : tile<i32>
    %Bs2k = assume div_by<8>, %Bs2 : tile<i32>
    %tB = make_tensor_view %B1k, shape = [%K, %N], strides = [%Bs1k, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %pB = make_partition_view %tB : partition_view<tile=(64x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %C1 = offset %C0, %Cfirst : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
    %C1k = assume div_by<1>, %C1 : tile<ptr<f32>>
    %Cs0k = assume div_by<1>, %Cs0 : tile<i32>
    %Cs1k = assume div_by<1>, %Cs1 : tile<i32>
    %Cs2k = assume div_by<1>, %Cs2 : tile<i32>
    %tC = make_tensor_view %C1k, shape = [%M, %N], strides = [%Cs1k, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %pC = make_partition_view %tC : partition_view<tile=(256x256), tensor_view<?x?xf32, strides=[?,1]>>
    %space:2 = get_index_space_shape %pA : partition_view<tile=(256x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>> -> tile<i32>
    %sum = for %k in (%c0 to %space#1, step %c1) : tile<i32>
    iter_values(%before = %zero) -> (tile<256x256xf32>) {
    %Av, %Avt = load_view_tko weak %pA[%x, %k] token = %t0 : partition_view<tile=(256x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<256x64xf16>, token
    %Bv, %Bvt = load_view_tko weak %pB[%k, %y] token = %t0 : partition_view<tile=(64x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x256xf16>, token
    %after = mmaf %Av, %Bv, %before : tile<256x64xf16>, tile<64x256xf16>, tile<256x256xf32>
    continue %after : tile<256x256xf32>
    }
    %stored = store_view_tko weak %sum, %pC[%x, %y] token = %t0 : tile<256x256xf32>, partition_view<tile=(256x256), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
    return
  }
}
// -----
// CHECK-NOT: cluster = 2
// CHECK: nv_tileaa.tiled_store
cuda_tile.module @m {
  entry @leaves_the_tile_of_one_cta(%A0: tile<ptr<f16>>, %B0: tile<ptr<f16>>, %C0: tile<ptr<f32>>, %locks: tile<ptr<i32>>, %M: tile<i32>, %N: tile<i32>, %K: tile<i32>, %Afirst: tile<i32>, %As0: tile<i32>, %As1: tile<i32>, %As2: tile<i32>, %Bfirst: tile<i32>, %Bs0: tile<i32>, %Bs1: tile<i32>, %Bs2: tile<i32>, %Cfirst: tile<i32>, %Cs0: tile<i32>, %Cs1: tile<i32>, %Cs2: tile<i32>) optimization_hints=<sm_100 = {num_cta_in_cga = 1}> {
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %c2 = constant <i32: 2> : tile<i32>
    %t0 = make_token : token
    %x, %y, %z = get_tile_block_id : tile<i32>
    %nx, %ny, %nz = get_num_tile_blocks : tile<i32>
    %zero = constant <f32: 0.0> : tile<256x256xf32>
    %A1 = offset %A0, %Afirst : tile<ptr<f16>>, tile<i32> -> tile<ptr<f16>>
    %A1k = assume div_by<16>, %A1 : tile<ptr<f16>>
    %As0k = assume div_by<8>, %As0 : tile<i32>
    %As1k = assume div_by<8>, %As1 : tile<i32>
    %As2k = assume div_by<8>, %As2 : tile<i32>
    %tA = make_tensor_view %A1k, shape = [%M, %K], strides = [%As1k, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %pA = make_partition_view %tA : partition_view<tile=(256x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %B1 = offset %B0, %Bfirst : tile<ptr<f16>>, tile<i32> -> tile<ptr<f16>>
    %B1k = assume div_by<16>, %B1 : tile<ptr<f16>>
    %Bs0k = assume div_by<8>, %Bs0 : tile<i32>
    %Bs1k = assume div_by<8>, %Bs1 : tile<i32>
    %Bs2k = assume div_by<8>, %Bs2 : tile<i32>
    %tB = make_tensor_view %B1k, shape = [%K, %N], strides = [%Bs1k, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %pB = make_partition_view %tB : partition_view<tile=(64x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %C1 = offset %C0, %Cfirst : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
    %C1k = assume div_by<1>, %C1 : tile<ptr<f32>>
    %Cs0k = assume div_by<1>, %Cs0 : tile<i32>
    %Cs1k = assume div_by<1>, %Cs1 : tile<i32>
    %Cs2k = assume div_by<1>, %Cs2 : tile<i32>
    %tC = make_tensor_view %C1k, shape = [%M, %N], strides = [%Cs1k, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %pC = make_partition_view %tC : partition_view<tile=(256x256), tensor_view<?x?xf32, strides=[?,1]>>
    %space:2 = get_index_space_shape %pA : partition_view<tile=(256x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>> -> tile<i32>
    %sum = for %k in (%c0 to %space#1, step %c1) : tile<i32>
    iter_values(%before = %zero) -> (tile<256x256xf32>) {
    %Av, %Avt = load_view_tko weak %pA[%x, %k] token = %t0 : partition_view<tile=(256x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<256x64xf16>, token
    %Bv, %Bvt = load_view_tko weak %pB[%k, %y] token = %t0 : partition_view<tile=(64x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x256xf16>, token
    %after = mmaf %Av, %Bv, %before : tile<256x64xf16>, tile<64x256xf16>, tile<256x256xf32>
    continue %after : tile<256x256xf32>
    }
    %stored = store_view_tko weak %sum, %pC[%x, %y] token = %t0 : tile<256x256xf32>, partition_view<tile=(256x256), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
    return
  }
}

// RUN: canonicalize,cse,convert-cudatile-to-tileaa,choose-strategy,tileas-plan-cta,tileas-assign-dot-layouts,tileas-assign-load-store-layouts,insert-barriers,tileas-assign-warp-roles,convert-tileaa-to-tileas,tileas-fuse-products
// products_with_a_common_left_operand_become_one
// CHECK: nv_tileas.wgmma_dots
// CHECK-NOT: nv_tileas.wgmma_dot %
// CHECK: return
cuda_tile.module @m {
  entry @shared(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %D: tile<ptr<f16>>,
                %E: tile<ptr<f16>>, %C: tile<ptr<f32>>, %F: tile<ptr<f32>>) {
    %A1 = assume div_by<16>, %A : tile<ptr<f16>>
    %tA = make_tensor_view %A1, shape = [144, 208], strides = [208, 1]
      : tensor_view<144x208xf16, strides=[208,1]>
    %pA = make_partition_view %tA
      : partition_view<tile=(128x64), padding_value = zero, tensor_view<144x208xf16, strides=[208,1]>>
    %B1 = assume div_by<16>, %B : tile<ptr<f16>>
    %tB = make_tensor_view %B1, shape = [208, 144], strides = [144, 1]
      : tensor_view<208x144xf16, strides=[144,1]>
    %pB = make_partition_view %tB
      : partition_view<tile=(64x128), padding_value = zero, tensor_view<208x144xf16, strides=[144,1]>>
    %D1 = assume div_by<16>, %D : tile<ptr<f16>>
    %tD = make_tensor_view %D1, shape = [144, 208], strides = [208, 1]
      : tensor_view<144x208xf16, strides=[208,1]>
    %pD = make_partition_view %tD
      : partition_view<tile=(128x64), padding_value = zero, tensor_view<144x208xf16, strides=[208,1]>>
    %E1 = assume div_by<16>, %E : tile<ptr<f16>>
    %tE = make_tensor_view %E1, shape = [208, 144], strides = [144, 1]
      : tensor_view<208x144xf16, strides=[144,1]>
    %pE = make_partition_view %tE
      : partition_view<tile=(64x128), padding_value = zero, tensor_view<208x144xf16, strides=[144,1]>>
    %C1 = assume div_by<16>, %C : tile<ptr<f32>>
    %tC = make_tensor_view %C1, shape = [144, 144], strides = [144, 1]
      : tensor_view<144x144xf32, strides=[144,1]>
    %pC = make_partition_view %tC
      : partition_view<tile=(128x128), padding_value = zero, tensor_view<144x144xf32, strides=[144,1]>>
    %F1 = assume div_by<16>, %F : tile<ptr<f32>>
    %tF = make_tensor_view %F1, shape = [144, 144], strides = [144, 1]
      : tensor_view<144x144xf32, strides=[144,1]>
    %pF = make_partition_view %tF
      : partition_view<tile=(128x128), padding_value = zero, tensor_view<144x144xf32, strides=[144,1]>>
    %t0 = make_token : token
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %steps = constant <i32: 4> : tile<i32>
    %z = constant <f32: 0.0> : tile<128x128xf32>
    %x, %y, %bz = get_tile_block_id : tile<i32>
    %s, %t = for %k in (%c0 to %steps, step %c1) : tile<i32>
        iter_values(%u = %z, %v = %z) -> (tile<128x128xf32>, tile<128x128xf32>) {
      %Ao, %Ak = load_view_tko weak %pA[%x, %k] token = %t0
      : partition_view<tile=(128x64), padding_value = zero, tensor_view<144x208xf16, strides=[208,1]>>, tile<i32> -> tile<128x64xf16>, token
      %Bo, %Bk = load_view_tko weak %pB[%k, %y] token = %t0
      : partition_view<tile=(64x128), padding_value = zero, tensor_view<208x144xf16, strides=[144,1]>>, tile<i32> -> tile<64x128xf16>, token
      %p = mmaf %Ao, %Bo, %u : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      %Eo, %Ek = load_view_tko weak %pE[%k, %y] token = %t0
      : partition_view<tile=(64x128), padding_value = zero, tensor_view<208x144xf16, strides=[144,1]>>, tile<i32> -> tile<64x128xf16>, token
      %q = mmaf %Ao, %Eo, %v : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      continue %p, %q : tile<128x128xf32>, tile<128x128xf32>
    }
    %m = mulf %s, %t : tile<128x128xf32>
    %w0 = store_view_tko weak %s, %pC[%x, %y] token = %t0
       
      : tile<128x128xf32>, partition_view<tile=(128x128), padding_value = zero, tensor_view<144x144xf32, strides=[144,1]>>, tile<i32> -> token
    %w1 = store_view_tko weak %m, %pF[%x, %y] token = %t0
       
      : tile<128x128xf32>, partition_view<tile=(128x128), padding_value = zero, tensor_view<144x144xf32, strides=[144,1]>>, tile<i32> -> token
    return
  }
}
// -----
// leaves_a_product_alone
// CHECK-NOT: nv_tileas.wgmma_dots
// CHECK: nv_tileas.wgmma_dot
// CHECK-NOT: nv_tileas.wgmma_dots
// CHECK: return
cuda_tile.module @m {
  entry @gemm(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f32>>, %n: tile<i32>) {
    %a0 = assume div_by<16>, %A : tile<ptr<f16>>
    %b0 = assume div_by<16>, %B : tile<ptr<f16>>
    %t = make_token : token
    %at = make_tensor_view %a0, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf16, strides=[1024,1]>
    %bt = make_tensor_view %b0, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf16, strides=[1024,1]>
    %ct = make_tensor_view %C, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf32, strides=[1024,1]>
    %av = make_partition_view %at
      : partition_view<tile=(64x64), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %bv = make_partition_view %bt
      : partition_view<tile=(64x128), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %cv = make_partition_view %ct
      : partition_view<tile=(64x128), tensor_view<1024x1024xf32, strides=[1024,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %zero = constant <f32: 0.0> : tile<64x128xf32>
    %sum = for %k in (%c0 to %n, step %c1) : tile<i32>
        iter_values(%s = %zero) -> (tile<64x128xf32>) {
      %a, %ta = load_view_tko weak %av[%x, %k] token = %t
        : partition_view<tile=(64x64), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32>
        -> tile<64x64xf16>, token
      %b, %tb = load_view_tko weak %bv[%k, %y] token = %t
        : partition_view<tile=(64x128), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32>
        -> tile<64x128xf16>, token
      %d = mmaf %a, %b, %s : tile<64x64xf16>, tile<64x128xf16>, tile<64x128xf32>
      continue %d : tile<64x128xf32>
    }
    %u = store_view_tko weak %sum, %cv[%x, %y] token = %t
      : tile<64x128xf32>, partition_view<tile=(64x128), tensor_view<1024x1024xf32, strides=[1024,1]>>,
        tile<i32> -> token
    return
  }
}

// RUN: canonicalize,cse,convert-cudatile-to-tileaa,choose-strategy,tileas-plan-cta,tileas-assign-dot-layouts
// computes_in_shared_memory_what_is_planned_for_wgmma
// CHECK: nv_tileaa.dot
// CHECK-SAME: mma = #nv_tileas.wgmma<lhs = smem, fragments = none, transposed = 0>, fragments = [#mma0]
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
// -----
// takes_mma_sync_outside_of_loops
// CHECK: nv_tileaa.dot
// CHECK-SAME: mma = #nv_tileas.mma_sync<atom = m16n8k16_f32_f16, warps_m = 2, warps_n = 2>
// CHECK-NOT: layouts =
// CHECK: fragments = [#operand0, #operand1, #mma0]
cuda_tile.module @m {
  entry @squared(%a: tile<ptr<f16>>, %c: tile<ptr<f32>>) {
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %at = make_tensor_view %a, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf16, strides=[64,1]>
    %ct = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %av = make_partition_view %at : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>
    %cv = make_partition_view %ct : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %zero = constant <f32: 0.0> : tile<64x64xf32>
    %x, %tx = load_view_tko weak %av[%i, %i] token = %t
      : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>, tile<i32>
      -> tile<64x64xf16>, token
    %d = mmaf %x, %x, %zero : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
    %u = store_view_tko weak %d, %cv[%i, %i] token = %t
      : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>,
        tile<i32> -> token
    return
  }
}
// -----
// multiplies_parts_of_f32
// CHECK: nv_tileaa.dot
// CHECK-SAME: mma = #nv_tileas.mma_sync<atom = m16n8k16_f32_f32, warps_m = 2, warps_n = 2>
cuda_tile.module @m {
  entry @squared(%a: tile<ptr<f32>>, %c: tile<ptr<f32>>) {
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %at = make_tensor_view %a, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %ct = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %av = make_partition_view %at : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %cv = make_partition_view %ct : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %zero = constant <f32: 0.0> : tile<64x64xf32>
    %x, %tx = load_view_tko weak %av[%i, %i] token = %t
      : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32>
      -> tile<64x64xf32>, token
    %d = mmaf %x, %x, %zero : tile<64x64xf32>, tile<64x64xf32>, tile<64x64xf32>
    %u = store_view_tko weak %d, %cv[%i, %i] token = %t
      : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>,
        tile<i32> -> token
    return
  }
}
// -----
// multiplies_and_adds_where_there_is_no_instruction
// CHECK: nv_tileaa.dot
// CHECK-SAME: mma = #nv_tileas.fma<lhs_batches = all, rhs_batches = all>
// CHECK-SAME: fragments = [#mma0]
cuda_tile.module @m {
  entry @squared(%a: tile<ptr<f32>>, %c: tile<ptr<f32>>) {
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %at = make_tensor_view %a, shape = [8, 8], strides = [8, 1] : tensor_view<8x8xf32, strides=[8,1]>
    %ct = make_tensor_view %c, shape = [8, 8], strides = [8, 1] : tensor_view<8x8xf32, strides=[8,1]>
    %av = make_partition_view %at : partition_view<tile=(8x8), tensor_view<8x8xf32, strides=[8,1]>>
    %cv = make_partition_view %ct : partition_view<tile=(8x8), tensor_view<8x8xf32, strides=[8,1]>>
    %zero = constant <f32: 0.0> : tile<8x8xf32>
    %x, %tx = load_view_tko weak %av[%i, %i] token = %t
      : partition_view<tile=(8x8), tensor_view<8x8xf32, strides=[8,1]>>, tile<i32>
      -> tile<8x8xf32>, token
    %d = mmaf %x, %x, %zero : tile<8x8xf32>, tile<8x8xf32>, tile<8x8xf32>
    %u = store_view_tko weak %d, %cv[%i, %i] token = %t
      : tile<8x8xf32>, partition_view<tile=(8x8), tensor_view<8x8xf32, strides=[8,1]>>,
        tile<i32> -> token
    return
  }
}
// -----
// leaves_a_kernel_without_products_as_it_is
// CHECK: nv_tileaa.addf
// CHECK-NOT: fragments
cuda_tile.module @m {
  entry @sum(%p: tile<ptr<f32>>) {
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %v = make_tensor_view %p, shape = [1024], strides = [1] : tensor_view<1024xf32, strides=[1]>
    %w = make_partition_view %v : partition_view<tile=(1024), tensor_view<1024xf32, strides=[1]>>
    %a, %ta = load_view_tko weak %w[%i] token = %t
      : partition_view<tile=(1024), tensor_view<1024xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
    %b = addf %a, %a : tile<1024xf32>
    %s = store_view_tko weak %b, %w[%i] token = %ta
      : tile<1024xf32>, partition_view<tile=(1024), tensor_view<1024xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}

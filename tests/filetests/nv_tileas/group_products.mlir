// RUN: canonicalize,cse,convert-cudatile-to-tileaa,choose-strategy,tileas-plan-cta,tileas-assign-dot-layouts,tileas-assign-load-store-layouts,tileas-assign-warp-roles,convert-tileaa-to-tileas,tileas-group-products
// moves_a_product_up_to_one_with_the_same_left_operand
// CHECK: nv_tileas.mma_dot
// CHECK-NOT: nv_tileaa.exp
// CHECK: nv_tileas.mma_dot
// CHECK: nv_tileaa.exp
cuda_tile.module @m {
  entry @k(%p0: tile<ptr<f32>>, %p1: tile<ptr<f32>>, %p2: tile<ptr<f32>>, %p3: tile<ptr<f32>>) {
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %zero = constant <f32: 0.0> : tile<32x32xf32>
    %v0 = make_tensor_view %p0, shape = [32, 32], strides = [32, 1] : tensor_view<32x32xf32, strides=[32,1]>
    %w0 = make_partition_view %v0 : partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>
    %t0, %k0 = load_view_tko weak %w0[%i, %i] token = %t
        : partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>, tile<i32> -> tile<32x32xf32>, token
    %v1 = make_tensor_view %p1, shape = [32, 32], strides = [32, 1] : tensor_view<32x32xf32, strides=[32,1]>
    %w1 = make_partition_view %v1 : partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>
    %t1, %k1 = load_view_tko weak %w1[%i, %i] token = %t
        : partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>, tile<i32> -> tile<32x32xf32>, token
    %v2 = make_tensor_view %p2, shape = [32, 32], strides = [32, 1] : tensor_view<32x32xf32, strides=[32,1]>
    %w2 = make_partition_view %v2 : partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>
    %t2, %k2 = load_view_tko weak %w2[%i, %i] token = %t
        : partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>, tile<i32> -> tile<32x32xf32>, token
    %v3 = make_tensor_view %p3, shape = [32, 32], strides = [32, 1] : tensor_view<32x32xf32, strides=[32,1]>
    %w3 = make_partition_view %v3 : partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>
    %t3, %k3 = load_view_tko weak %w3[%i, %i] token = %t
        : partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>, tile<i32> -> tile<32x32xf32>, token
    %a = mmaf %t0, %t1, %zero : tile<32x32xf32>, tile<32x32xf32>, tile<32x32xf32>
    %e = exp %t2 : tile<32x32xf32>
    %b = mmaf %t0, %t3, %zero : tile<32x32xf32>, tile<32x32xf32>, tile<32x32xf32>
    %m = mulf %a, %b : tile<32x32xf32>
    %all = addf %m, %e : tile<32x32xf32>
    %done = store_view_tko weak %all, %w0[%i, %i] token = %t
        : tile<32x32xf32>, partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>, tile<i32> -> token
    return
  }
}
// -----
// leaves_products_that_share_nothing
// CHECK: nv_tileas.mma_dot
// CHECK: nv_tileaa.exp
// CHECK: nv_tileas.mma_dot
cuda_tile.module @m {
  entry @k(%p0: tile<ptr<f32>>, %p1: tile<ptr<f32>>, %p2: tile<ptr<f32>>, %p3: tile<ptr<f32>>) {
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %zero = constant <f32: 0.0> : tile<32x32xf32>
    %v0 = make_tensor_view %p0, shape = [32, 32], strides = [32, 1] : tensor_view<32x32xf32, strides=[32,1]>
    %w0 = make_partition_view %v0 : partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>
    %t0, %k0 = load_view_tko weak %w0[%i, %i] token = %t
        : partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>, tile<i32> -> tile<32x32xf32>, token
    %v1 = make_tensor_view %p1, shape = [32, 32], strides = [32, 1] : tensor_view<32x32xf32, strides=[32,1]>
    %w1 = make_partition_view %v1 : partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>
    %t1, %k1 = load_view_tko weak %w1[%i, %i] token = %t
        : partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>, tile<i32> -> tile<32x32xf32>, token
    %v2 = make_tensor_view %p2, shape = [32, 32], strides = [32, 1] : tensor_view<32x32xf32, strides=[32,1]>
    %w2 = make_partition_view %v2 : partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>
    %t2, %k2 = load_view_tko weak %w2[%i, %i] token = %t
        : partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>, tile<i32> -> tile<32x32xf32>, token
    %v3 = make_tensor_view %p3, shape = [32, 32], strides = [32, 1] : tensor_view<32x32xf32, strides=[32,1]>
    %w3 = make_partition_view %v3 : partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>
    %t3, %k3 = load_view_tko weak %w3[%i, %i] token = %t
        : partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>, tile<i32> -> tile<32x32xf32>, token
    %a = mmaf %t0, %t1, %zero : tile<32x32xf32>, tile<32x32xf32>, tile<32x32xf32>
    %e = exp %t2 : tile<32x32xf32>
    %b = mmaf %e, %t3, %zero : tile<32x32xf32>, tile<32x32xf32>, tile<32x32xf32>
    %all = mulf %a, %b : tile<32x32xf32>
    %done = store_view_tko weak %all, %w0[%i, %i] token = %t
        : tile<32x32xf32>, partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>, tile<i32> -> token
    return
  }
}

// RUN: choose-strategy
// chooses_wgmma_for_a_product_in_a_loop
// CHECK: strategy = #nv_tileas.strategy<chosen = wgmma>
// CHECK: plan = #nv_tileas.kernel_plan<num_warps = 4,
// CHECK-SAME: warpgroups = 1
// CHECK: pipelines = [#nv_tileas.pipeline_plan<bytes = 24576, least = 2,
// CHECK: nv_tileaa.tiled_load
// CHECK-SAME: pipeline = #nv_tileas.filled_by<pipeline = 0, content = 0, place = 0>
// CHECK: nv_tileaa.tiled_load
// CHECK-SAME: pipeline = #nv_tileas.filled_by<pipeline = 0, content = 0, place = 1>
// CHECK: nv_tileaa.dot
// CHECK-SAME: mma = #nv_tileas.wgmma<lhs = smem, fragments = none, transposed = 0>
!memref0 = !nv_tileaa.memref<?x1024xf16, strides = [1024, 1]>
!view0 = !nv_tileaa.tiled_view<64x64 of !memref0, padding = zero>
!view1 = !nv_tileaa.tiled_view<64x128 of !memref0, padding = zero>
builtin.module {
  nv_tileaa.func @product(%a: !nv_tileaa.ptr<f16>, %n: i32) {
    %token = nv_tileaa.create_mem_token
    %memref = nv_tileaa.make_memref %a sizes = [%n] strides = []
        {base_align = 16, shape_divisor = [1, 1024], stride_divisor = [1024, 1]} : !nv_tileaa.ptr<f16> -> !memref0
    %left = nv_tileaa.block_tile %memref : !view0
    %right = nv_tileaa.block_tile %memref : !view1
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<64x128xf32>
    %o = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%sum = %zero) -> (tensor<64x128xf32>) : i32 {
      %x, %tx = nv_tileaa.tiled_load %left[%c0, %i] token = %token : !view0 -> tensor<64x64xf16>
      %y, %ty = nv_tileaa.tiled_load %right[%i, %c0] token = %token : !view1 -> tensor<64x128xf16>
      %d = nv_tileaa.dot %x, %y, %sum : tensor<64x64xf16>, tensor<64x128xf16> -> tensor<64x128xf32>
      nv_tileaa.continue %d : tensor<64x128xf32>
    }
    %r = nv_tileaa.fp_to_fp %o : tensor<64x128xf32> to tensor<64x128xf16>
    %done = nv_tileaa.tiled_store %r, %right[%c0, %c0] token = %token : tensor<64x128xf16>, !view1
    nv_tileaa.return
  }
}
// -----
// says_why_no_strategy_takes_a_product_of_a_few_columns
// CHECK: strategy = #nv_tileas.strategy<chosen = none,
// CHECK: wgmma = "the right operand has no contiguous dim of 16 bytes or more">
// CHECK-NOT: nv_tileas
!memref0 = !nv_tileaa.memref<?x1024xf16, strides = [1024, 1]>
!view0 = !nv_tileaa.tiled_view<64x64 of !memref0, padding = zero>
!view1 = !nv_tileaa.tiled_view<64x4 of !memref0, padding = zero>
builtin.module {
  nv_tileaa.func @product(%a: !nv_tileaa.ptr<f16>, %n: i32) {
    %token = nv_tileaa.create_mem_token
    %memref = nv_tileaa.make_memref %a sizes = [%n] strides = []
        {base_align = 16, shape_divisor = [1, 1024], stride_divisor = [1024, 1]} : !nv_tileaa.ptr<f16> -> !memref0
    %left = nv_tileaa.block_tile %memref : !view0
    %right = nv_tileaa.block_tile %memref : !view1
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<64x4xf32>
    %o = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%sum = %zero) -> (tensor<64x4xf32>) : i32 {
      %x, %tx = nv_tileaa.tiled_load %left[%c0, %i] token = %token : !view0 -> tensor<64x64xf16>
      %y, %ty = nv_tileaa.tiled_load %right[%i, %c0] token = %token : !view1 -> tensor<64x4xf16>
      %d = nv_tileaa.dot %x, %y, %sum : tensor<64x64xf16>, tensor<64x4xf16> -> tensor<64x4xf32>
      nv_tileaa.continue %d : tensor<64x4xf32>
    }
    nv_tileaa.return
  }
}
// -----
// leaves_a_strategy_that_stands
// CHECK: attributes {strategy = #nv_tileas.strategy<chosen = none>}
// CHECK-NOT: nv_tileas
!memref0 = !nv_tileaa.memref<?x1024xf16, strides = [1024, 1]>
!view0 = !nv_tileaa.tiled_view<64x64 of !memref0, padding = zero>
builtin.module {
  nv_tileaa.func @product(%a: !nv_tileaa.ptr<f16>, %n: i32) attributes {strategy = #nv_tileas.strategy<chosen = none>} {
    %token = nv_tileaa.create_mem_token
    %memref = nv_tileaa.make_memref %a sizes = [%n] strides = []
        {base_align = 16, shape_divisor = [1, 1024], stride_divisor = [1024, 1]} : !nv_tileaa.ptr<f16> -> !memref0
    %view = nv_tileaa.block_tile %memref : !view0
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<64x64xf32>
    %o = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%sum = %zero) -> (tensor<64x64xf32>) : i32 {
      %x, %tx = nv_tileaa.tiled_load %view[%c0, %i] token = %token : !view0 -> tensor<64x64xf16>
      %y, %ty = nv_tileaa.tiled_load %view[%i, %c0] token = %token : !view0 -> tensor<64x64xf16>
      %d = nv_tileaa.dot %x, %y, %sum : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
      nv_tileaa.continue %d : tensor<64x64xf32>
    }
    nv_tileaa.return
  }
}
// -----
// leaves_kernels_without_products
// CHECK-NOT: nv_tileas
builtin.module {
  nv_tileaa.func @nothing(%a: !nv_tileaa.ptr<f16>, %n: i32) {
    nv_tileaa.return
  }
}

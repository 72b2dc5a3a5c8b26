// RUN: choose-strategy,tileas-plan-cta,tileas-assign-dot-layouts,tileas-assign-load-store-layouts,tileas-share-exp2 --gpu-name=sm_100
// gives_three_of_eight_powers_to_fma_units
// CHECK: nv_tileaa.for
// CHECK: nv_tileaa.exp2 %s {flush_to_zero, fma_share = #nv_tileaa.fma_share<pairs = 3, of = 8>,
// CHECK: nv_tileaa.fp_to_fp
!memref0 = !nv_tileaa.memref<?x64xf16, strides = [64, 1]>
!view0 = !nv_tileaa.tiled_view<128x64 of !memref0, padding = zero>
builtin.module {
  nv_tileaa.func @attention(%a: !nv_tileaa.ptr<f16>, %n: i32) attributes {hints = {occupancy = 1 : i32}} {
    %token = nv_tileaa.create_mem_token
    %memref = nv_tileaa.make_memref %a sizes = [%n] strides = []
        {base_align = 16, shape_divisor = [1, 64], stride_divisor = [64, 1]} : !nv_tileaa.ptr<f16> -> !memref0
    %view = nv_tileaa.block_tile %memref : !view0
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<128x128xf32>
    %sum0 = nv_tileaa.constant dense<0.000000e+00> : tensor<128x64xf32>
    %q, %tq = nv_tileaa.tiled_load %view[%c0, %c0] token = %token : !view0 -> tensor<128x64xf16>
    %o = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%sum = %sum0) -> (tensor<128x64xf32>) : i32 {
      %k, %tk = nv_tileaa.tiled_load %view[%i, %c0] token = %token : !view0 -> tensor<128x64xf16>
      %kt = nv_tileaa.permute %k [1, 0] : tensor<128x64xf16> -> tensor<64x128xf16>
      %s = nv_tileaa.dot %q, %kt, %zero : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      %p = nv_tileaa.exp2 %s {flush_to_zero} : tensor<128x128xf32>
      %w = nv_tileaa.fp_to_fp %p : tensor<128x128xf32> to tensor<128x128xf16>
      %v, %tv = nv_tileaa.tiled_load %view[%i, %c0] token = %token : !view0 -> tensor<128x64xf16>
      %d = nv_tileaa.dot %w, %v, %sum : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
      nv_tileaa.continue %d : tensor<128x64xf32>
    }
    %r = nv_tileaa.fp_to_fp %o : tensor<128x64xf32> to tensor<128x64xf16>
    %done = nv_tileaa.tiled_store %r, %view[%c0, %c0] token = %token : tensor<128x64xf16>, !view0
    nv_tileaa.return
  }
}
// -----
// leaves_powers_whose_results_may_be_subnormal
// CHECK: nv_tileaa.exp2 %s {layouts
// CHECK-NOT: fma_share
!memref0 = !nv_tileaa.memref<?x64xf16, strides = [64, 1]>
!view0 = !nv_tileaa.tiled_view<128x64 of !memref0, padding = zero>
builtin.module {
  nv_tileaa.func @attention(%a: !nv_tileaa.ptr<f16>, %n: i32) attributes {hints = {occupancy = 1 : i32}} {
    %token = nv_tileaa.create_mem_token
    %memref = nv_tileaa.make_memref %a sizes = [%n] strides = []
        {base_align = 16, shape_divisor = [1, 64], stride_divisor = [64, 1]} : !nv_tileaa.ptr<f16> -> !memref0
    %view = nv_tileaa.block_tile %memref : !view0
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<128x128xf32>
    %sum0 = nv_tileaa.constant dense<0.000000e+00> : tensor<128x64xf32>
    %q, %tq = nv_tileaa.tiled_load %view[%c0, %c0] token = %token : !view0 -> tensor<128x64xf16>
    %o = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%sum = %sum0) -> (tensor<128x64xf32>) : i32 {
      %k, %tk = nv_tileaa.tiled_load %view[%i, %c0] token = %token : !view0 -> tensor<128x64xf16>
      %kt = nv_tileaa.permute %k [1, 0] : tensor<128x64xf16> -> tensor<64x128xf16>
      %s = nv_tileaa.dot %q, %kt, %zero : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      %p = nv_tileaa.exp2 %s : tensor<128x128xf32>
      %w = nv_tileaa.fp_to_fp %p : tensor<128x128xf32> to tensor<128x128xf16>
      %v, %tv = nv_tileaa.tiled_load %view[%i, %c0] token = %token : !view0 -> tensor<128x64xf16>
      %d = nv_tileaa.dot %w, %v, %sum : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
      nv_tileaa.continue %d : tensor<128x64xf32>
    }
    %r = nv_tileaa.fp_to_fp %o : tensor<128x64xf32> to tensor<128x64xf16>
    %done = nv_tileaa.tiled_store %r, %view[%c0, %c0] token = %token : tensor<128x64xf16>, !view0
    nv_tileaa.return
  }
}
// -----
// leaves_loops_that_tensor_cores_hold_up
// CHECK: nv_tileaa.exp2 %s {flush_to_zero, layouts
// CHECK-NOT: fma_share
!memref0 = !nv_tileaa.memref<?x256xf16, strides = [256, 1]>
!view0 = !nv_tileaa.tiled_view<128x256 of !memref0, padding = zero>
builtin.module {
  nv_tileaa.func @attention(%a: !nv_tileaa.ptr<f16>, %n: i32) attributes {hints = {occupancy = 1 : i32}} {
    %token = nv_tileaa.create_mem_token
    %memref = nv_tileaa.make_memref %a sizes = [%n] strides = []
        {base_align = 16, shape_divisor = [1, 256], stride_divisor = [256, 1]} : !nv_tileaa.ptr<f16> -> !memref0
    %view = nv_tileaa.block_tile %memref : !view0
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<128x128xf32>
    %sum0 = nv_tileaa.constant dense<0.000000e+00> : tensor<128x256xf32>
    %q, %tq = nv_tileaa.tiled_load %view[%c0, %c0] token = %token : !view0 -> tensor<128x256xf16>
    %o = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%sum = %sum0) -> (tensor<128x256xf32>) : i32 {
      %k, %tk = nv_tileaa.tiled_load %view[%i, %c0] token = %token : !view0 -> tensor<128x256xf16>
      %kt = nv_tileaa.permute %k [1, 0] : tensor<128x256xf16> -> tensor<256x128xf16>
      %s = nv_tileaa.dot %q, %kt, %zero : tensor<128x256xf16>, tensor<256x128xf16> -> tensor<128x128xf32>
      %p = nv_tileaa.exp2 %s {flush_to_zero} : tensor<128x128xf32>
      %w = nv_tileaa.fp_to_fp %p : tensor<128x128xf32> to tensor<128x128xf16>
      %v, %tv = nv_tileaa.tiled_load %view[%i, %c0] token = %token : !view0 -> tensor<128x256xf16>
      %d = nv_tileaa.dot %w, %v, %sum : tensor<128x128xf16>, tensor<128x256xf16> -> tensor<128x256xf32>
      nv_tileaa.continue %d : tensor<128x256xf32>
    }
    %r = nv_tileaa.fp_to_fp %o : tensor<128x256xf32> to tensor<128x256xf16>
    %done = nv_tileaa.tiled_store %r, %view[%c0, %c0] token = %token : tensor<128x256xf16>, !view0
    nv_tileaa.return
  }
}

// RUN: tileas-generate-schedule{scheduler=serial}
// puts_everything_into_one_stage_in_the_order_of_the_program
// CHECK: attributes {{.}}loop_schedule = #nv_tileaa.loop_schedule<stages = 1, initiation_interval = 5244, serial = 5244>
// CHECK: nv_tileaa.tiled_load
// CHECK-SAME: schedule = #nv_tileaa.op_schedule<stage = 0, order = 0, cycle = 0,
// CHECK: nv_tileaa.dot {{.*}}stage = 0, order = 1, cycle = 928,
// CHECK: nv_tileaa.exp2 {{.*}}stage = 0, order = 2, cycle = 1952,
// CHECK: nv_tileaa.fp_to_fp {{.*}}stage = 0, order = 3, cycle = 2976,
// CHECK: nv_tileaa.tiled_load
// CHECK-SAME: schedule = #nv_tileaa.op_schedule<stage = 0, order = 4, cycle = 3232,
// CHECK: nv_tileaa.dot {{.*}}stage = 0, order = 5, cycle = 4160,
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
// prefetches_nothing
// CHECK: nv_tileaa.tiled_load
// CHECK: nv_tileaa.addf {{.*}}stage = 0, order = 1,
// CHECK-NOT: prefetch
!memref0 = !nv_tileaa.memref<1024x4096xf32, strides = [4096, 1]>
!view0 = !nv_tileaa.tiled_view<1x1024 of !memref0>
builtin.module {
  nv_tileaa.func @rows(%a: !nv_tileaa.ptr<f32>, %n: i32) {
    %token = nv_tileaa.create_mem_token
    %memref = nv_tileaa.make_memref %a {base_align = 16, shape_divisor = [1024, 4096], stride_divisor = [4096, 1]}
        : !nv_tileaa.ptr<f32> -> !memref0
    %view = nv_tileaa.block_tile %memref : !view0
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<1x1024xf32>
    %x = nv_tileaa.get_program_id 0
    %sum = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (tensor<1x1024xf32>) : i32 {
      %tile, %t = nv_tileaa.tiled_load %view[%x, %i] token = %token : !view0 -> tensor<1x1024xf32>
      %d = nv_tileaa.addf %tile, %s : tensor<1x1024xf32>
      nv_tileaa.continue %d : tensor<1x1024xf32>
    }
    %done = nv_tileaa.tiled_store %sum, %view[%x, %c0] token = %token : tensor<1x1024xf32>, !view0
    nv_tileaa.return
  }
}
// -----
// gives_every_loop_a_schedule
// CHECK: attributes {{.}}loop_schedule = #nv_tileaa.loop_schedule<stages = 1,
// CHECK: nv_tileaa.int_to_fp %i signed : i32 to f32
// CHECK: nv_tileaa.exp2 {{.*}}stage = 0, order = 0, cycle = 0, unit = mufu>
// CHECK: nv_tileaa.addf {{.*}}stage = 0, order = 1,
builtin.module {
  nv_tileaa.func @chain(%n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<64xf32>
    %sum = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (tensor<64xf32>) : i32 {
      %f = nv_tileaa.int_to_fp %i signed : i32 to f32
      %g = nv_tileaa.splat %f : f32 -> tensor<64xf32>
      %p = nv_tileaa.exp2 %g : tensor<64xf32>
      %d = nv_tileaa.addf %p, %s : tensor<64xf32>
      nv_tileaa.continue %d : tensor<64xf32>
    }
    nv_tileaa.return
  }
}

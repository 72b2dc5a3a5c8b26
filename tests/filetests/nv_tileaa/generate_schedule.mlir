// RUN: choose-strategy,tileas-generate-schedule
// puts_the_second_product_beside_the_powers_of_the_next_iteration
// CHECK: nv_tileaa.for
// CHECK-SAME: iter_args(
// CHECK-NEXT: attributes {{.}}loop_schedule = #nv_tileaa.loop_schedule<stages = 2, initiation_interval = 1920, serial = 2432, registers = 144,
// CHECK-NEXT: ctas = 1>
// CHECK: nv_tileaa.tiled_load
// CHECK: schedule = #nv_tileaa.op_schedule<stage = 0, order = 0,
// CHECK: cycle = 0
// CHECK: nv_tileaa.permute %k [1, 0] :
// CHECK: nv_tileaa.dot
// CHECK: schedule = #nv_tileaa.op_schedule<stage = 0, order = 1, cycle = 0, unit = tensor_core>
// CHECK: nv_tileaa.exp2 {{.*}}schedule = #nv_tileaa.op_schedule<stage = 0, order = 4, cycle = 640, unit = mufu>
// CHECK: nv_tileaa.fp_to_fp {{.*}}schedule = #nv_tileaa.op_schedule<stage = 0, order = 5, cycle = 1664, unit = convert>
// CHECK: nv_tileaa.tiled_load
// CHECK: schedule = #nv_tileaa.op_schedule<stage = 1, order = 2,
// CHECK: cycle = 512
// CHECK: nv_tileaa.dot
// CHECK: schedule = #nv_tileaa.op_schedule<stage = 1, order = 3, cycle = 512, unit = tensor_core>
// CHECK: nv_tileaa.continue
// CHECK-NOT: schedule
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
// prefetches_loads_where_nothing_is_multiplied
// CHECK: attributes {{.}}loop_schedule = #nv_tileaa.loop_schedule<stages = 4, initiation_interval = 315, serial = 1199>
// CHECK: nv_tileaa.tiled_load
// CHECK-SAME: schedule = #nv_tileaa.op_schedule<stage = 0, order = 0, unit = memory>
// CHECK-NEXT: prefetch = #nv_tileaa.prefetch<distance = 3>
// CHECK: nv_tileaa.addf {{.*}}schedule = #nv_tileaa.op_schedule<stage = 3, order = 1, unit = fma>
// CHECK-NOT: circular_buffer
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
// keeps_a_schedule_that_is_there
// CHECK: attributes {{.}}loop_schedule = #nv_tileaa.loop_schedule<stages = 2>
// CHECK: distance = 1>
// CHECK: stage = 1, order = 1>
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
    %sum = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (tensor<1x1024xf32>) : i32
        attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 2>} {
      %tile, %t = nv_tileaa.tiled_load %view[%x, %i] token = %token {schedule = #nv_tileaa.op_schedule<stage = 0, order = 0, unit = memory>,
          prefetch = #nv_tileaa.prefetch<distance = 1>} : !view0 -> tensor<1x1024xf32>
      %d = nv_tileaa.addf %tile, %s {schedule = #nv_tileaa.op_schedule<stage = 1, order = 1>} : tensor<1x1024xf32>
      nv_tileaa.continue %d : tensor<1x1024xf32>
    }
    %done = nv_tileaa.tiled_store %sum, %view[%x, %c0] token = %token : tensor<1x1024xf32>, !view0
    nv_tileaa.return
  }
}
// -----
// leaves_a_loop_without_products_and_loads
// CHECK: nv_tileaa.for
// CHECK-NOT: schedule
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

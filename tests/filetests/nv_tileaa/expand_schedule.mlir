// RUN: tileas-expand-schedule
// runs_the_second_stage_beside_the_first_of_the_next_iteration
// CHECK: [[ENTERED:%.*]] = nv_tileaa.cmpi less_than signed, %c0, %n
// CHECK-NEXT: nv_tileaa.if [[ENTERED]]
// CHECK-NEXT: nv_tileaa.int_to_fp %c0
// CHECK-NEXT: nv_tileaa.splat
// CHECK-NEXT: [[FIRST:%.*]] = nv_tileaa.exp2 %g :
// CHECK-NEXT: [[SECOND:%.*]] = nv_tileaa.addi %c0, %c1
// CHECK-NEXT: nv_tileaa.for [[I:%.*]] = [[SECOND]] to %n step %c1 iter_args([[SUM:%.*]] = %zero, [[BEFORE:%.*]] = [[FIRST]])
// CHECK-NEXT: [[NEW:%.*]] = nv_tileaa.addf [[BEFORE]], [[SUM]] :
// CHECK-NEXT: nv_tileaa.int_to_fp [[I]]
// CHECK-NEXT: nv_tileaa.splat
// CHECK-NEXT: [[NEXT:%.*]] = nv_tileaa.exp2
// CHECK-NEXT: nv_tileaa.continue [[NEW]], [[NEXT]] :
// CHECK: nv_tileaa.addf
// CHECK: else
// CHECK-NEXT: nv_tileaa.yield %zero
// CHECK-NOT: schedule
builtin.module {
  nv_tileaa.func @chain(%n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<64xf32>
    %sum = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (tensor<64xf32>) : i32
        attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 2, initiation_interval = 64>} {
      %f = nv_tileaa.int_to_fp %i signed : i32 to f32
      %g = nv_tileaa.splat %f : f32 -> tensor<64xf32>
      %p = nv_tileaa.exp2 %g {schedule = #nv_tileaa.op_schedule<stage = 0, order = 1, cycle = 0>} : tensor<64xf32>
      %d = nv_tileaa.addf %p, %s {schedule = #nv_tileaa.op_schedule<stage = 1, order = 0, cycle = 32>} : tensor<64xf32>
      nv_tileaa.continue %d : tensor<64xf32>
    }
    nv_tileaa.return
  }
}
// -----
// keeps_the_order_within_an_interval
// CHECK: nv_tileaa.for
// CHECK: nv_tileaa.exp2
// CHECK: nv_tileaa.addf
// CHECK: nv_tileaa.continue
builtin.module {
  nv_tileaa.func @chain(%n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<64xf32>
    %sum = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (tensor<64xf32>) : i32
        attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 2, initiation_interval = 64>} {
      %f = nv_tileaa.int_to_fp %i signed : i32 to f32
      %g = nv_tileaa.splat %f : f32 -> tensor<64xf32>
      %p = nv_tileaa.exp2 %g {schedule = #nv_tileaa.op_schedule<stage = 0, order = 0, cycle = 0>} : tensor<64xf32>
      %d = nv_tileaa.addf %p, %s {schedule = #nv_tileaa.op_schedule<stage = 1, order = 1, cycle = 32>} : tensor<64xf32>
      nv_tileaa.continue %d : tensor<64xf32>
    }
    nv_tileaa.return
  }
}
// -----
// starts_loads_two_iterations_early
// CHECK: [[BUFFER:%.*]] = nv_tileaa.circular_buffer {stages = 3}
// CHECK: nv_tileaa.async_copy %view[%x, %c0] into [[BUFFER]]
// CHECK: nv_tileaa.async_commit_group
// CHECK: nv_tileaa.async_copy
// CHECK: nv_tileaa.async_commit_group
// CHECK: nv_tileaa.for
// CHECK: nv_tileaa.async_copy
// CHECK: nv_tileaa.async_commit_group
// CHECK: [[TILE:%.*]], %{{.*}} = nv_tileaa.read_stage %view[%x, %i] from [[BUFFER]]
// CHECK-SAME: pending = 2
// CHECK: nv_tileaa.addf [[TILE]], %s :
// CHECK: nv_tileaa.async_wait_group
// CHECK-NOT: schedule
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
        attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 3, initiation_interval = 400>} {
      %tile, %t = nv_tileaa.tiled_load %view[%x, %i] token = %token {schedule = #nv_tileaa.op_schedule<stage = 0, order = 0, unit = memory>,
          prefetch = #nv_tileaa.prefetch<distance = 2>} : !view0 -> tensor<1x1024xf32>
      %d = nv_tileaa.addf %tile, %s {schedule = #nv_tileaa.op_schedule<stage = 2, order = 1>} : tensor<1x1024xf32>
      nv_tileaa.continue %d : tensor<1x1024xf32>
    }
    %done = nv_tileaa.tiled_store %sum, %view[%x, %c0] token = %token : tensor<1x1024xf32>, !view0
    nv_tileaa.return
  }
}
// -----
// meets_where_products_read_what_others_have_copied
// CHECK: nv_tileaa.circular_buffer {stages = 2, shared, ctas = 3}
// CHECK: nv_tileaa.for
// CHECK: nv_tileaa.async_wait_group {pending = 0, meet}
// CHECK: nv_tileaa.async_wait_group {meet, frees}
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
        attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 2, frees_stages = 1>} {
      %tile, %t = nv_tileaa.tiled_load %view[%x, %i] token = %token {schedule = #nv_tileaa.op_schedule<stage = 0, order = 0, unit = memory>,
          prefetch = #nv_tileaa.prefetch<distance = 1, smem_operand = 1, ctas = 3>} : !view0 -> tensor<1x1024xf32>
      %d = nv_tileaa.addf %tile, %s {schedule = #nv_tileaa.op_schedule<stage = 1, order = 1>} : tensor<1x1024xf32>
      nv_tileaa.continue %d : tensor<1x1024xf32>
    }
    %done = nv_tileaa.tiled_store %sum, %view[%x, %c0] token = %token : tensor<1x1024xf32>, !view0
    nv_tileaa.return
  }
}
// -----
// leaves_a_serial_loop_as_it_is
// CHECK: nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%s = %zero)
// CHECK: nv_tileaa.exp2 %g :
// CHECK-NEXT: nv_tileaa.addf %p, %s :
// CHECK-NEXT: nv_tileaa.continue
// CHECK-NOT: schedule
builtin.module {
  nv_tileaa.func @chain(%n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<64xf32>
    %sum = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (tensor<64xf32>) : i32
        attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 1, initiation_interval = 64>} {
      %f = nv_tileaa.int_to_fp %i signed : i32 to f32
      %g = nv_tileaa.splat %f : f32 -> tensor<64xf32>
      %p = nv_tileaa.exp2 %g {schedule = #nv_tileaa.op_schedule<stage = 0, order = 0, cycle = 0>} : tensor<64xf32>
      %d = nv_tileaa.addf %p, %s {schedule = #nv_tileaa.op_schedule<stage = 0, order = 1, cycle = 32>} : tensor<64xf32>
      nv_tileaa.continue %d : tensor<64xf32>
    }
    nv_tileaa.return
  }
}
// -----
// leaves_a_loop_without_a_schedule
// CHECK: nv_tileaa.for %i
// CHECK-NEXT: nv_tileaa.tiled_load
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
// puts_a_kernel_with_its_strategy_in_place_where_as_many_ctas_share_an_sm
// CHECK: strategy = #nv_tileas.strategy<chosen = wgmma>
// CHECK: nv_tileaa.if
// CHECK: nv_tileaa.dot
// CHECK: mma = #nv_tileas.wgmma<
// CHECK: nv_tileaa.for
// CHECK: content = 1
// CHECK: else
// CHECK-NOT: schedule
!memref0 = !nv_tileaa.memref<?x64xf16, strides = [64, 1]>
!view0 = !nv_tileaa.tiled_view<128x64 of !memref0, padding = zero>
builtin.module {
  nv_tileaa.func @attention(%a: !nv_tileaa.ptr<f16>, %n: i32) attributes {hints = {occupancy = 1 : i32},
      strategy = #nv_tileas.strategy<chosen = wgmma>, plan = #nv_tileas.kernel_plan<num_warps = 8, warpgroups = 2, ctas = 1,
      producer_warps = 4, registers = 232, producer_registers = 40, consumer_registers = 232, smem_transpose = 0, scratch = 4096>,
      pipelines = [#nv_tileas.pipeline_plan<bytes = 16384, least = 1, may_grow = 1>, #nv_tileas.pipeline_plan<bytes = 16384, least = 1,
      may_grow = 1>]} {
    %token = nv_tileaa.create_mem_token
    %memref = nv_tileaa.make_memref %a sizes = [%n] {base_align = 16, shape_divisor = [1, 64], stride_divisor = [64, 1]}
        : !nv_tileaa.ptr<f16> -> !memref0
    %view = nv_tileaa.block_tile %memref : !view0
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<128x128xf32>
    %sum0 = nv_tileaa.constant dense<0.000000e+00> : tensor<128x64xf32>
    %q, %tq = nv_tileaa.tiled_load %view[%c0, %c0] token = %token : !view0 -> tensor<128x64xf16>
    %o = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%sum = %sum0) -> (tensor<128x64xf32>) : i32
        attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 2, initiation_interval = 1920, serial = 2432, registers = 144,
        ctas = 1>} {
      %k, %tk = nv_tileaa.tiled_load %view[%i, %c0] token = %token {pipeline = #nv_tileas.filled_by<pipeline = 0, content = 0, place = 0>,
          schedule = #nv_tileaa.op_schedule<stage = 0, order = 0, cycle = 0, unit = memory>} : !view0 -> tensor<128x64xf16>
      %kt = nv_tileaa.permute %k [1, 0] : tensor<128x64xf16> -> tensor<64x128xf16>
      %s = nv_tileaa.dot %q, %kt, %zero {mma = #nv_tileas.wgmma<lhs = registers, fragments = none, transposed = 0>,
          schedule = #nv_tileaa.op_schedule<stage = 0, order = 1, cycle = 0, unit = tensor_core>} : tensor<128x64xf16>,
          tensor<64x128xf16> -> tensor<128x128xf32>
      %p = nv_tileaa.exp2 %s {flush_to_zero, schedule = #nv_tileaa.op_schedule<stage = 0, order = 4, cycle = 640, unit = mufu>}
          : tensor<128x128xf32>
      %w = nv_tileaa.fp_to_fp %p {schedule = #nv_tileaa.op_schedule<stage = 0, order = 5, cycle = 1664, unit = convert>}
          : tensor<128x128xf32> to tensor<128x128xf16>
      %v, %tv = nv_tileaa.tiled_load %view[%i, %c0] token = %token {pipeline = #nv_tileas.filled_by<pipeline = 1, content = 0, place = 0>,
          schedule = #nv_tileaa.op_schedule<stage = 1, order = 2, cycle = 512, unit = memory>} : !view0 -> tensor<128x64xf16>
      %d = nv_tileaa.dot %w, %v, %sum {mma = #nv_tileas.wgmma<lhs = registers, fragments = none, transposed = 0>,
          schedule = #nv_tileaa.op_schedule<stage = 1, order = 3, cycle = 512, unit = tensor_core>} : tensor<128x128xf16>,
          tensor<128x64xf16> -> tensor<128x64xf32>
      nv_tileaa.continue %d : tensor<128x64xf32>
    }
    %r = nv_tileaa.fp_to_fp %o : tensor<128x64xf32> to tensor<128x64xf16>
    %done = nv_tileaa.tiled_store %r, %view[%c0, %c0] token = %token : tensor<128x64xf16>, !view0
    nv_tileaa.return
  }
}
// -----
// gives_up_a_schedule_where_fewer_ctas_would_share_an_sm
// CHECK: strategy = #nv_tileas.strategy<chosen = wgmma>
// CHECK-NOT: nv_tileaa.if
// CHECK: nv_tileaa.for
// CHECK: mma = #nv_tileas.wgmma<
// CHECK-NOT: schedule
!memref0 = !nv_tileaa.memref<?x64xf16, strides = [64, 1]>
!view0 = !nv_tileaa.tiled_view<128x64 of !memref0, padding = zero>
builtin.module {
  nv_tileaa.func @attention(%a: !nv_tileaa.ptr<f16>, %n: i32) attributes {hints = {occupancy = 1 : i32},
      strategy = #nv_tileas.strategy<chosen = wgmma>, plan = #nv_tileas.kernel_plan<num_warps = 8, warpgroups = 2, ctas = 1,
      producer_warps = 4, registers = 232, producer_registers = 40, consumer_registers = 232, smem_transpose = 0, scratch = 4096>,
      pipelines = [#nv_tileas.pipeline_plan<bytes = 16384, least = 1, may_grow = 1>, #nv_tileas.pipeline_plan<bytes = 16384, least = 1,
      may_grow = 1>]} {
    %token = nv_tileaa.create_mem_token
    %memref = nv_tileaa.make_memref %a sizes = [%n] {base_align = 16, shape_divisor = [1, 64], stride_divisor = [64, 1]}
        : !nv_tileaa.ptr<f16> -> !memref0
    %view = nv_tileaa.block_tile %memref : !view0
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<128x128xf32>
    %sum0 = nv_tileaa.constant dense<0.000000e+00> : tensor<128x64xf32>
    %q, %tq = nv_tileaa.tiled_load %view[%c0, %c0] token = %token : !view0 -> tensor<128x64xf16>
    %o = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%sum = %sum0) -> (tensor<128x64xf32>) : i32
        attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 2, initiation_interval = 1920, serial = 2432, registers = 144,
        ctas = 2>} {
      %k, %tk = nv_tileaa.tiled_load %view[%i, %c0] token = %token {pipeline = #nv_tileas.filled_by<pipeline = 0, content = 0, place = 0>,
          schedule = #nv_tileaa.op_schedule<stage = 0, order = 0, cycle = 0, unit = memory>} : !view0 -> tensor<128x64xf16>
      %kt = nv_tileaa.permute %k [1, 0] : tensor<128x64xf16> -> tensor<64x128xf16>
      %s = nv_tileaa.dot %q, %kt, %zero {mma = #nv_tileas.wgmma<lhs = registers, fragments = none, transposed = 0>,
          schedule = #nv_tileaa.op_schedule<stage = 0, order = 1, cycle = 0, unit = tensor_core>} : tensor<128x64xf16>,
          tensor<64x128xf16> -> tensor<128x128xf32>
      %p = nv_tileaa.exp2 %s {flush_to_zero, schedule = #nv_tileaa.op_schedule<stage = 0, order = 4, cycle = 640, unit = mufu>}
          : tensor<128x128xf32>
      %w = nv_tileaa.fp_to_fp %p {schedule = #nv_tileaa.op_schedule<stage = 0, order = 5, cycle = 1664, unit = convert>}
          : tensor<128x128xf32> to tensor<128x128xf16>
      %v, %tv = nv_tileaa.tiled_load %view[%i, %c0] token = %token {pipeline = #nv_tileas.filled_by<pipeline = 1, content = 0, place = 0>,
          schedule = #nv_tileaa.op_schedule<stage = 1, order = 2, cycle = 512, unit = memory>} : !view0 -> tensor<128x64xf16>
      %d = nv_tileaa.dot %w, %v, %sum {mma = #nv_tileas.wgmma<lhs = registers, fragments = none, transposed = 0>,
          schedule = #nv_tileaa.op_schedule<stage = 1, order = 3, cycle = 512, unit = tensor_core>} : tensor<128x128xf16>,
          tensor<128x64xf16> -> tensor<128x64xf32>
      nv_tileaa.continue %d : tensor<128x64xf32>
    }
    %r = nv_tileaa.fp_to_fp %o : tensor<128x64xf32> to tensor<128x64xf16>
    %done = nv_tileaa.tiled_store %r, %view[%c0, %c0] token = %token : tensor<128x64xf16>, !view0
    nv_tileaa.return
  }
}
// -----
// rejects_three_stages_in_registers
// expected-error@+6 {{has 3 stages, expected at most 2}}
builtin.module {
  nv_tileaa.func @chain(%n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<64xf32>
    %sum = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (tensor<64xf32>) : i32
        attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 3, initiation_interval = 64>} {
      %f = nv_tileaa.int_to_fp %i signed : i32 to f32
      %g = nv_tileaa.splat %f : f32 -> tensor<64xf32>
      %p = nv_tileaa.exp2 %g {schedule = #nv_tileaa.op_schedule<stage = 0, order = 1, cycle = 0>} : tensor<64xf32>
      %d = nv_tileaa.addf %p, %s {schedule = #nv_tileaa.op_schedule<stage = 2, order = 0, cycle = 32>} : tensor<64xf32>
      nv_tileaa.continue %d : tensor<64xf32>
    }
    nv_tileaa.return
  }
}
// -----
// rejects_two_stages_of_what_has_to_stay_in_order
builtin.module {
  nv_tileaa.func @chain(%n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<64xf32>
    %sum = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (tensor<64xf32>) : i32
        attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 2>} {
      %f = nv_tileaa.int_to_fp %i signed : i32 to f32
      %g = nv_tileaa.splat %f : f32 -> tensor<64xf32>
      %p = nv_tileaa.exp2 %g {schedule = #nv_tileaa.op_schedule<stage = 0, order = 0>} : tensor<64xf32>
      %d = nv_tileaa.addf %p, %s {schedule = #nv_tileaa.op_schedule<stage = 1, order = 1>} : tensor<64xf32>
      // expected-error@+1 {{'nv_tileaa.async_commit_group' is in a loop of 2 stages, expected operations whose order}}
      nv_tileaa.async_commit_group {schedule = #nv_tileaa.op_schedule<stage = 1, order = 2>}
      nv_tileaa.continue %d : tensor<64xf32>
    }
    nv_tileaa.return
  }
}
// -----
// rejects_prefetching_the_same_tile_in_every_iteration
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
      // expected-error@+1 {{'nv_tileaa.tiled_load' is prefetched, expected a weak load whose indices follow from the loop's counter}}
      %tile, %t = nv_tileaa.tiled_load %view[%x, %c0] token = %token {schedule = #nv_tileaa.op_schedule<stage = 0, order = 0, unit = memory>,
          prefetch = #nv_tileaa.prefetch<distance = 1>} : !view0 -> tensor<1x1024xf32>
      %d = nv_tileaa.addf %tile, %s {schedule = #nv_tileaa.op_schedule<stage = 1, order = 1>} : tensor<1x1024xf32>
      nv_tileaa.continue %d : tensor<1x1024xf32>
    }
    %done = nv_tileaa.tiled_store %sum, %view[%x, %c0] token = %token : tensor<1x1024xf32>, !view0
    nv_tileaa.return
  }
}
// -----
// rejects_resident_tiles_of_a_loop_with_an_unknown_step
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
    %sum = nv_tileaa.for %i = %c0 to %n step %n iter_args(%s = %zero) -> (tensor<1x1024xf32>) : i32
        attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 2>} {
      // expected-error@+1 {{tiles are resident from loop to loop, expected loops beside each other with a constant step}}
      %tile, %t = nv_tileaa.tiled_load %view[%x, %i] token = %token {schedule = #nv_tileaa.op_schedule<stage = 0, order = 0, unit = memory>,
          prefetch = #nv_tileaa.prefetch<distance = 1, resident = 0, resident_stages = 4>} : !view0 -> tensor<1x1024xf32>
      %d = nv_tileaa.addf %tile, %s {schedule = #nv_tileaa.op_schedule<stage = 1, order = 1>} : tensor<1x1024xf32>
      nv_tileaa.continue %d : tensor<1x1024xf32>
    }
    %done = nv_tileaa.tiled_store %sum, %view[%x, %c0] token = %token : tensor<1x1024xf32>, !view0
    nv_tileaa.return
  }
}

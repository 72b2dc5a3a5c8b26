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

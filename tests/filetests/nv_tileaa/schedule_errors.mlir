// RUN: tileas-expand-schedule
// rejects_an_operation_without_a_stage
builtin.module {
  nv_tileaa.func @chain(%n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<64xf32>
    %sum = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (tensor<64xf32>) : i32
        attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 1>} {
      %f = nv_tileaa.int_to_fp %i signed : i32 to f32
      %g = nv_tileaa.splat %f : f32 -> tensor<64xf32>
      // expected-error@+1 {{'nv_tileaa.exp2' op has no stage in the schedule of its loop}}
      %p = nv_tileaa.exp2 %g : tensor<64xf32>
      %d = nv_tileaa.addf %p, %s {schedule = #nv_tileaa.op_schedule<stage = 0, order = 0>} : tensor<64xf32>
      nv_tileaa.continue %d : tensor<64xf32>
    }
    nv_tileaa.return
  }
}
// -----
// rejects_a_place_in_a_loop_that_has_no_schedule
builtin.module {
  nv_tileaa.func @chain(%n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<64xf32>
    %sum = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (tensor<64xf32>) : i32 {
      %f = nv_tileaa.int_to_fp %i signed : i32 to f32
      %g = nv_tileaa.splat %f : f32 -> tensor<64xf32>
      %p = nv_tileaa.exp2 %g : tensor<64xf32>
      // expected-error@+1 {{'nv_tileaa.addf' op has a place in a loop that has no schedule}}
      %d = nv_tileaa.addf %p, %s {schedule = #nv_tileaa.op_schedule<stage = 0, order = 0>} : tensor<64xf32>
      nv_tileaa.continue %d : tensor<64xf32>
    }
    nv_tileaa.return
  }
}
// -----
// rejects_a_stage_beyond_the_last
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
      // expected-error@+1 {{'nv_tileaa.addf' op is in stage 2, expected less than 2}}
      %d = nv_tileaa.addf %p, %s {schedule = #nv_tileaa.op_schedule<stage = 2, order = 1>} : tensor<64xf32>
      nv_tileaa.continue %d : tensor<64xf32>
    }
    nv_tileaa.return
  }
}
// -----
// rejects_a_cycle_beyond_the_interval
builtin.module {
  nv_tileaa.func @chain(%n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<64xf32>
    %sum = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (tensor<64xf32>) : i32
        attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 1, initiation_interval = 64>} {
      %f = nv_tileaa.int_to_fp %i signed : i32 to f32
      %g = nv_tileaa.splat %f : f32 -> tensor<64xf32>
      %p = nv_tileaa.exp2 %g {schedule = #nv_tileaa.op_schedule<stage = 0, order = 0>} : tensor<64xf32>
      // expected-error@+1 {{'nv_tileaa.addf' op starts in cycle 64 of an interval of 64}}
      %d = nv_tileaa.addf %p, %s {schedule = #nv_tileaa.op_schedule<stage = 0, order = 1, cycle = 64>} : tensor<64xf32>
      nv_tileaa.continue %d : tensor<64xf32>
    }
    nv_tileaa.return
  }
}
// -----
// rejects_an_order_given_twice
builtin.module {
  nv_tileaa.func @chain(%n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<64xf32>
    %sum = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (tensor<64xf32>) : i32
        attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 1>} {
      %f = nv_tileaa.int_to_fp %i signed : i32 to f32
      %g = nv_tileaa.splat %f : f32 -> tensor<64xf32>
      %p = nv_tileaa.exp2 %g {schedule = #nv_tileaa.op_schedule<stage = 0, order = 3>} : tensor<64xf32>
      // expected-error@+1 {{'nv_tileaa.addf' op has order 3, as 'nv_tileaa.exp2' has before}}
      %d = nv_tileaa.addf %p, %s {schedule = #nv_tileaa.op_schedule<stage = 0, order = 3>} : tensor<64xf32>
      nv_tileaa.continue %d : tensor<64xf32>
    }
    nv_tileaa.return
  }
}
// -----
// rejects_a_stage_of_what_is_repeated
builtin.module {
  nv_tileaa.func @chain(%n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<64xf32>
    %sum = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (tensor<64xf32>) : i32
        attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 1>} {
      %f = nv_tileaa.int_to_fp %i signed : i32 to f32
      // expected-error@+1 {{'nv_tileaa.splat' op has a stage, expected none}}
      %g = nv_tileaa.splat %f {schedule = #nv_tileaa.op_schedule<stage = 0, order = 2>} : f32 -> tensor<64xf32>
      %p = nv_tileaa.exp2 %g {schedule = #nv_tileaa.op_schedule<stage = 0, order = 0>} : tensor<64xf32>
      %d = nv_tileaa.addf %p, %s {schedule = #nv_tileaa.op_schedule<stage = 0, order = 1>} : tensor<64xf32>
      nv_tileaa.continue %d : tensor<64xf32>
    }
    nv_tileaa.return
  }
}
// -----
// rejects_an_operation_before_what_it_reads
builtin.module {
  nv_tileaa.func @chain(%n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<64xf32>
    %sum = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (tensor<64xf32>) : i32
        attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 1>} {
      %f = nv_tileaa.int_to_fp %i signed : i32 to f32
      %g = nv_tileaa.splat %f : f32 -> tensor<64xf32>
      %p = nv_tileaa.exp2 %g {schedule = #nv_tileaa.op_schedule<stage = 0, order = 1>} : tensor<64xf32>
      // expected-error@+1 {{'nv_tileaa.addf' op in stage 0, order 0 runs before 'nv_tileaa.exp2' in stage 0, order 1}}
      %d = nv_tileaa.addf %p, %s {schedule = #nv_tileaa.op_schedule<stage = 0, order = 0>} : tensor<64xf32>
      nv_tileaa.continue %d : tensor<64xf32>
    }
    nv_tileaa.return
  }
}
// -----
// rejects_a_stage_before_what_it_reads
builtin.module {
  nv_tileaa.func @chain(%n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<64xf32>
    %sum = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (tensor<64xf32>) : i32
        attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 2>} {
      %f = nv_tileaa.int_to_fp %i signed : i32 to f32
      %g = nv_tileaa.splat %f : f32 -> tensor<64xf32>
      %p = nv_tileaa.exp2 %g {schedule = #nv_tileaa.op_schedule<stage = 1, order = 0>} : tensor<64xf32>
      // expected-error@+1 {{'nv_tileaa.addf' op in stage 0, order 1 runs before 'nv_tileaa.exp2' in stage 1, order 0}}
      %d = nv_tileaa.addf %p, %s {schedule = #nv_tileaa.op_schedule<stage = 0, order = 1>} : tensor<64xf32>
      nv_tileaa.continue %d : tensor<64xf32>
    }
    nv_tileaa.return
  }
}
// -----
// rejects_a_schedule_without_stages
builtin.module {
  nv_tileaa.func @chain(%n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<64xf32>
    // expected-error@+2 {{expected stages and any of initiation_interval}}
    %sum = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (tensor<64xf32>) : i32
        attributes {loop_schedule = #nv_tileaa.loop_schedule<initiation_interval = 3>} {
      %f = nv_tileaa.int_to_fp %i signed : i32 to f32
      %g = nv_tileaa.splat %f : f32 -> tensor<64xf32>
      %p = nv_tileaa.exp2 %g {schedule = #nv_tileaa.op_schedule<stage = 0, order = 0>} : tensor<64xf32>
      %d = nv_tileaa.addf %p, %s {schedule = #nv_tileaa.op_schedule<stage = 0, order = 1>} : tensor<64xf32>
      nv_tileaa.continue %d : tensor<64xf32>
    }
    nv_tileaa.return
  }
}
// -----
// rejects_no_stages
builtin.module {
  nv_tileaa.func @chain(%n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<64xf32>
    // expected-error@+1 {{'nv_tileaa.for' op the schedule of a loop is a #nv_tileaa.loop_schedule with stages}}
    %sum = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (tensor<64xf32>) : i32
        attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 0>} {
      %f = nv_tileaa.int_to_fp %i signed : i32 to f32
      %g = nv_tileaa.splat %f : f32 -> tensor<64xf32>
      %p = nv_tileaa.exp2 %g {schedule = #nv_tileaa.op_schedule<stage = 0, order = 0>} : tensor<64xf32>
      %d = nv_tileaa.addf %p, %s {schedule = #nv_tileaa.op_schedule<stage = 0, order = 1>} : tensor<64xf32>
      nv_tileaa.continue %d : tensor<64xf32>
    }
    nv_tileaa.return
  }
}
// -----
// rejects_a_negative_stage
builtin.module {
  nv_tileaa.func @chain(%n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<64xf32>
    %sum = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (tensor<64xf32>) : i32
        attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 1>} {
      %f = nv_tileaa.int_to_fp %i signed : i32 to f32
      %g = nv_tileaa.splat %f : f32 -> tensor<64xf32>
      // expected-error@+1 {{stage is -1, expected no negative number}}
      %p = nv_tileaa.exp2 %g {schedule = #nv_tileaa.op_schedule<stage = -1, order = 0>} : tensor<64xf32>
      %d = nv_tileaa.addf %p, %s {schedule = #nv_tileaa.op_schedule<stage = 0, order = 1>} : tensor<64xf32>
      nv_tileaa.continue %d : tensor<64xf32>
    }
    nv_tileaa.return
  }
}
// -----
// rejects_a_word_for_a_stage
builtin.module {
  nv_tileaa.func @chain(%n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<64xf32>
    // expected-error@+1 {{stage is last, expected an integer}}
    %sum = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (tensor<64xf32>) : i32
        attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 1>} {
      %f = nv_tileaa.int_to_fp %i signed : i32 to f32
      %g = nv_tileaa.splat %f : f32 -> tensor<64xf32>
      %p = nv_tileaa.exp2 %g {schedule = #nv_tileaa.op_schedule<stage = last, order = 0>} : tensor<64xf32>
      %d = nv_tileaa.addf %p, %s {schedule = #nv_tileaa.op_schedule<stage = 0, order = 1>} : tensor<64xf32>
      nv_tileaa.continue %d : tensor<64xf32>
    }
    nv_tileaa.return
  }
}
// -----
// rejects_another_attribute_for_a_schedule
builtin.module {
  nv_tileaa.func @chain(%n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<64xf32>
    // expected-error@+1 {{the schedule of a loop is a #nv_tileaa.loop_schedule with stages}}
    %sum = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (tensor<64xf32>) : i32
        attributes {loop_schedule = 3 : i32} {
      %f = nv_tileaa.int_to_fp %i signed : i32 to f32
      %g = nv_tileaa.splat %f : f32 -> tensor<64xf32>
      %p = nv_tileaa.exp2 %g {schedule = #nv_tileaa.op_schedule<stage = 0, order = 0>} : tensor<64xf32>
      %d = nv_tileaa.addf %p, %s {schedule = #nv_tileaa.op_schedule<stage = 0, order = 1>} : tensor<64xf32>
      nv_tileaa.continue %d : tensor<64xf32>
    }
    nv_tileaa.return
  }
}
// -----
// rejects_prefetching_what_is_no_load
builtin.module {
  nv_tileaa.func @chain(%n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<64xf32>
    %sum = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (tensor<64xf32>) : i32
        attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 2>} {
      %f = nv_tileaa.int_to_fp %i signed : i32 to f32
      %g = nv_tileaa.splat %f : f32 -> tensor<64xf32>
      // expected-error@+1 {{'nv_tileaa.exp2' op is prefetched, expected a load from a view}}
      %p = nv_tileaa.exp2 %g {schedule = #nv_tileaa.op_schedule<stage = 0, order = 0>, prefetch = #nv_tileaa.prefetch<distance = 1>} : tensor<64xf32>
      %d = nv_tileaa.addf %p, %s {schedule = #nv_tileaa.op_schedule<stage = 1, order = 1>} : tensor<64xf32>
      nv_tileaa.continue %d : tensor<64xf32>
    }
    nv_tileaa.return
  }
}
// -----
// rejects_a_distance_that_is_no_stage
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
        attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 3>} {
      // expected-error@+1 {{'nv_tileaa.tiled_load' op in stage 0 of 3 is prefetched by 1 iterations, expected stage 0 and 2}}
      %tile, %t = nv_tileaa.tiled_load %view[%x, %i] token = %token {schedule = #nv_tileaa.op_schedule<stage = 0, order = 0, unit = memory>,
          prefetch = #nv_tileaa.prefetch<distance = 1>} : !view0 -> tensor<1x1024xf32>
      %d = nv_tileaa.addf %tile, %s {schedule = #nv_tileaa.op_schedule<stage = 2, order = 1>} : tensor<1x1024xf32>
      nv_tileaa.continue %d : tensor<1x1024xf32>
    }
    %done = nv_tileaa.tiled_store %sum, %view[%x, %c0] token = %token : tensor<1x1024xf32>, !view0
    nv_tileaa.return
  }
}
// -----
// rejects_a_prefetched_load_of_the_last_stage
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
      // expected-error@+1 {{'nv_tileaa.tiled_load' op in stage 1 of 2 is prefetched by 1 iterations, expected stage 0 and 1}}
      %tile, %t = nv_tileaa.tiled_load %view[%x, %i] token = %token {schedule = #nv_tileaa.op_schedule<stage = 1, order = 0, unit = memory>,
          prefetch = #nv_tileaa.prefetch<distance = 1>} : !view0 -> tensor<1x1024xf32>
      %d = nv_tileaa.addf %tile, %s {schedule = #nv_tileaa.op_schedule<stage = 1, order = 1>} : tensor<1x1024xf32>
      nv_tileaa.continue %d : tensor<1x1024xf32>
    }
    %done = nv_tileaa.tiled_store %sum, %view[%x, %c0] token = %token : tensor<1x1024xf32>, !view0
    nv_tileaa.return
  }
}
// -----
// rejects_fewer_resident_stages_than_are_prefetched
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
        attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 3>} {
      // expected-error@+1 {{'nv_tileaa.tiled_load' op keeps fewer resident stages than it prefetches}}
      %tile, %t = nv_tileaa.tiled_load %view[%x, %i] token = %token {schedule = #nv_tileaa.op_schedule<stage = 0, order = 0, unit = memory>,
          prefetch = #nv_tileaa.prefetch<distance = 2, resident = 0, resident_stages = 2>} : !view0 -> tensor<1x1024xf32>
      %d = nv_tileaa.addf %tile, %s {schedule = #nv_tileaa.op_schedule<stage = 2, order = 1>} : tensor<1x1024xf32>
      nv_tileaa.continue %d : tensor<1x1024xf32>
    }
    %done = nv_tileaa.tiled_store %sum, %view[%x, %c0] token = %token : tensor<1x1024xf32>, !view0
    nv_tileaa.return
  }
}

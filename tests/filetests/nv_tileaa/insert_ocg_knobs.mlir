// RUN: convert-cudatile-to-tileaa,tileas-insert-OCG-knobs
// limits_registers_and_keeps_every_loop
// CHECK: nv_tileaa.func @k
// CHECK-SAME: max_registers = 64
// CHECK: nv_tileaa.for
// CHECK: no_unroll
// CHECK: nv_tileaa.loop
// CHECK: no_unroll
cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>, %n: tile<i32>)
      optimization_hints=<default = {max_registers = 64, unroll = false}> {
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    for %i in (%c0 to %n, step %c1) : tile<i32> {
      %v, %t = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
      continue
    }
    loop {
      break
    }
    return
  }
}
// -----
// keeps_the_loop_around_a_load
// CHECK: nv_tileaa.for
// CHECK: nv_tileaa.for
// CHECK: no_unroll
// CHECK-NOT: no_unroll
cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    for %j in (%c0 to %n, step %c1) : tile<i32> {
      for %i in (%c0 to %n, step %c1) : tile<i32> {
        %v, %t = load_ptr_tko weak %p optimization_hints=<sm_90 = {unroll = false}>
          : tile<ptr<f32>> -> tile<f32>, token
        continue
      }
      continue
    }
    return
  }
}
// -----
// leaves_kernels_without_such_hints
// CHECK: nv_tileaa.func @k
// CHECK-NOT: max_registers =
// CHECK-NOT: no_unroll
cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>, %n: tile<i32>)
      optimization_hints=<default = {unroll = true, occupancy = 2}, sm_100 = {max_registers = 64}> {
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    for %i in (%c0 to %n, step %c1) : tile<i32> {
      %v, %t = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
      continue
    }
    return
  }
}
// -----
// leaves_registers_that_no_thread_can_have
// CHECK: nv_tileaa.func @k
// CHECK-SAME: attributes {hints = {max_registers = 300 : i32}} {
cuda_tile.module @m {
  entry @k() optimization_hints=<default = {max_registers = 300}> {
    return
  }
}

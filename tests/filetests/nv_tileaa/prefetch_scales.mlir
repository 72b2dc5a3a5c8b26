// RUN: tileaa-prefetch-scales --gpu-name=sm_120
// loads_the_scales_of_the_next_iteration
// CHECK: [[FIRST:%.*]], {{%.*}} = nv_tileaa.tiled_load %v[%c0, %c0]
// CHECK: nv_tileaa.for [[I:%.*]] = %c0 to %n step %c1 iter_args([[SUM:%.*]] = %zero, [[S:%.*]] = [[FIRST]])
// CHECK-NEXT: [[NEXT:%.*]] = nv_tileaa.addi [[I]], %c1
// CHECK-NEXT: [[LATER:%.*]], {{%.*}} = nv_tileaa.tiled_load %v[%c0, [[NEXT]]]
// CHECK-NEXT: nv_tileaa.dot_scaled %a by [[S]], %b by %sb, [[SUM]]
// CHECK: nv_tileaa.continue {{.*}}, [[LATER]]
!scales = !nv_tileaa.tiled_view<16x2 of !nv_tileaa.memref<16x64xf8E8M0FNU, strides = [64, 1]>>
builtin.module {
  nv_tileaa.func @loop(%v: !scales, %a: tensor<16x64xf8E4M3FN>, %b: tensor<64x8xf8E4M3FN>, %sb: tensor<2x8xf8E8M0FNU>, %n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<16x8xf32>
    %r = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%c = %zero) -> (tensor<16x8xf32>) : i32 {
      %sa, %t = nv_tileaa.tiled_load %v[%c0, %i] : !scales -> tensor<16x2xf8E8M0FNU>
      %d = nv_tileaa.dot_scaled %a by %sa, %b by %sb, %c : tensor<16x64xf8E4M3FN>, tensor<16x2xf8E8M0FNU>, tensor<64x8xf8E4M3FN>, tensor<2x8xf8E8M0FNU> -> tensor<16x8xf32>
      nv_tileaa.continue %d : tensor<16x8xf32>
    }
    nv_tileaa.return
  }
}
// -----
// leaves_a_load_that_something_waits_for
// CHECK: nv_tileaa.for
// CHECK-NEXT: nv_tileaa.tiled_load
!scales = !nv_tileaa.tiled_view<16x2 of !nv_tileaa.memref<16x64xf8E8M0FNU, strides = [64, 1]>>
builtin.module {
  nv_tileaa.func @waited(%v: !scales, %a: tensor<16x64xf8E4M3FN>, %b: tensor<64x8xf8E4M3FN>, %sb: tensor<2x8xf8E8M0FNU>, %n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<16x8xf32>
    %r = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%c = %zero) -> (tensor<16x8xf32>) : i32 {
      %sa, %t = nv_tileaa.tiled_load %v[%c0, %i] : !scales -> tensor<16x2xf8E8M0FNU>
      %j = nv_tileaa.join_mem_tokens %t
      %d = nv_tileaa.dot_scaled %a by %sa, %b by %sb, %c : tensor<16x64xf8E4M3FN>, tensor<16x2xf8E8M0FNU>, tensor<64x8xf8E4M3FN>, tensor<2x8xf8E8M0FNU> -> tensor<16x8xf32>
      nv_tileaa.continue %d : tensor<16x8xf32>
    }
    nv_tileaa.return
  }
}
// -----
// leaves_a_load_whose_index_is_carried
// CHECK: nv_tileaa.for
// CHECK-NEXT: nv_tileaa.tiled_load
!scales = !nv_tileaa.tiled_view<16x2 of !nv_tileaa.memref<16x64xf8E8M0FNU, strides = [64, 1]>>
builtin.module {
  nv_tileaa.func @carried(%v: !scales, %a: tensor<16x64xf8E4M3FN>, %b: tensor<64x8xf8E4M3FN>, %sb: tensor<2x8xf8E8M0FNU>, %n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<16x8xf32>
    %r:2 = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%c = %zero, %at = %c0) -> (tensor<16x8xf32>, i32) : i32 {
      %sa, %t = nv_tileaa.tiled_load %v[%c0, %at] : !scales -> tensor<16x2xf8E8M0FNU>
      %d = nv_tileaa.dot_scaled %a by %sa, %b by %sb, %c : tensor<16x64xf8E4M3FN>, tensor<16x2xf8E8M0FNU>, tensor<64x8xf8E4M3FN>, tensor<2x8xf8E8M0FNU> -> tensor<16x8xf32>
      nv_tileaa.continue %d, %i : tensor<16x8xf32>, i32
    }
    nv_tileaa.return
  }
}

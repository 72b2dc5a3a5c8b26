// RUN: choose-strategy,tileaa-expand-scaled-dot --gpu-name=sm_100
// multiplies_scales_in_where_no_plan_has_room
// CHECK-NOT: nv_tileaa.dot_scaled
// CHECK: nv_tileaa.unpack
// CHECK-NEXT: nv_tileaa.reshape {{.*}} -> tensor<16x64xf4E2M1FN>
// CHECK: nv_tileaa.mulf
// CHECK: nv_tileaa.dot {{.*}} tensor<16x64xbf16>, tensor<64x8xbf16> -> tensor<16x8xf32>
builtin.module {
  nv_tileaa.func @alone(%a: tensor<16x32xi8>, %sa: tensor<16x4xf8E4M3FN>, %b: tensor<32x8xi8>, %sb: tensor<4x8xf8E4M3FN>, %c: tensor<16x8xf32>) {
    %d = nv_tileaa.dot_scaled %a by %sa, %b by %sb, %c {packed} : tensor<16x32xi8>, tensor<16x4xf8E4M3FN>, tensor<32x8xi8>, tensor<4x8xf8E4M3FN> -> tensor<16x8xf32>
    nv_tileaa.return
  }
}
// -----
// keeps_what_is_planned_with_tensor_memory
// CHECK: store_warp = 0
// CHECK-NOT: nv_tileaa.unpack
// CHECK: nv_tileaa.dot_scaled
// CHECK-SAME: {packed
builtin.module {
  nv_tileaa.func @gemm(%a: !nv_tileaa.ptr<i8>, %b: !nv_tileaa.ptr<i8>, %sa: !nv_tileaa.ptr<f8E4M3FN>, %sb: !nv_tileaa.ptr<f8E4M3FN>, %c: !nv_tileaa.ptr<f32>, %n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %x = nv_tileaa.get_program_id 0
    %y = nv_tileaa.get_program_id 1
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<128x64xf32>
    %am = nv_tileaa.make_memref %a {base_align = 16, stride_divisor = [128, 1]} : !nv_tileaa.ptr<i8> -> !nv_tileaa.memref<128x128xi8, strides = [128, 1]>
    %av = nv_tileaa.block_tile %am : !nv_tileaa.tiled_view<128x64 of !nv_tileaa.memref<128x128xi8, strides = [128, 1]>>
    %bm = nv_tileaa.make_memref %b {base_align = 16, stride_divisor = [1, 128]} : !nv_tileaa.ptr<i8> -> !nv_tileaa.memref<128x64xi8, strides = [1, 128]>
    %bv = nv_tileaa.block_tile %bm : !nv_tileaa.tiled_view<64x64 of !nv_tileaa.memref<128x64xi8, strides = [1, 128]>>
    %sam = nv_tileaa.make_memref %sa {base_align = 16, stride_divisor = [16, 1]} : !nv_tileaa.ptr<f8E4M3FN> -> !nv_tileaa.memref<128x16xf8E4M3FN, strides = [16, 1]>
    %sav = nv_tileaa.block_tile %sam : !nv_tileaa.tiled_view<128x8 of !nv_tileaa.memref<128x16xf8E4M3FN, strides = [16, 1]>>
    %sbm = nv_tileaa.make_memref %sb {base_align = 16, stride_divisor = [1, 16]} : !nv_tileaa.ptr<f8E4M3FN> -> !nv_tileaa.memref<16x64xf8E4M3FN, strides = [1, 16]>
    %sbv = nv_tileaa.block_tile %sbm : !nv_tileaa.tiled_view<8x64 of !nv_tileaa.memref<16x64xf8E4M3FN, strides = [1, 16]>>
    %cm = nv_tileaa.make_memref %c {base_align = 16, stride_divisor = [64, 1]} : !nv_tileaa.ptr<f32> -> !nv_tileaa.memref<128x64xf32, strides = [64, 1]>
    %cv = nv_tileaa.block_tile %cm : !nv_tileaa.tiled_view<128x64 of !nv_tileaa.memref<128x64xf32, strides = [64, 1]>>
    %sum = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %at, %k0 = nv_tileaa.tiled_load %av[%x, %i] : !nv_tileaa.tiled_view<128x64 of !nv_tileaa.memref<128x128xi8, strides = [128, 1]>> -> tensor<128x64xi8>
      %bt, %k1 = nv_tileaa.tiled_load %bv[%i, %y] : !nv_tileaa.tiled_view<64x64 of !nv_tileaa.memref<128x64xi8, strides = [1, 128]>> -> tensor<64x64xi8>
      %sat, %k2 = nv_tileaa.tiled_load %sav[%x, %i] : !nv_tileaa.tiled_view<128x8 of !nv_tileaa.memref<128x16xf8E4M3FN, strides = [16, 1]>> -> tensor<128x8xf8E4M3FN>
      %sbt, %k3 = nv_tileaa.tiled_load %sbv[%i, %y] : !nv_tileaa.tiled_view<8x64 of !nv_tileaa.memref<16x64xf8E4M3FN, strides = [1, 16]>> -> tensor<8x64xf8E4M3FN>
      %d = nv_tileaa.dot_scaled %at by %sat, %bt by %sbt, %acc {packed} : tensor<128x64xi8>, tensor<128x8xf8E4M3FN>, tensor<64x64xi8>, tensor<8x64xf8E4M3FN> -> tensor<128x64xf32>
      nv_tileaa.continue %d : tensor<128x64xf32>
    }
    %k4 = nv_tileaa.tiled_store %sum, %cv[%x, %y] : tensor<128x64xf32>, !nv_tileaa.tiled_view<128x64 of !nv_tileaa.memref<128x64xf32, strides = [64, 1]>>
    nv_tileaa.return
  }
}
// -----
// leaves_a_product_without_scales
// CHECK: nv_tileaa.dot %a, %b, %c
builtin.module {
  nv_tileaa.func @plain(%a: tensor<16x32xbf16>, %b: tensor<32x8xbf16>, %c: tensor<16x8xf32>) {
    %d = nv_tileaa.dot %a, %b, %c : tensor<16x32xbf16>, tensor<32x8xbf16> -> tensor<16x8xf32>
    nv_tileaa.return
  }
}

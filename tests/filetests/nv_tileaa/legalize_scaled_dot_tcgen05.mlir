// RUN: tileaa-legalize-scaled-dot --gpu-name=sm_100
// keeps_scales_that_go_to_tensor_memory
// CHECK-NOT: nv_tileaa.mulf
// CHECK: nv_tileaa.dot_scaled
builtin.module {
  nv_tileaa.func @gemm(%a: !nv_tileaa.ptr<f8E4M3FN>, %b: !nv_tileaa.ptr<f8E4M3FN>, %sa: !nv_tileaa.ptr<f8E8M0FNU>, %sb: !nv_tileaa.ptr<f8E8M0FNU>, %c: !nv_tileaa.ptr<f32>, %n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %x = nv_tileaa.get_program_id 0
    %y = nv_tileaa.get_program_id 1
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<128x64xf32>
    %am = nv_tileaa.make_memref %a {base_align = 16, stride_divisor = [128, 1]} : !nv_tileaa.ptr<f8E4M3FN> -> !nv_tileaa.memref<128x128xf8E4M3FN, strides = [128, 1]>
    %av = nv_tileaa.block_tile %am : !nv_tileaa.tiled_view<128x64 of !nv_tileaa.memref<128x128xf8E4M3FN, strides = [128, 1]>>
    %bm = nv_tileaa.make_memref %b {base_align = 16, stride_divisor = [1, 128]} : !nv_tileaa.ptr<f8E4M3FN> -> !nv_tileaa.memref<128x64xf8E4M3FN, strides = [1, 128]>
    %bv = nv_tileaa.block_tile %bm : !nv_tileaa.tiled_view<64x64 of !nv_tileaa.memref<128x64xf8E4M3FN, strides = [1, 128]>>
    %sam = nv_tileaa.make_memref %sa {base_align = 16, stride_divisor = [4, 1]} : !nv_tileaa.ptr<f8E8M0FNU> -> !nv_tileaa.memref<128x4xf8E8M0FNU, strides = [4, 1]>
    %sav = nv_tileaa.block_tile %sam : !nv_tileaa.tiled_view<128x2 of !nv_tileaa.memref<128x4xf8E8M0FNU, strides = [4, 1]>>
    %sbm = nv_tileaa.make_memref %sb {base_align = 16, stride_divisor = [1, 4]} : !nv_tileaa.ptr<f8E8M0FNU> -> !nv_tileaa.memref<4x64xf8E8M0FNU, strides = [1, 4]>
    %sbv = nv_tileaa.block_tile %sbm : !nv_tileaa.tiled_view<2x64 of !nv_tileaa.memref<4x64xf8E8M0FNU, strides = [1, 4]>>
    %cm = nv_tileaa.make_memref %c {base_align = 16, stride_divisor = [64, 1]} : !nv_tileaa.ptr<f32> -> !nv_tileaa.memref<128x64xf32, strides = [64, 1]>
    %cv = nv_tileaa.block_tile %cm : !nv_tileaa.tiled_view<128x64 of !nv_tileaa.memref<128x64xf32, strides = [64, 1]>>
    %sum = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %at, %k0 = nv_tileaa.tiled_load %av[%x, %i] : !nv_tileaa.tiled_view<128x64 of !nv_tileaa.memref<128x128xf8E4M3FN, strides = [128, 1]>> -> tensor<128x64xf8E4M3FN>
      %bt, %k1 = nv_tileaa.tiled_load %bv[%i, %y] : !nv_tileaa.tiled_view<64x64 of !nv_tileaa.memref<128x64xf8E4M3FN, strides = [1, 128]>> -> tensor<64x64xf8E4M3FN>
      %sat, %k2 = nv_tileaa.tiled_load %sav[%x, %i] : !nv_tileaa.tiled_view<128x2 of !nv_tileaa.memref<128x4xf8E8M0FNU, strides = [4, 1]>> -> tensor<128x2xf8E8M0FNU>
      %sbt, %k3 = nv_tileaa.tiled_load %sbv[%i, %y] : !nv_tileaa.tiled_view<2x64 of !nv_tileaa.memref<4x64xf8E8M0FNU, strides = [1, 4]>> -> tensor<2x64xf8E8M0FNU>
      %d = nv_tileaa.dot_scaled %at by %sat, %bt by %sbt, %acc : tensor<128x64xf8E4M3FN>, tensor<128x2xf8E8M0FNU>, tensor<64x64xf8E4M3FN>, tensor<2x64xf8E8M0FNU> -> tensor<128x64xf32>
      nv_tileaa.continue %d : tensor<128x64xf32>
    }
    %k4 = nv_tileaa.tiled_store %sum, %cv[%x, %y] : tensor<128x64xf32>, !nv_tileaa.tiled_view<128x64 of !nv_tileaa.memref<128x64xf32, strides = [64, 1]>>
    nv_tileaa.return
  }
}
// -----
// multiplies_scales_in_where_there_are_64_rows
// CHECK-NOT: nv_tileaa.dot_scaled
// CHECK: nv_tileaa.mulf
// CHECK: nv_tileaa.dot {{.*}} tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
builtin.module {
  nv_tileaa.func @gemm(%a: !nv_tileaa.ptr<f8E4M3FN>, %b: !nv_tileaa.ptr<f8E4M3FN>, %sa: !nv_tileaa.ptr<f8E8M0FNU>, %sb: !nv_tileaa.ptr<f8E8M0FNU>, %c: !nv_tileaa.ptr<f32>, %n: i32) {
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %x = nv_tileaa.get_program_id 0
    %y = nv_tileaa.get_program_id 1
    %zero = nv_tileaa.constant dense<0.000000e+00> : tensor<64x64xf32>
    %am = nv_tileaa.make_memref %a {base_align = 16, stride_divisor = [128, 1]} : !nv_tileaa.ptr<f8E4M3FN> -> !nv_tileaa.memref<128x128xf8E4M3FN, strides = [128, 1]>
    %av = nv_tileaa.block_tile %am : !nv_tileaa.tiled_view<64x64 of !nv_tileaa.memref<128x128xf8E4M3FN, strides = [128, 1]>>
    %bm = nv_tileaa.make_memref %b {base_align = 16, stride_divisor = [1, 128]} : !nv_tileaa.ptr<f8E4M3FN> -> !nv_tileaa.memref<128x64xf8E4M3FN, strides = [1, 128]>
    %bv = nv_tileaa.block_tile %bm : !nv_tileaa.tiled_view<64x64 of !nv_tileaa.memref<128x64xf8E4M3FN, strides = [1, 128]>>
    %sam = nv_tileaa.make_memref %sa {base_align = 16, stride_divisor = [4, 1]} : !nv_tileaa.ptr<f8E8M0FNU> -> !nv_tileaa.memref<128x4xf8E8M0FNU, strides = [4, 1]>
    %sav = nv_tileaa.block_tile %sam : !nv_tileaa.tiled_view<64x2 of !nv_tileaa.memref<128x4xf8E8M0FNU, strides = [4, 1]>>
    %sbm = nv_tileaa.make_memref %sb {base_align = 16, stride_divisor = [1, 4]} : !nv_tileaa.ptr<f8E8M0FNU> -> !nv_tileaa.memref<4x64xf8E8M0FNU, strides = [1, 4]>
    %sbv = nv_tileaa.block_tile %sbm : !nv_tileaa.tiled_view<2x64 of !nv_tileaa.memref<4x64xf8E8M0FNU, strides = [1, 4]>>
    %cm = nv_tileaa.make_memref %c {base_align = 16, stride_divisor = [64, 1]} : !nv_tileaa.ptr<f32> -> !nv_tileaa.memref<128x64xf32, strides = [64, 1]>
    %cv = nv_tileaa.block_tile %cm : !nv_tileaa.tiled_view<64x64 of !nv_tileaa.memref<128x64xf32, strides = [64, 1]>>
    %sum = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %at, %k0 = nv_tileaa.tiled_load %av[%x, %i] : !nv_tileaa.tiled_view<64x64 of !nv_tileaa.memref<128x128xf8E4M3FN, strides = [128, 1]>> -> tensor<64x64xf8E4M3FN>
      %bt, %k1 = nv_tileaa.tiled_load %bv[%i, %y] : !nv_tileaa.tiled_view<64x64 of !nv_tileaa.memref<128x64xf8E4M3FN, strides = [1, 128]>> -> tensor<64x64xf8E4M3FN>
      %sat, %k2 = nv_tileaa.tiled_load %sav[%x, %i] : !nv_tileaa.tiled_view<64x2 of !nv_tileaa.memref<128x4xf8E8M0FNU, strides = [4, 1]>> -> tensor<64x2xf8E8M0FNU>
      %sbt, %k3 = nv_tileaa.tiled_load %sbv[%i, %y] : !nv_tileaa.tiled_view<2x64 of !nv_tileaa.memref<4x64xf8E8M0FNU, strides = [1, 4]>> -> tensor<2x64xf8E8M0FNU>
      %d = nv_tileaa.dot_scaled %at by %sat, %bt by %sbt, %acc : tensor<64x64xf8E4M3FN>, tensor<64x2xf8E8M0FNU>, tensor<64x64xf8E4M3FN>, tensor<2x64xf8E8M0FNU> -> tensor<64x64xf32>
      nv_tileaa.continue %d : tensor<64x64xf32>
    }
    %k4 = nv_tileaa.tiled_store %sum, %cv[%x, %y] : tensor<64x64xf32>, !nv_tileaa.tiled_view<64x64 of !nv_tileaa.memref<128x64xf32, strides = [64, 1]>>
    nv_tileaa.return
  }
}

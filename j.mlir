!memref0 = !nv_tileaa.memref<?x?x?x?xf16, strides = [?, ?, ?, 1]>
!view0 = !nv_tileaa.tiled_view<1x1x64x128 of !memref0>
!view1 = !nv_tileaa.tiled_view<1x1x128x64 of !memref0, dim_map = [0, 1, 3, 2]>
!view2 = !nv_tileaa.tiled_view<1x1x128x128 of !memref0, dim_map = [0, 1, 3, 2], steps = [1, 1, 128, 64]>
!view3 = !nv_tileaa.tiled_view<1x1x128x128 of !memref0, steps = [1, 1, 64, 128]>
#shared0 = #nv_tileas.nvmma_shared<swizzle = 128, major = 1>
!smem0 = !nv_tileas.memdesc<64x128xf16, #shared0, smem>
#linear0 = #nv_tileas.layout<{register = [[8, 0]], lane = [[0, 0], [0, 0], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]} -> 64x1>
#mma0 = #nv_tileas.layout<{register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32], [0, 64]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]],
    warp = [[16, 0], [32, 0]]} -> 64x128>
#shared1 = #nv_tileas.nvmma_shared<swizzle = 128, major = 0>
!smem1 = !nv_tileas.memdesc<128x128xf16, #shared1, smem>
#linear1 = #nv_tileas.layout<{register = [[8]], lane = [[0], [0], [1], [2], [4]], warp = [[16], [32]]} -> 64>
#linear2 = #nv_tileas.layout<{register = [[0, 0], [8, 0], [0, 0], [0, 0], [0, 0], [0, 0]], lane = [[0, 0], [0, 0], [1, 0], [2, 0], [4, 0]],
    warp = [[16, 0], [32, 0]]} -> 64x1>
#linear3 = #nv_tileas.layout<{register = [[8, 0, 0]], lane = [[0, 0, 0], [0, 0, 0], [1, 0, 0], [2, 0, 0], [4, 0, 0]],
    warp = [[16, 0, 0], [32, 0, 0]]} -> 64x1x1>
#linear4 = #nv_tileas.layout<{register = [[8, 0, 0]], lane = [[0, 0, 1], [0, 0, 2], [1, 0, 0], [2, 0, 0], [4, 0, 0]],
    warp = [[16, 0, 0], [32, 0, 0]]} -> 64x1x4>
!smem2 = !nv_tileas.memdesc<128x128xf16, #shared0, smem>
#linear5 = #nv_tileas.layout<{register = [[0, 0, 0, 1], [8, 0, 0, 0], [0, 1, 0, 0], [0, 2, 0, 0], [0, 4, 0, 0], [0, 8, 0, 0]],
    lane = [[0, 0, 1, 0], [0, 0, 2, 0], [1, 0, 0, 0], [2, 0, 0, 0], [4, 0, 0, 0]], warp = [[16, 0, 0, 0], [32, 0, 0, 0]]} -> 64x16x4x2>
#linear6 = #nv_tileas.layout<{register = [[8, 0, 0], [0, 1, 0], [0, 2, 0], [0, 4, 0], [0, 8, 0]],
    lane = [[0, 0, 1], [0, 0, 2], [1, 0, 0], [2, 0, 0], [4, 0, 0]], warp = [[16, 0, 0], [32, 0, 0]]} -> 64x16x4>
#linear7 = #nv_tileas.layout<{register = [[8, 0]], lane = [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]} -> 64x4>
!smem3 = !nv_tileas.memdesc<128x64xf16, #shared1, smem>
#mma1 = #nv_tileas.layout<{register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]],
    warp = [[16, 0], [32, 0]]} -> 64x64>
#linear8 = #nv_tileas.layout<{register = [[0, 0], [8, 0], [0, 0], [0, 0], [0, 0]], lane = [[0, 0], [0, 0], [1, 0], [2, 0], [4, 0]],
    warp = [[16, 0], [32, 0]]} -> 64x1>
#linear9 = #nv_tileas.layout<{register = [[0, 0, 0, 1], [8, 0, 0, 0], [0, 1, 0, 0], [0, 2, 0, 0], [0, 4, 0, 0]],
    lane = [[0, 0, 1, 0], [0, 0, 2, 0], [1, 0, 0, 0], [2, 0, 0, 0], [4, 0, 0, 0]], warp = [[16, 0, 0, 0], [32, 0, 0, 0]]} -> 64x8x4x2>
#linear10 = #nv_tileas.layout<{register = [[8, 0, 0], [0, 1, 0], [0, 2, 0], [0, 4, 0]],
    lane = [[0, 0, 1], [0, 0, 2], [1, 0, 0], [2, 0, 0], [4, 0, 0]], warp = [[16, 0, 0], [32, 0, 0]]} -> 64x8x4>
#blocked0 = #nv_tileas.layout<{register = [[0, 1], [0, 2], [0, 4], [8, 0], [16, 0], [32, 0]],
    lane = [[0, 8], [0, 16], [0, 32], [0, 64], [1, 0]], warp = [[2, 0], [4, 0]]} -> 64x128>
#linear11 = #nv_tileas.layout<{offset = [[0, 1], [8, 0], [0, 8], [0, 2], [0, 4], [1, 0], [2, 0], [4, 0], [16, 0], [32, 0], [0, 18], [0, 36],
    [1, 64]]} -> 64x128>
#blocked1 = #nv_tileas.layout<{register = [[0, 0, 0, 1], [0, 0, 0, 2], [0, 0, 0, 4], [0, 0, 8, 0], [0, 0, 16, 0], [0, 0, 32, 0]],
    lane = [[0, 0, 0, 8], [0, 0, 0, 16], [0, 0, 0, 32], [0, 0, 0, 64], [0, 0, 1, 0]], warp = [[0, 0, 2, 0], [0, 0, 4, 0]]} -> 1x1x64x128>
builtin.module {
  nv_tileaa.func @benchmark(%arg0: !nv_tileaa.ptr<f16>, %arg1: i32, %arg2: i32, %arg3: i32, %arg4: i32, %arg5: i32, %arg6: i32, %arg7: i32,
      %arg8: i32, %arg9: !nv_tileaa.ptr<f16>, %arg10: i32, %arg11: i32, %arg12: i32, %arg13: i32, %arg14: i32, %arg15: i32, %arg16: i32,
      %arg17: i32, %arg18: !nv_tileaa.ptr<f16>, %arg19: i32, %arg20: i32, %arg21: i32, %arg22: i32, %arg23: i32, %arg24: i32, %arg25: i32,
      %arg26: i32, %arg27: !nv_tileaa.ptr<f16>, %arg28: i32, %arg29: i32, %arg30: i32, %arg31: i32, %arg32: i32, %arg33: i32, %arg34: i32,
      %arg35: i32, %arg36: f32) attributes {hints = {occupancy = 2 : i32}, num_warps = 4} {
    %pipeline = nv_tileas.async.pipeline.create_pipeline {stages = 1, stage_bytes = 32768, consumers = 1, gather_threads = 0}
    %pipeline_1 = nv_tileas.async.pipeline.create_pipeline {stages = 1, stage_bytes = 32768, consumers = 1, gather_threads = 0}
    %pipeline_2 = nv_tileas.async.pipeline.create_pipeline {stages = 1, stage_bytes = 16384, consumers = 1, gather_threads = 0}
    nv_tileas.async.pipeline.agent_switch {consumer_warps = 4, producer_warps = 4, working_warps = 1, producer_registers = 40,
        consumer_registers = 216, ctas = 2} producer {
      %memref = nv_tileaa.make_memref %arg0 sizes = [%arg1, %arg2, %arg3, %arg4] strides = [%arg5, %arg6, %arg7]
          {base_align = 16, shape_divisor = [1, 16, 16, 16], stride_divisor = [8, 8, 8, 1]} : !nv_tileaa.ptr<f16> -> !memref0
      %view = nv_tileaa.block_tile %memref : !view0
      %desc = nv_tileas.make_tiled_tma_desc %view box [1, 1, 64, 64] {swizzle = 128} : !view0
      %memref_1 = nv_tileaa.make_memref %arg9 sizes = [%arg10, %arg11, %arg12, %arg13] strides = [%arg14, %arg15, %arg16]
          {base_align = 16, shape_divisor = [1, 16, 16, 16], stride_divisor = [8, 8, 8, 1]} : !nv_tileaa.ptr<f16> -> !memref0
      %view_1 = nv_tileaa.block_tile %memref_1 : !view1
      %desc_1 = nv_tileas.make_tiled_tma_desc %view_1 box [1, 1, 64, 64] {swizzle = 128} : !view1
      %view_2 = nv_tileaa.block_tile %memref_1 : !view2
      %desc_2 = nv_tileas.make_tiled_tma_desc %view_2 box [1, 1, 128, 64] {swizzle = 128} : !view2
      %memref_2 = nv_tileaa.make_memref %arg18 sizes = [%arg19, %arg20, %arg21, %arg22] strides = [%arg23, %arg24, %arg25]
          {base_align = 16, shape_divisor = [1, 16, 16, 16], stride_divisor = [8, 8, 8, 1]} : !nv_tileaa.ptr<f16> -> !memref0
      %view_3 = nv_tileaa.block_tile %memref_2 : !view0
      %desc_3 = nv_tileas.make_tiled_tma_desc %view_3 box [1, 1, 64, 64] {swizzle = 128} : !view0
      %view_4 = nv_tileaa.block_tile %memref_2 : !view3
      %desc_4 = nv_tileas.make_tiled_tma_desc %view_4 box [1, 1, 128, 64] {swizzle = 128} : !view3
      %c64_i32 = nv_tileaa.constant 64 : i32
      %c16_i32 = nv_tileaa.constant 16 : i32
      %pid_x = nv_tileaa.get_program_id 0
      %pid_y = nv_tileaa.get_program_id 1
      %0 = nv_tileaa.divi %pid_y, %c16_i32 signed {rounding = negative_inf} : i32
      %c15_i32 = nv_tileaa.constant 15 : i32
      %1 = nv_tileaa.andi %pid_y, %c15_i32 : i32
      %cst = nv_tileaa.constant 1.44269502 : f32
      %2 = nv_tileaa.mulf %arg36, %cst : f32
      %c0_i32 = nv_tileaa.constant 0 : i32
      nv_tileas.async.pipeline.producer_acquire %pipeline_2 {bytes = 16384}
      nv_tileas.async.tiled_tma_load %view[%0, %1, %pid_x, %c0_i32] into %pipeline_2 using %desc {axis = 3, offset = 0} : !view0
      nv_tileas.async.pipeline.producer_commit %pipeline_2
      %3 = nv_tileaa.divi %arg12, %c64_i32 signed {rounding = positive_inf} : i32
      %c1_i32 = nv_tileaa.constant 1 : i32
      %4 = nv_tileaa.subi %3, %c0_i32 : i32
      %c-2_i32 = nv_tileaa.constant -2 : i32
      %5 = nv_tileaa.andi %4, %c-2_i32 : i32
      %6 = nv_tileaa.addi %c0_i32, %5 : i32
      %7 = nv_tileaa.cmpi less_than signed, %c0_i32, %3 : i32
      %cst_1 = nv_tileaa.constant 0.000000e+00 : f32
      %8 = nv_tileaa.cmpf greater_than_or_equal ordered, %2, %cst_1 : f32
      %9 = nv_tileaa.andi %7, %8 : i1
      %10 = nv_tileaa.select %9, %6, %c0_i32 : i1, i32
      %c2_i32 = nv_tileaa.constant 2 : i32
      %11 = nv_tileaa.cmpi less_than signed, %c0_i32, %10 : i32
      nv_tileaa.if %11 {
        nv_tileas.async.pipeline.producer_acquire %pipeline {bytes = 32768}
        nv_tileas.async.tiled_tma_load %view_2[%0, %1, %c0_i32, %c0_i32] into %pipeline using %desc_2 {axis = 2, offset = 0} : !view2
        nv_tileas.async.pipeline.producer_commit %pipeline
        %12 = nv_tileaa.addi %c0_i32, %c2_i32 : i32
        %13 = nv_tileaa.for %iv = %12 to %10 step %c2_i32 iter_args(%arg37 = %c0_i32) -> (i32) : i32 {
          nv_tileas.async.pipeline.producer_acquire %pipeline {bytes = 32768}
          nv_tileas.async.tiled_tma_load %view_2[%0, %1, %c0_i32, %iv] into %pipeline using %desc_2 {axis = 2, offset = 0} : !view2
          nv_tileas.async.pipeline.producer_commit %pipeline
          nv_tileas.async.pipeline.producer_acquire %pipeline_1 {bytes = 32768}
          nv_tileas.async.tiled_tma_load %view_4[%0, %1, %arg37, %c0_i32] into %pipeline_1 using %desc_4 {axis = 3, offset = 0} : !view3
          nv_tileas.async.pipeline.producer_commit %pipeline_1
          nv_tileaa.continue %iv : i32
        }
        nv_tileas.async.pipeline.producer_acquire %pipeline_1 {bytes = 32768}
        nv_tileas.async.tiled_tma_load %view_4[%0, %1, %13, %c0_i32] into %pipeline_1 using %desc_4 {axis = 3, offset = 0} : !view3
        nv_tileas.async.pipeline.producer_commit %pipeline_1
        nv_tileaa.yield
      } else {
        nv_tileaa.yield
      }
      nv_tileaa.for %iv_1 = %10 to %3 step %c1_i32 : i32 {
        nv_tileas.async.pipeline.producer_acquire %pipeline {bytes = 16384}
        nv_tileas.async.tiled_tma_load %view_1[%0, %1, %c0_i32, %iv_1] into %pipeline using %desc_1 {axis = 2, offset = 0} : !view1
        nv_tileas.async.pipeline.producer_commit %pipeline
        nv_tileas.async.pipeline.producer_acquire %pipeline_1 {bytes = 16384}
        nv_tileas.async.tiled_tma_load %view_3[%0, %1, %iv_1, %c0_i32] into %pipeline_1 using %desc_3 {axis = 3, offset = 0} : !view0
        nv_tileas.async.pipeline.producer_commit %pipeline_1
        nv_tileaa.continue
      }
      nv_tileas.async.pipeline.producer_tail %pipeline
      nv_tileas.async.pipeline.producer_tail %pipeline_1
      nv_tileas.async.pipeline.producer_tail %pipeline_2
      nv_tileaa.return
    } consumer {
      %token = nv_tileaa.create_mem_token
      %memref_3 = nv_tileaa.make_memref %arg27 sizes = [%arg28, %arg29, %arg30, %arg31] strides = [%arg32, %arg33, %arg34]
          {base_align = 16, shape_divisor = [1, 16, 16, 16], stride_divisor = [8, 8, 8, 1]} : !nv_tileaa.ptr<f16> -> !memref0
      %c64_i32_1 = nv_tileaa.constant 64 : i32
      %c16_i32_1 = nv_tileaa.constant 16 : i32
      %pid_x_1 = nv_tileaa.get_program_id 0
      %pid_y_1 = nv_tileaa.get_program_id 1
      %14 = nv_tileaa.divi %pid_y_1, %c16_i32_1 signed {rounding = negative_inf} : i32
      %c15_i32_1 = nv_tileaa.constant 15 : i32
      %15 = nv_tileaa.andi %pid_y_1, %c15_i32_1 : i32
      %cst_2 = nv_tileaa.constant 1.44269502 : f32
      %16 = nv_tileaa.mulf %arg36, %cst_2 : f32
      %c0_i32_1 = nv_tileaa.constant 0 : i32
      %17 = nv_tileas.async.pipeline.consumer_wait %pipeline_2 at [0] : (!nv_tileas.pipeline) -> !smem0
      %18 = nv_tileaa.divi %arg12, %c64_i32_1 signed {rounding = positive_inf} : i32
      %c1_i32_1 = nv_tileaa.constant 1 : i32
      %19 = nv_tileaa.subi %18, %c0_i32_1 : i32
      %c-2_i32_1 = nv_tileaa.constant -2 : i32
      %20 = nv_tileaa.andi %19, %c-2_i32_1 : i32
      %21 = nv_tileaa.addi %c0_i32_1, %20 : i32
      %22 = nv_tileaa.cmpi less_than signed, %c0_i32_1, %18 : i32
      %cst_3 = nv_tileaa.constant 0.000000e+00 : f32
      %23 = nv_tileaa.cmpf greater_than_or_equal ordered, %16, %cst_3 : f32
      %24 = nv_tileaa.andi %22, %23 : i1
      %25 = nv_tileaa.select %24, %21, %c0_i32_1 : i1, i32
      %c2_i32_1 = nv_tileaa.constant 2 : i32
      %26 = nv_tileaa.cmpi less_than signed, %c0_i32_1, %25 : i32
      %27:3 = nv_tileaa.if %26 -> (tensor<64x1xf32, #linear0>, tensor<64x1xf32, #linear0>, tensor<64x128xf32, #mma0>) {
        %28 = nv_tileas.async.pipeline.consumer_wait %pipeline at [0] : (!nv_tileas.pipeline) -> !smem1
        %cst_4 = nv_tileaa.constant dense<0.000000e+00> : tensor<64x128xf32, #mma0>
        %29 = nv_tileas.wgmma_dot %17, %28, %cst_4 {from_zero} : !smem0, !smem1 -> tensor<64x128xf32, #mma0>
        %30 = nv_tileas.dot_wait %29 {pending = 0} : tensor<64x128xf32, #mma0>
        nv_tileas.async.pipeline.consumer_release %pipeline {keep = 0}
        %31 = nv_tileaa.reduce (%30) dim 1 identities [0xFF800000 : f32] (%arg38: f32, %arg39: f32) {
          %32 = nv_tileaa.maxf %arg38, %arg39 : f32
          nv_tileaa.yield %32 : f32
        } {steps = [#nv_tileas.combine<in = registers, strides = [1, 8, 16, 32, 64]>, #nv_tileas.combine<in = lanes,
            strides = [2, 4]>]} : (tensor<64x128xf32, #mma0>) -> tensor<64xf32, #linear1>
        %33 = nv_tileaa.reshape %31 : tensor<64xf32, #linear1> -> tensor<64x1xf32, #linear0>
        %34 = nv_tileaa.splat %16 : f32 -> tensor<64x1xf32, #linear0>
        %35 = nv_tileaa.mulf %33, %34 : tensor<64x1xf32, #linear0>
        %cst_5 = nv_tileaa.constant dense<0xFF800000> : tensor<64x1xf32, #linear0>
        %36 = nv_tileaa.maxf %cst_5, %35 : tensor<64x1xf32, #linear0>
        %37 = nv_tileas.convert_layout %36 {by = #nv_tileas.in_registers} : tensor<64x1xf32, #linear0> -> tensor<64x1xf32, #linear2>
        %38 = nv_tileaa.broadcast %37 : tensor<64x1xf32, #linear2> -> tensor<64x128xf32, #mma0>
        %39 = nv_tileaa.negf %38 : tensor<64x128xf32, #mma0>
        %40 = nv_tileaa.splat %16 : f32 -> tensor<64x128xf32, #mma0>
        %41 = nv_tileaa.fma %30, %40, %39 : tensor<64x128xf32, #mma0>
        %42 = nv_tileaa.subf %cst_5, %36 : tensor<64x1xf32, #linear0>
        %43 = nv_tileaa.exp2 %42 {flush_to_zero} : tensor<64x1xf32, #linear0>
        %44 = nv_tileaa.exp2 %41 {flush_to_zero} : tensor<64x128xf32, #mma0>
        %45 = nv_tileaa.reduce (%44) dim 1 identities [0.000000e+00 : f32] (%arg40: f32, %arg41: f32) {
          %46 = nv_tileaa.addf %arg40, %arg41 : f32
          nv_tileaa.yield %46 : f32
        } {steps = [#nv_tileas.combine<in = registers, strides = [1, 8, 16, 32, 64]>, #nv_tileas.combine<in = lanes,
            strides = [2, 4]>]} : (tensor<64x128xf32, #mma0>) -> tensor<64xf32, #linear1>
        %cst_6 = nv_tileaa.constant dense<0.000000e+00> : tensor<64x1xf32, #linear0>
        %47 = nv_tileaa.reshape %45 : tensor<64xf32, #linear1> -> tensor<64x1xf32, #linear0>
        %48 = nv_tileaa.fma %cst_6, %43, %47 : tensor<64x1xf32, #linear0>
        %49 = nv_tileaa.fp_to_fp %44 : tensor<64x128xf32, #mma0> to tensor<64x128xf16, #mma0>
        %cst_7 = nv_tileaa.constant dense<0.000000e+00> : tensor<64x128xf32, #mma0>
        %50 = nv_tileas.convert_layout %43 {by = #nv_tileas.in_registers} : tensor<64x1xf32, #linear0> -> tensor<64x1xf32, #linear2>
        %51 = nv_tileaa.broadcast %50 : tensor<64x1xf32, #linear2> -> tensor<64x128xf32, #mma0>
        %52 = nv_tileaa.mulf %cst_7, %51 : tensor<64x128xf32, #mma0>
        %53 = nv_tileaa.addi %c0_i32_1, %c2_i32_1 : i32
        %54 = nv_tileaa.reshape %48 : tensor<64x1xf32, #linear0> -> tensor<64x1x1xf32, #linear3>
        %55 = nv_tileaa.broadcast %54 : tensor<64x1x1xf32, #linear3> -> tensor<64x1x4xf32, #linear4>
        %cst_8 = nv_tileaa.constant dense<2.500000e-01> : tensor<64x1x4xf32, #linear4>
        %56 = nv_tileaa.mulf %55, %cst_8 : tensor<64x1x4xf32, #linear4>
        %57:4 = nv_tileaa.for %iv_2 = %53 to %25 step %c2_i32_1 iter_args(%arg42 = %36, %arg43 = %56, %arg44 = %49, %arg45 = %52)
            -> (tensor<64x1xf32, #linear0>, tensor<64x1x4xf32, #linear4>, tensor<64x128xf16, #mma0>, tensor<64x128xf32, #mma0>) : i32 {
          %58 = nv_tileas.async.pipeline.consumer_wait %pipeline at [0] : (!nv_tileas.pipeline) -> !smem1
          %59 = nv_tileas.wgmma_dot %17, %58, %cst_4 {from_zero} : !smem0, !smem1 -> tensor<64x128xf32, #mma0>
          %60 = nv_tileas.async.pipeline.consumer_wait %pipeline_1 at [0] : (!nv_tileas.pipeline) -> !smem2
          %61 = nv_tileas.wgmma_dot %arg44, %60, %arg45 : tensor<64x128xf16, #mma0>, !smem2 -> tensor<64x128xf32, #mma0>
          %62 = nv_tileas.dot_wait %59 {pending = 1} : tensor<64x128xf32, #mma0>
          nv_tileas.async.pipeline.consumer_release %pipeline {keep = 0}
          %63 = nv_tileaa.reduce (%62) dim 1 identities [0xFF800000 : f32] (%arg46: f32, %arg47: f32) {
            %64 = nv_tileaa.maxf %arg46, %arg47 : f32
            nv_tileaa.yield %64 : f32
          } {steps = [#nv_tileas.combine<in = registers, strides = [1, 8, 16, 32, 64]>, #nv_tileas.combine<in = lanes,
              strides = [2, 4]>]} : (tensor<64x128xf32, #mma0>) -> tensor<64xf32, #linear1>
          %65 = nv_tileaa.reshape %63 : tensor<64xf32, #linear1> -> tensor<64x1xf32, #linear0>
          %66 = nv_tileaa.mulf %65, %34 : tensor<64x1xf32, #linear0>
          %67 = nv_tileaa.maxf %arg42, %66 : tensor<64x1xf32, #linear0>
          %68 = nv_tileas.convert_layout %67 {by = #nv_tileas.in_registers} : tensor<64x1xf32, #linear0> -> tensor<64x1xf32, #linear2>
          %69 = nv_tileaa.broadcast %68 : tensor<64x1xf32, #linear2> -> tensor<64x128xf32, #mma0>
          %70 = nv_tileaa.negf %69 : tensor<64x128xf32, #mma0>
          %71 = nv_tileaa.fma %62, %40, %70 : tensor<64x128xf32, #mma0>
          %72 = nv_tileaa.subf %arg42, %67 : tensor<64x1xf32, #linear0>
          %73 = nv_tileaa.exp2 %72 {flush_to_zero} : tensor<64x1xf32, #linear0>
          %74 = nv_tileaa.exp2 %71 {flush_to_zero} : tensor<64x128xf32, #mma0>
          %75 = nv_tileaa.reshape %74 : tensor<64x128xf32, #mma0> -> tensor<64x16x4x2xf32, #linear5>
          %76 = nv_tileaa.reduce (%75) dim 3 identities [0.000000e+00 : f32] (%arg48: f32, %arg49: f32) {
            %77 = nv_tileaa.addf %arg48, %arg49 : f32
            nv_tileaa.yield %77 : f32
          } {steps = [#nv_tileas.combine<in = registers, strides = [1]>]} : (tensor<64x16x4x2xf32, #linear5>) -> tensor<64x16x4xf32,
              #linear6>
          %78 = nv_tileaa.reduce (%76) dim 1 identities [0.000000e+00 : f32] (%arg50: f32, %arg51: f32) {
            %79 = nv_tileaa.addf %arg50, %arg51 : f32
            nv_tileaa.yield %79 : f32
          } {steps = [#nv_tileas.combine<in = registers, strides = [1, 2, 4, 8]>]} : (tensor<64x16x4xf32, #linear6>) -> tensor<64x4xf32,
              #linear7>
          %80 = nv_tileaa.reshape %78 : tensor<64x4xf32, #linear7> -> tensor<64x1x4xf32, #linear4>
          %81 = nv_tileaa.reshape %73 : tensor<64x1xf32, #linear0> -> tensor<64x1x1xf32, #linear3>
          %82 = nv_tileaa.broadcast %81 : tensor<64x1x1xf32, #linear3> -> tensor<64x1x4xf32, #linear4>
          %83 = nv_tileaa.fma %arg43, %82, %80 : tensor<64x1x4xf32, #linear4>
          %84 = nv_tileas.dot_wait %61 keeping [%arg44] {pending = 0} : tensor<64x128xf32, #mma0>, tensor<64x128xf16, #mma0>
          nv_tileas.async.pipeline.consumer_release %pipeline_1 {keep = 0}
          %85 = nv_tileaa.fp_to_fp %74 : tensor<64x128xf32, #mma0> to tensor<64x128xf16, #mma0>
          %86 = nv_tileas.convert_layout %73 {by = #nv_tileas.in_registers} : tensor<64x1xf32, #linear0> -> tensor<64x1xf32, #linear2>
          %87 = nv_tileaa.broadcast %86 : tensor<64x1xf32, #linear2> -> tensor<64x128xf32, #mma0>
          %88 = nv_tileaa.mulf %84, %87 : tensor<64x128xf32, #mma0>
          nv_tileaa.continue %67, %83, %85, %88 : tensor<64x1xf32, #linear0>, tensor<64x1x4xf32, #linear4>, tensor<64x128xf16, #mma0>,
              tensor<64x128xf32, #mma0>
        }
        %89 = nv_tileaa.reduce (%57#1) dim 2 identities [0.000000e+00 : f32] (%arg52: f32, %arg53: f32) {
          %90 = nv_tileaa.addf %arg52, %arg53 : f32
          nv_tileaa.yield %90 : f32
        } {steps = [#nv_tileas.combine<in = lanes, strides = [1, 2]>]} : (tensor<64x1x4xf32, #linear4>) -> tensor<64x1xf32, #linear0>
        %91 = nv_tileas.async.pipeline.consumer_wait %pipeline_1 at [0] : (!nv_tileas.pipeline) -> !smem2
        %92 = nv_tileas.wgmma_dot %57#2, %91, %57#3 : tensor<64x128xf16, #mma0>, !smem2 -> tensor<64x128xf32, #mma0>
        %93 = nv_tileas.dot_wait %92 keeping [%57#2] {pending = 0} : tensor<64x128xf32, #mma0>, tensor<64x128xf16, #mma0>
        nv_tileas.async.pipeline.consumer_release %pipeline_1 {keep = 0}
        nv_tileaa.yield %89, %57#0, %93 : tensor<64x1xf32, #linear0>, tensor<64x1xf32, #linear0>, tensor<64x128xf32, #mma0>
      } else {
        %cst_9 = nv_tileaa.constant dense<0.000000e+00> : tensor<64x1xf32, #linear0>
        %cst_10 = nv_tileaa.constant dense<0xFF800000> : tensor<64x1xf32, #linear0>
        %cst_11 = nv_tileaa.constant dense<0.000000e+00> : tensor<64x128xf32, #mma0>
        nv_tileaa.yield %cst_9, %cst_10, %cst_11 : tensor<64x1xf32, #linear0>, tensor<64x1xf32, #linear0>, tensor<64x128xf32, #mma0>
      }
      %94 = nv_tileaa.reshape %27#0 : tensor<64x1xf32, #linear0> -> tensor<64x1x1xf32, #linear3>
      %95 = nv_tileaa.broadcast %94 : tensor<64x1x1xf32, #linear3> -> tensor<64x1x4xf32, #linear4>
      %cst_12 = nv_tileaa.constant dense<2.500000e-01> : tensor<64x1x4xf32, #linear4>
      %96 = nv_tileaa.mulf %95, %cst_12 : tensor<64x1x4xf32, #linear4>
      %97:3 = nv_tileaa.for %iv_3 = %25 to %18 step %c1_i32_1 iter_args(%arg54 = %96, %arg55 = %27#1, %arg56 = %27#2)
          -> (tensor<64x1x4xf32, #linear4>, tensor<64x1xf32, #linear0>, tensor<64x128xf32, #mma0>) : i32 {
        %98 = nv_tileas.async.pipeline.consumer_wait %pipeline at [0] : (!nv_tileas.pipeline) -> !smem3
        %cst_13 = nv_tileaa.constant dense<0.000000e+00> : tensor<64x64xf32, #mma1>
        %99 = nv_tileas.wgmma_dot %17, %98, %cst_13 {from_zero} : !smem0, !smem3 -> tensor<64x64xf32, #mma1>
        %100 = nv_tileas.dot_wait %99 {pending = 0} : tensor<64x64xf32, #mma1>
        nv_tileas.async.pipeline.consumer_release %pipeline {keep = 0}
        %101 = nv_tileaa.reduce (%100) dim 1 identities [0xFF800000 : f32] (%arg57: f32, %arg58: f32) {
          %102 = nv_tileaa.maxf %arg57, %arg58 : f32
          nv_tileaa.yield %102 : f32
        } {steps = [#nv_tileas.combine<in = registers, strides = [1, 8, 16, 32]>, #nv_tileas.combine<in = lanes,
            strides = [2, 4]>]} : (tensor<64x64xf32, #mma1>) -> tensor<64xf32, #linear1>
        %103 = nv_tileaa.reshape %101 : tensor<64xf32, #linear1> -> tensor<64x1xf32, #linear0>
        %104 = nv_tileaa.splat %16 : f32 -> tensor<64x1xf32, #linear0>
        %105 = nv_tileaa.mulf %103, %104 : tensor<64x1xf32, #linear0>
        %106 = nv_tileaa.maxf %arg55, %105 : tensor<64x1xf32, #linear0>
        %107 = nv_tileas.convert_layout %106 {by = #nv_tileas.in_registers} : tensor<64x1xf32, #linear0> -> tensor<64x1xf32, #linear8>
        %108 = nv_tileaa.broadcast %107 : tensor<64x1xf32, #linear8> -> tensor<64x64xf32, #mma1>
        %109 = nv_tileaa.negf %108 : tensor<64x64xf32, #mma1>
        %110 = nv_tileaa.splat %16 : f32 -> tensor<64x64xf32, #mma1>
        %111 = nv_tileaa.fma %100, %110, %109 : tensor<64x64xf32, #mma1>
        %112 = nv_tileaa.exp2 %111 {flush_to_zero} : tensor<64x64xf32, #mma1>
        %113 = nv_tileaa.subf %arg55, %106 : tensor<64x1xf32, #linear0>
        %114 = nv_tileaa.exp2 %113 {flush_to_zero} : tensor<64x1xf32, #linear0>
        %115 = nv_tileaa.reshape %112 : tensor<64x64xf32, #mma1> -> tensor<64x8x4x2xf32, #linear9>
        %116 = nv_tileaa.reduce (%115) dim 3 identities [0.000000e+00 : f32] (%arg59: f32, %arg60: f32) {
          %117 = nv_tileaa.addf %arg59, %arg60 : f32
          nv_tileaa.yield %117 : f32
        } {steps = [#nv_tileas.combine<in = registers, strides = [1]>]} : (tensor<64x8x4x2xf32, #linear9>) -> tensor<64x8x4xf32, #linear10>
        %118 = nv_tileaa.reduce (%116) dim 1 identities [0.000000e+00 : f32] (%arg61: f32, %arg62: f32) {
          %119 = nv_tileaa.addf %arg61, %arg62 : f32
          nv_tileaa.yield %119 : f32
        } {steps = [#nv_tileas.combine<in = registers, strides = [1, 2, 4]>]} : (tensor<64x8x4xf32, #linear10>) -> tensor<64x4xf32,
            #linear7>
        %120 = nv_tileaa.reshape %118 : tensor<64x4xf32, #linear7> -> tensor<64x1x4xf32, #linear4>
        %121 = nv_tileaa.reshape %114 : tensor<64x1xf32, #linear0> -> tensor<64x1x1xf32, #linear3>
        %122 = nv_tileaa.broadcast %121 : tensor<64x1x1xf32, #linear3> -> tensor<64x1x4xf32, #linear4>
        %123 = nv_tileaa.fma %arg54, %122, %120 : tensor<64x1x4xf32, #linear4>
        %124 = nv_tileas.async.pipeline.consumer_wait %pipeline_1 at [0] : (!nv_tileas.pipeline) -> !smem0
        %125 = nv_tileaa.fp_to_fp %112 : tensor<64x64xf32, #mma1> to tensor<64x64xf16, #mma1>
        %126 = nv_tileas.convert_layout %114 {by = #nv_tileas.in_registers} : tensor<64x1xf32, #linear0> -> tensor<64x1xf32, #linear2>
        %127 = nv_tileaa.broadcast %126 : tensor<64x1xf32, #linear2> -> tensor<64x128xf32, #mma0>
        %128 = nv_tileaa.mulf %arg56, %127 : tensor<64x128xf32, #mma0>
        %129 = nv_tileas.wgmma_dot %125, %124, %128 : tensor<64x64xf16, #mma1>, !smem0 -> tensor<64x128xf32, #mma0>
        %130 = nv_tileas.dot_wait %129 keeping [%125] {pending = 0} : tensor<64x128xf32, #mma0>, tensor<64x64xf16, #mma1>
        nv_tileas.async.pipeline.consumer_release %pipeline_1 {keep = 0}
        nv_tileaa.continue %123, %106, %130 : tensor<64x1x4xf32, #linear4>, tensor<64x1xf32, #linear0>, tensor<64x128xf32, #mma0>
      }
      %131 = nv_tileaa.reduce (%97#0) dim 2 identities [0.000000e+00 : f32] (%arg63: f32, %arg64: f32) {
        %132 = nv_tileaa.addf %arg63, %arg64 : f32
        nv_tileaa.yield %132 : f32
      } {steps = [#nv_tileas.combine<in = lanes, strides = [1, 2]>]} : (tensor<64x1x4xf32, #linear4>) -> tensor<64x1xf32, #linear0>
      nv_tileas.async.pipeline.consumer_release %pipeline_2 {keep = 0}
      nv_tileas.async.pipeline.free_pipelines %pipeline
      %133 = nv_tileas.convert_layout %131 {by = #nv_tileas.in_registers} : tensor<64x1xf32, #linear0> -> tensor<64x1xf32, #linear2>
      %134 = nv_tileaa.broadcast %133 : tensor<64x1xf32, #linear2> -> tensor<64x128xf32, #mma0>
      %135 = nv_tileaa.divf %97#2, %134 {rounding_mode = approx, flush_to_zero} : tensor<64x128xf32, #mma0>
      %136 = nv_tileaa.fp_to_fp %135 : tensor<64x128xf32, #mma0> to tensor<64x128xf16, #mma0>
      %view_5 = nv_tileaa.block_tile %memref_3 : !view0
      %137 = nv_tileas.convert_layout %136 {by = #nv_tileas.through_smem<store = 8, load = 4, layout = #linear11>}
          : tensor<64x128xf16, #mma0> -> tensor<64x128xf16, #blocked0>
      %138 = nv_tileaa.reshape %137 : tensor<64x128xf16, #blocked0> -> tensor<1x1x64x128xf16, #blocked1>
      %token_1 = nv_tileas.tiled_store %138, %view_5[%14, %15, %pid_x_1, %c0_i32_1] token = %token {vector = 8, axis = 3}
          : tensor<1x1x64x128xf16, #blocked1>, !view0
      nv_tileaa.return
    }
    nv_tileaa.return
  }
}

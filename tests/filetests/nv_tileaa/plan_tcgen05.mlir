// RUN: canonicalize,cse,convert-cudatile-to-tileaa,choose-strategy,tileas-plan-cta --gpu-name=sm_100
// plans_a_sum_in_tensor_memory
// CHECK: plan = #nv_tileas.kernel_plan<num_warps = 8, warpgroups = 2
// CHECK: pipelines = [#nv_tileas.pipeline_plan<bytes = 32768, least = 2, may_grow = 1>]
// CHECK: nv_tileaa.dot
// CHECK: {mma = #nv_tileas.tcgen05<column = 0, columns = 128, buffers = 1, load = "16x256b">}
cuda_tile.module @m {
  entry @gemm(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f32>>, %n: tile<i32>) {
    %a0 = assume div_by<16>, %A : tile<ptr<f16>>
    %b0 = assume div_by<16>, %B : tile<ptr<f16>>
    %t = make_token : token
    %at = make_tensor_view %a0, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf16, strides=[1024,1]>
    %bt = make_tensor_view %b0, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf16, strides=[1024,1]>
    %ct = make_tensor_view %C, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf32, strides=[1024,1]>
    %av = make_partition_view %at
      : partition_view<tile=(128x64), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %bv = make_partition_view %bt
      : partition_view<tile=(64x128), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %cv = make_partition_view %ct
      : partition_view<tile=(128x128), tensor_view<1024x1024xf32, strides=[1024,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %zero = constant <f32: 0.0> : tile<128x128xf32>
    %sum = for %k in (%c0 to %n, step %c1) : tile<i32>
        iter_values(%s = %zero) -> (tile<128x128xf32>) {
      %a, %ta = load_view_tko weak %av[%x, %k] token = %t
        : partition_view<tile=(128x64), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32>
        -> tile<128x64xf16>, token
      %b, %tb = load_view_tko weak %bv[%k, %y] token = %t
        : partition_view<tile=(64x128), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32>
        -> tile<64x128xf16>, token
      %d = mmaf %a, %b, %s : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      continue %d : tile<128x128xf32>
    }
    %u = store_view_tko weak %sum, %cv[%x, %y] token = %t
      : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<1024x1024xf32, strides=[1024,1]>>,
        tile<i32> -> token
    return
  }
}
// -----
// gives_each_iteration_a_sum_where_the_loop_reads_it
// CHECK: nv_tileaa.dot
// CHECK: {mma = #nv_tileas.tcgen05<column = 0, columns = 128, buffers = 2, load = "16x256b">}
cuda_tile.module @m {
  entry @gemm(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f32>>, %n: tile<i32>) {
    %a0 = assume div_by<16>, %A : tile<ptr<f16>>
    %b0 = assume div_by<16>, %B : tile<ptr<f16>>
    %t = make_token : token
    %at = make_tensor_view %a0, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf16, strides=[1024,1]>
    %bt = make_tensor_view %b0, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf16, strides=[1024,1]>
    %ct = make_tensor_view %C, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf32, strides=[1024,1]>
    %av = make_partition_view %at
      : partition_view<tile=(128x64), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %bv = make_partition_view %bt
      : partition_view<tile=(64x128), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %cv = make_partition_view %ct
      : partition_view<tile=(128x128), tensor_view<1024x1024xf32, strides=[1024,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %zero = constant <f32: 0.0> : tile<128x128xf32>
    %sum = for %k in (%c0 to %n, step %c1) : tile<i32>
        iter_values(%s = %zero) -> (tile<128x128xf32>) {
      %a, %ta = load_view_tko weak %av[%x, %k] token = %t
        : partition_view<tile=(128x64), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32>
        -> tile<128x64xf16>, token
      %b, %tb = load_view_tko weak %bv[%k, %y] token = %t
        : partition_view<tile=(64x128), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32>
        -> tile<64x128xf16>, token
      %d = mmaf %a, %b, %s : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      %e = addf %d, %d rounding<nearest_even> : tile<128x128xf32>
      continue %e : tile<128x128xf32>
    }
    %u = store_view_tko weak %sum, %cv[%x, %y] token = %t
      : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<1024x1024xf32, strides=[1024,1]>>,
        tile<i32> -> token
    return
  }
}

// -----
// plans_tensor_memory_for_a_sum_that_does_not_start_from_zero
// CHECK: nv_tileaa.dot
// CHECK: {mma = #nv_tileas.tcgen05<column = 0, columns = 128, buffers = 1, load = "16x256b">}
cuda_tile.module @m {
  entry @gemm(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f32>>, %n: tile<i32>) {
    %a0 = assume div_by<16>, %A : tile<ptr<f16>>
    %b0 = assume div_by<16>, %B : tile<ptr<f16>>
    %t = make_token : token
    %at = make_tensor_view %a0, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf16, strides=[1024,1]>
    %bt = make_tensor_view %b0, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf16, strides=[1024,1]>
    %ct = make_tensor_view %C, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf32, strides=[1024,1]>
    %av = make_partition_view %at
      : partition_view<tile=(128x64), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %bv = make_partition_view %bt
      : partition_view<tile=(64x128), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %cv = make_partition_view %ct
      : partition_view<tile=(128x128), tensor_view<1024x1024xf32, strides=[1024,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %one = constant <f32: 1.0> : tile<128x128xf32>
    %sum = for %k in (%c0 to %n, step %c1) : tile<i32>
        iter_values(%s = %one) -> (tile<128x128xf32>) {
      %a, %ta = load_view_tko weak %av[%x, %k] token = %t
        : partition_view<tile=(128x64), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32>
        -> tile<128x64xf16>, token
      %b, %tb = load_view_tko weak %bv[%k, %y] token = %t
        : partition_view<tile=(64x128), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32>
        -> tile<64x128xf16>, token
      %d = mmaf %a, %b, %s : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      continue %d : tile<128x128xf32>
    }
    %u = store_view_tko weak %sum, %cv[%x, %y] token = %t
      : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<1024x1024xf32, strides=[1024,1]>>,
        tile<i32> -> token
    return
  }
}
// -----
// keeps_attention_in_tensor_memory
// CHECK: nv_tileaa.dot
// CHECK: {mma = #nv_tileas.tcgen05<column = 0, columns = 64, buffers = 2, load = "32x32b">}
// CHECK: nv_tileaa.mulf
// CHECK: nv_tileaa.dot
// CHECK: {mma = #nv_tileas.tcgen05<column = 128, columns = 64, buffers = 1, load = "32x32b", left = 192>}
cuda_tile.module @m {
  entry @attention(%Q: tile<ptr<f16>>, %K: tile<ptr<f16>>, %V: tile<ptr<f16>>, %O: tile<ptr<f16>>,
                   %length: tile<i32>) {
    %q1 = assume div_by<16>, %Q : tile<ptr<f16>>
    %k1 = assume div_by<16>, %K : tile<ptr<f16>>
    %v1 = assume div_by<16>, %V : tile<ptr<f16>>
    %t0 = make_token : token
    %tq = make_tensor_view %q1, shape = [%length, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %tk = make_tensor_view %k1, shape = [%length, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %tv = make_tensor_view %v1, shape = [%length, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %to = make_tensor_view %O, shape = [%length, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %pq = make_partition_view %tq : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>
    %pk = make_partition_view %tk : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>
    %pv = make_partition_view %tv : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>
    %po = make_partition_view %to : partition_view<tile=(128x64), tensor_view<?x64xf16, strides=[64,1]>>
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %is:2 = get_index_space_shape %pk
      : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>> -> tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %z = constant <f32: 0.0> : tile<128x64xf32>
    %half = constant <f32: 0.5> : tile<128x64xf32>
    %q, %uq = load_view_tko weak %pq[%bx, %c0] token = %t0
      : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>, tile<i32>
      -> tile<128x64xf16>, token
    %acc_0 = for %j_0 in (%c0 to %is#0, step %c1) : tile<i32>
        iter_values(%a_0 = %z) -> (tile<128x64xf32>) {
      %k_0, %uk_0 = load_view_tko weak %pk[%j_0, %c0] token = %t0
        : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>, tile<i32>
        -> tile<64x64xf16>, token
      %kt_0 = permute %k_0 [1, 0] : tile<64x64xf16> -> tile<64x64xf16>
      %p_0 = mmaf %q, %kt_0, %z : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      %r_0 = ftof %p_0 : tile<128x64xf32> -> tile<128x64xf16>
      %b_0 = mulf %a_0, %half : tile<128x64xf32>
      %v_0, %uv_0 = load_view_tko weak %pv[%j_0, %c0] token = %t0
        : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>, tile<i32>
        -> tile<64x64xf16>, token
      %d_0 = mmaf %r_0, %v_0, %b_0 : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      continue %d_0 : tile<128x64xf32>
    }
    
    %h = ftof %acc_0 : tile<128x64xf32> -> tile<128x64xf16>
    %s = store_view_tko weak %h, %po[%bx, %c0] token = %t0
      : tile<128x64xf16>, partition_view<tile=(128x64), tensor_view<?x64xf16, strides=[64,1]>>, tile<i32> -> token
    return
  }
}

// RUN: ...,unroll-locked-loops
// CHECK: step %c4_i32
// CHECK: nv_tileaa.atomic_cas
// CHECK-COUNT-7: nv_tileaa.tiled_load
// CHECK: nv_tileaa.tiled_store
// CHECK: nv_tileaa.atomic_rmw
// CHECK: step %c2_i32
// CHECK: step %c1_i32
cuda_tile.module @m {
  entry @takes_a_lock_once_for_four_iterations(%locks: tile<ptr<i32>>, %sums: tile<ptr<f32>>, %x: tile<ptr<f32>>,
             %y: tile<ptr<f32>>, %from: tile<i32>, %to: tile<i32>) {
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %c2 = constant <i32: 2> : tile<i32>
    %first = make_token : token
    %b, %by, %bz = get_tile_block_id : tile<i32>
    %group = remi %b, %c2 signed : tile<i32>
    %a0 = assume div_by<16>, %sums : tile<ptr<f32>>
    %s = make_tensor_view %a0, shape = [2, 1600], strides = [1600, 1]
      : tensor_view<2x1600xf32, strides=[1600,1]>
    %sp = make_partition_view %s : partition_view<tile=(1x128), padding_value = zero, tensor_view<2x1600xf32, strides=[1600,1]>>
    %a1 = assume div_by<16>, %x : tile<ptr<f32>>
    %v = make_tensor_view %a1, shape = [5, 1600], strides = [1600, 1]
      : tensor_view<5x1600xf32, strides=[1600,1]>
    %vp = make_partition_view %v : partition_view<tile=(1x128), padding_value = zero, tensor_view<5x1600xf32, strides=[1600,1]>>
    %a2 = assume div_by<16>, %y : tile<ptr<f32>>
    %w = make_tensor_view %a2, shape = [5, 1600], strides = [1600, 1]
      : tensor_view<5x1600xf32, strides=[1600,1]>
    %wp = make_partition_view %w : partition_view<tile=(1x128), padding_value = zero, tensor_view<5x1600xf32, strides=[1600,1]>>
    %lock = offset %locks, %group : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %end = for %j in (%from to %to, step %c1) : tile<i32> iter_values(%t0 = %first) -> (token) {
      %mine, %r0 = load_view_tko weak %vp[%b, %j] token = %t0 : partition_view<tile=(1x128), padding_value = zero, tensor_view<5x1600xf32, strides=[1600,1]>>, tile<i32> -> tile<1x128xf32>, token
      %twice = addf %mine, %mine : tile<1x128xf32>
      %w0 = store_view_tko weak %twice, %wp[%b, %j] token = %t0
        : tile<1x128xf32>, partition_view<tile=(1x128), padding_value = zero, tensor_view<5x1600xf32, strides=[1600,1]>>, tile<i32> -> token
    %held = loop iter_values(%t = %t0) : token -> token {
      %old, %taken = atomic_cas_tko acquire device %lock, %c0, %c1 token=%t
        : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
      %busy = cmpi equal %old, %c1, signed : tile<i32> -> tile<i1>
      if %busy {
      } else {
        break %taken : token
      }
      continue %taken : token
    }
      %there, %read = load_view_tko weak %sp[%group, %j] token = %held
        : partition_view<tile=(1x128), padding_value = zero, tensor_view<2x1600xf32, strides=[1600,1]>>, tile<i32> -> tile<1x128xf32>, token
      %more = addf %there, %mine : tile<1x128xf32>
      %w1 = store_view_tko weak %more, %sp[%group, %j] token = %read
        : tile<1x128xf32>, partition_view<tile=(1x128), padding_value = zero, tensor_view<2x1600xf32, strides=[1600,1]>>, tile<i32> -> token
      %done = join_tokens %w0, %w1 : token
      %was, %free = atomic_rmw_tko release device %lock, xchg, %c0 token=%done
        : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
      continue %free : token
    }
    return
  }
}
// -----
// CHECK: step %c2_i32
// CHECK-NOT: nv_tileaa.for
cuda_tile.module @m {
  entry @leaves_a_loop_that_counts_by_two(%locks: tile<ptr<i32>>, %sums: tile<ptr<f32>>, %x: tile<ptr<f32>>,
             %y: tile<ptr<f32>>, %from: tile<i32>, %to: tile<i32>) {
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %c2 = constant <i32: 2> : tile<i32>
    %first = make_token : token
    %b, %by, %bz = get_tile_block_id : tile<i32>
    %group = andi %b, %c1 : tile<i32>
    %a0 = assume div_by<16>, %sums : tile<ptr<f32>>
    %s = make_tensor_view %a0, shape = [2, 1600], strides = [1600, 1]
      : tensor_view<2x1600xf32, strides=[1600,1]>
    %sp = make_partition_view %s : partition_view<tile=(1x128), padding_value = zero, tensor_view<2x1600xf32, strides=[1600,1]>>
    %a1 = assume div_by<16>, %x : tile<ptr<f32>>
    %v = make_tensor_view %a1, shape = [5, 1600], strides = [1600, 1]
      : tensor_view<5x1600xf32, strides=[1600,1]>
    %vp = make_partition_view %v : partition_view<tile=(1x128), padding_value = zero, tensor_view<5x1600xf32, strides=[1600,1]>>
    %a2 = assume div_by<16>, %y : tile<ptr<f32>>
    %w = make_tensor_view %a2, shape = [5, 1600], strides = [1600, 1]
      : tensor_view<5x1600xf32, strides=[1600,1]>
    %wp = make_partition_view %w : partition_view<tile=(1x128), padding_value = zero, tensor_view<5x1600xf32, strides=[1600,1]>>
    %lock = offset %locks, %group : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %end = for %j in (%from to %to, step %c2) : tile<i32> iter_values(%t0 = %first) -> (token) {
      %mine, %r0 = load_view_tko weak %vp[%b, %j] token = %t0 : partition_view<tile=(1x128), padding_value = zero, tensor_view<5x1600xf32, strides=[1600,1]>>, tile<i32> -> tile<1x128xf32>, token
      %twice = addf %mine, %mine : tile<1x128xf32>
      %w0 = store_view_tko weak %twice, %wp[%b, %j] token = %t0
        : tile<1x128xf32>, partition_view<tile=(1x128), padding_value = zero, tensor_view<5x1600xf32, strides=[1600,1]>>, tile<i32> -> token
    %held = loop iter_values(%t = %t0) : token -> token {
      %old, %taken = atomic_cas_tko acquire device %lock, %c0, %c1 token=%t
        : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
      %busy = cmpi equal %old, %c1, signed : tile<i32> -> tile<i1>
      if %busy {
      } else {
        break %taken : token
      }
      continue %taken : token
    }
      %there, %read = load_view_tko weak %sp[%group, %j] token = %held
        : partition_view<tile=(1x128), padding_value = zero, tensor_view<2x1600xf32, strides=[1600,1]>>, tile<i32> -> tile<1x128xf32>, token
      %more = addf %there, %mine : tile<1x128xf32>
      %w1 = store_view_tko weak %more, %sp[%group, %j] token = %read
        : tile<1x128xf32>, partition_view<tile=(1x128), padding_value = zero, tensor_view<2x1600xf32, strides=[1600,1]>>, tile<i32> -> token
      %done = join_tokens %w0, %w1 : token
      %was, %free = atomic_rmw_tko release device %lock, xchg, %c0 token=%done
        : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
      continue %free : token
    }
    return
  }
}

// RUN: ...,coarsen-locks
// CHECK: cluster = 4
// CHECK: nv_tileaa.share_tiles
// CHECK: nv_tileaa.atomic_cas
// CHECK: nv_tileaa.await_shared
// CHECK: nv_tileaa.send_shared
// CHECK-NOT: nv_tileaa.atomic_cas
cuda_tile.module @m {
  entry @takes_a_lock_once_for_four_tile_blocks(%locks: tile<ptr<i32>>, %turns: tile<ptr<i32>>, %sums: tile<ptr<f32>>,
             %x: tile<ptr<f32>>, %parts: tile<i32>) {
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %t0 = make_token : token
    %b, %by, %bz = get_tile_block_id : tile<i32>
    %a0 = assume div_by<16>, %sums : tile<ptr<f32>>
    %s = make_tensor_view %a0, shape = [8192], strides = [1] : tensor_view<8192xf32, strides=[1]>
    %sp = make_partition_view %s : partition_view<tile=(1024), tensor_view<8192xf32, strides=[1]>>
    %a1 = assume div_by<16>, %x : tile<ptr<f32>>
    %v = make_tensor_view %a1, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %vp = make_partition_view %v : partition_view<tile=(1024), tensor_view<65536xf32, strides=[1]>>
    %first = muli %by, %parts : tile<i32>
    %part = addi %first, %b : tile<i32>
    %mine, %r0 = load_view_tko weak %vp[%part] token = %t0 : partition_view<tile=(1024), tensor_view<65536xf32, strides=[1]>>, tile<i32>
      -> tile<1024xf32>, token
    %lock = offset %locks, %by : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %count = offset %turns, %by : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %is_there = cmpi less_than %by, %parts, signed : tile<i32> -> tile<i1>
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
    %turn, %seen = load_ptr_tko weak %count token=%held
      : tile<ptr<i32>> -> tile<i32>, token
    %is_first = cmpi equal %turn, %c0, signed : tile<i32> -> tile<i1>
    %stored = if %is_first -> (token) {
      %w0 = store_view_tko weak %mine, %sp[%by] token = %held
        : tile<1024xf32>, partition_view<tile=(1024), tensor_view<8192xf32, strides=[1]>>, tile<i32> -> token
      yield %w0 : token
    } else {
      %there, %read = load_view_tko weak %sp[%by] token = %held : partition_view<tile=(1024), tensor_view<8192xf32, strides=[1]>>, tile<i32>
        -> tile<1024xf32>, token
      %more = addf %there, %mine : tile<1024xf32>
      %w1 = store_view_tko weak %more, %sp[%by] token = %read
        : tile<1024xf32>, partition_view<tile=(1024), tensor_view<8192xf32, strides=[1]>>, tile<i32> -> token
      yield %w1 : token
    }
    %next = addi %turn, %c1 : tile<i32>
    %again = remi %next, %parts signed : tile<i32>
    %counted = store_ptr_tko weak %count, %again token=%seen
      : tile<ptr<i32>>, tile<i32> -> token
    %done = join_tokens %stored, %counted : token
    %was, %free = atomic_rmw_tko release device %lock, xchg, %c0 token=%done
      : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    return
  }
}
// -----
// CHECK-NOT: cluster = 4
// CHECK: nv_tileaa.tiled_store
cuda_tile.module @m {
  entry @leaves_kernels_without_a_lock(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %c1 = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %p1 = assume div_by<16>, %p : tile<ptr<f32>>
    %v = make_tensor_view %p1, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %w = make_partition_view %v : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %a, %ta = load_view_tko weak %w[%x] token = %t
      : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
    %b = addf %a, %a : tile<1024xf32>
    %s = store_view_tko weak %b, %w[%x] token = %ta
      : tile<1024xf32>, partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}

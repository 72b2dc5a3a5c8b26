// RUN: tileas-remove-barriers
// buffers_that_are_in_use_one_after_another_may_share_bytes
// CHECK: nv_tileas.alloc_tensor {stages = 2, offset = 0} : !smem0
// CHECK: nv_tileas.alloc_tensor {stages = 3, offset = 512} : !smem0
#blocked0 = #nv_tileas.layout<{register = [[0, 1], [0, 2]], lane = [[0, 4], [0, 8], [0, 16], [0, 32], [0, 0]], warp = []} -> 1x64>
#cells0 = #nv_tileas.thread_cells<layout = #blocked0>
!smem0 = !nv_tileas.memdesc<1x64xf32, #cells0, smem>
!memref0 = !nv_tileaa.memref<?x?xf32, strides = [?, 1]>
!view0 = !nv_tileaa.tiled_view<1x64 of !memref0>
builtin.module {
  nv_tileaa.func @k(%p: !nv_tileaa.ptr<f32>, %n: i32, %b: i1) attributes {num_warps = 1} {
    %memref = nv_tileaa.make_memref %p sizes = [%n, %n] strides = [%n] : !nv_tileaa.ptr<f32> -> !memref0
    %view = nv_tileaa.block_tile %memref : !view0
    %first = nv_tileas.alloc_tensor {stages = 2, offset = 0} : !smem0
    nv_tileas.async_copy %view[%n, %n] into %first[%n] if %b {vector = 4, axis = 1, layout = #blocked0} : !view0, !smem0
    %x, %t = nv_tileas.read_stage %view[%n, %n] from %first[%n] {vector = 4, axis = 1}
      : !view0, !smem0 -> tensor<1x64xf32, #blocked0>
    %second = nv_tileas.alloc_tensor {stages = 3, offset = 512} : !smem0
    nv_tileas.async_copy %view[%n, %n] into %second[%n] if %b {vector = 4, axis = 1, layout = #blocked0} : !view0, !smem0
    nv_tileaa.return
  }
}
// -----
// buffers_in_use_at_the_same_time_may_not
#blocked0 = #nv_tileas.layout<{register = [[0, 1], [0, 2]], lane = [[0, 4], [0, 8], [0, 16], [0, 32], [0, 0]], warp = []} -> 1x64>
#cells0 = #nv_tileas.thread_cells<layout = #blocked0>
!smem0 = !nv_tileas.memdesc<1x64xf32, #cells0, smem>
!memref0 = !nv_tileaa.memref<?x?xf32, strides = [?, 1]>
!view0 = !nv_tileaa.tiled_view<1x64 of !memref0>
builtin.module {
  nv_tileaa.func @k(%p: !nv_tileaa.ptr<f32>, %n: i32, %b: i1) attributes {num_warps = 1} {
    %memref = nv_tileaa.make_memref %p sizes = [%n, %n] strides = [%n] : !nv_tileaa.ptr<f32> -> !memref0
    %view = nv_tileaa.block_tile %memref : !view0
    %first = nv_tileas.alloc_tensor {stages = 2, offset = 0} : !smem0
    nv_tileas.async_copy %view[%n, %n] into %first[%n] if %b {vector = 4, axis = 1, layout = #blocked0} : !view0, !smem0
    // expected-error@+1 {{bytes 512 to 2047, while 0 to 1023 are in use}}
    %second = nv_tileas.alloc_tensor {stages = 3, offset = 512} : !smem0
    nv_tileas.async_copy %view[%n, %n] into %second[%n] if %b {vector = 4, axis = 1, layout = #blocked0} : !view0, !smem0
    %x, %t = nv_tileas.read_stage %view[%n, %n] from %first[%n] {vector = 4, axis = 1}
      : !view0, !smem0 -> tensor<1x64xf32, #blocked0>
    nv_tileaa.return
  }
}
// -----
// what_a_loop_reads_is_in_use_for_as_long_as_it_runs
#blocked0 = #nv_tileas.layout<{register = [[0, 1], [0, 2]], lane = [[0, 4], [0, 8], [0, 16], [0, 32], [0, 0]], warp = []} -> 1x64>
#cells0 = #nv_tileas.thread_cells<layout = #blocked0>
!smem0 = !nv_tileas.memdesc<1x64xf32, #cells0, smem>
!memref0 = !nv_tileaa.memref<?x?xf32, strides = [?, 1]>
!view0 = !nv_tileaa.tiled_view<1x64 of !memref0>
builtin.module {
  nv_tileaa.func @k(%p: !nv_tileaa.ptr<f32>, %n: i32, %b: i1) attributes {num_warps = 1} {
    %memref = nv_tileaa.make_memref %p sizes = [%n, %n] strides = [%n] : !nv_tileaa.ptr<f32> -> !memref0
    %view = nv_tileaa.block_tile %memref : !view0
    %first = nv_tileas.alloc_tensor {stages = 2, offset = 0} : !smem0
    nv_tileaa.for %i = %n to %n step %n : i32 {
      %x, %t = nv_tileas.read_stage %view[%n, %i] from %first[%n] {vector = 4, axis = 1}
        : !view0, !smem0 -> tensor<1x64xf32, #blocked0>
      // expected-error@+1 {{bytes 0 to 511, while 0 to 1023 are in use}}
      %second = nv_tileas.alloc_tensor {stages = 1, offset = 0} : !smem0
      nv_tileas.async_copy %view[%n, %i] into %second[%n] if %b {vector = 4, axis = 1, layout = #blocked0} : !view0, !smem0
      nv_tileaa.continue
    }
    nv_tileaa.return
  }
}
// -----
// places_are_multiples_of_128_bytes
#blocked0 = #nv_tileas.layout<{register = [[0, 1], [0, 2]], lane = [[0, 4], [0, 8], [0, 16], [0, 32], [0, 0]], warp = []} -> 1x64>
builtin.module {
  nv_tileaa.func @k() attributes {num_warps = 1} {
    // expected-error@+1 {{alloc_tensor at 64, no multiple of 128 bytes}}
    %b = nv_tileas.alloc_tensor {stages = 2, offset = 64} : !nv_tileas.memdesc<1x64xf32, #nv_tileas.thread_cells<layout = #blocked0>, smem>
    nv_tileaa.return
  }
}
// -----
// scales_are_part_of_a_stage
builtin.module {
  nv_tileaa.func @k() attributes {num_warps = 1} {
    // expected-error@+1 {{alloc_tensor of scales, which are part of a stage}}
    %b = nv_tileas.alloc_tensor {stages = 2} : !nv_tileas.memdesc<128x4xf8E8M0FNU, #nv_tileas.scale_chunks<k_axis = 1>, smem>
    nv_tileaa.return
  }
}
// -----
// tiles_that_tma_reads_have_memory_of_their_own
builtin.module {
  nv_tileaa.func @k() attributes {num_warps = 1} {
    %a = nv_tileas.alloc_tensor {stages = 2} : !nv_tileas.memdesc<64x128xi8, #nv_tileas.nvmma_shared<swizzle = 128, major = 1>, smem>
    // expected-error@+1 {{alloc_tensor at a place, of tiles with memory of their own}}
    %b = nv_tileas.alloc_tensor {stages = 2, offset = 0} : !nv_tileas.memdesc<64x128xi8, #nv_tileas.nvmma_shared<swizzle = 128, major = 1>, smem>
    nv_tileaa.return
  }
}
// -----
// threads_copy_to_cells_of_their_own_layout
#blocked0 = #nv_tileas.layout<{register = [[0, 1], [0, 2]], lane = [[0, 4], [0, 8], [0, 16], [0, 32], [0, 0]], warp = []} -> 1x64>
#blocked1 = #nv_tileas.layout<{register = [[0, 1]], lane = [[0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], warp = []} -> 1x64>
!smem0 = !nv_tileas.memdesc<1x64xf32, #nv_tileas.thread_cells<layout = #blocked0>, smem>
!memref0 = !nv_tileaa.memref<?x?xf32, strides = [?, 1]>
!view0 = !nv_tileaa.tiled_view<1x64 of !memref0>
builtin.module {
  nv_tileaa.func @k(%p: !nv_tileaa.ptr<f32>, %n: i32, %b: i1) attributes {num_warps = 1} {
    %memref = nv_tileaa.make_memref %p sizes = [%n, %n] strides = [%n] : !nv_tileaa.ptr<f32> -> !memref0
    %view = nv_tileaa.block_tile %memref : !view0
    %first = nv_tileas.alloc_tensor {stages = 2} : !smem0
    // expected-error@+1 {{threads have cells of another layout in this buffer}}
    nv_tileas.async_copy %view[%n, %n] into %first[%n] if %b {vector = 2, axis = 1, layout = #blocked1} : !view0, !smem0
    nv_tileaa.return
  }
}

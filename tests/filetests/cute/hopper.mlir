// RUN: --emit=ptx --gpu-name=sm_90
// A tile product of a warpgroup: layouts and tiles of operands, an atom, a tiled MMA, fragments.
// CHECK: .entry hopper_tile
// CHECK: wgmma.fence.sync.aligned
// CHECK: wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16
// CHECK: wgmma.wait_group.sync.aligned 0
// CHECK: st.global
cute.func @hopper_tile(%A: !cute.tensor<f16, gmem, align<16>, (64,64):(64,1)>, %B: !cute.tensor<f16, gmem, align<16>, (64,64):(64,1)>, %D: !cute.tensor<f32, gmem, align<16>, (64,64):(64,1)>) threads 128 {
  %tid = cute.thread_idx<0>()
  %shape = cute.static() -> !cute.shape<(64,64)>
  %stride = cute.static() -> !cute.stride<(64,1)>
  %rows = cute.make_layout(%shape, %stride)
  %swizzle = cute.make_swizzle<3,3,3>()
  %zero = cute.static() -> !cute.int<0>
  %placed = cute.make_composed_layout(%swizzle, %zero, %rows)
  %sA0 = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, 4096:1>
  %sB0 = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, 4096:1>
  %pA = cute.get_iter(%sA0)
  %pB = cute.get_iter(%sB0)
  %sA = cute.make_tensor(%pA, %placed)
  %sB = cute.make_tensor(%pB, %placed)
  %vectors = cute.static() -> !cute.copy_atom<cp_async, 128>
  %threads = cute.static() -> !cute.layout<(16,8),(8,1)>
  %values = cute.static() -> !cute.layout<(1,8),(8,1)>
  %copy = cute.make_tiled_copy(%vectors, %threads, %values)
  %tiler = cute.make_tile() -> !cute.tile<[64:1;64:1]>
  %corner = cute.static() -> !cute.coord<(0,0)>
  %tileA = cute.local_tile(%A, %tiler, %corner)
  %tileB = cute.local_tile(%B, %tiler, %corner)
  %gA = cute.partition_s(%copy, %tileA, %tid)
  %gB = cute.partition_s(%copy, %tileB, %tid)
  %tA = cute.partition_d(%copy, %sA, %tid)
  %tB = cute.partition_d(%copy, %sB, %tid)
  cute.copy(%copy, %gA, %tA)
  cute.copy(%copy, %gB, %tB)
  cute_nvgpu.cp_async_commit_group()
  cute_nvgpu.cp_async_wait_group<0>()
  cute_nvgpu.fence_proxy_async()
  cute.sync_threads()
  %atom = cute_nvgpu.make_warpgroup_mma_atom() -> !cute.mma_atom<warpgroup, (64,64,16), f16, f16, f32>
  %once = cute.static() -> !cute.layout<(1,1,1),(0,0,0)>
  %mma = cute.make_tiled_mma(%atom, %once)
  %tD = cute.partition_c(%mma, %D, %tid)
  %rD = cute.make_fragment_c(%mma, %tD)
  cute.clear(%rD)
  cute_nvgpu.warpgroup_arrive()
  cute_nvgpu.warpgroup_mma(%mma, %rD, %sA, %sB)
  cute_nvgpu.warpgroup_commit_batch()
  cute_nvgpu.warpgroup_wait<0>()
  %pair = cute.static() -> !cute.copy_atom<universal, 64>
  cute.copy(%pair, %rD, %tD)
  cute.return
}
// -----
// One warp brings boxes by TMA, another one waits for them.
// CHECK: .entry boxes
// CHECK: mbarrier.init.shared::cta.b64
// CHECK: mbarrier.arrive.expect_tx
// CHECK: cp.async.bulk.tensor.2d.shared::cluster.global.tile
// CHECK: mbarrier.try_wait.parity
// CHECK: mbarrier.arrive.release.cta
cute.func @boxes(%map: !cute_nvgpu.tma_atom<f16, (64,32), 128>, %D: !cute.tensor<f16, gmem, align<16>, (32,64):(64,1)>, %steps: i32) threads 64 {
  %zero = cute.static() -> !cute.int<0>
  %one = cute.static() -> !cute.int<1>
  %wide = cute.static() -> !cute.int<64>
  %count = cute.to_int(%steps)
  %warp = cute_nvgpu.warp_idx()
  %lane = cute_nvgpu.lane_idx()
  %s = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, S<3,3,3> o 0 o (32,64,2):(64,1,2048)>
  %bars = cute.alloc() -> !cute.tensor<i64, smem, align<8>, 4:1>
  %p = cutlass.make_pipeline(%bars) -> !cutlass.pipeline<tma_async, 2, 4096, (1,32)>
  cutlass.pipeline_init_wait()
  %brings = cute.equal(%warp, %zero)
  %reads = cute.equal(%warp, %one)
  cute.if %brings {
    %leads = cute_nvgpu.elect_sync()
    cute.if %leads {
      %tma = cute_nvgpu.make_exec_tma(%map)
      %start = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<2, producer>
      %last = cute.for %i = %zero to %count step %one carries (%at = %start) {
        cutlass.producer_acquire(%p, %at)
        %full = cutlass.producer_get_barrier(%p, %at)
        %stage = cutlass.state_index(%at)
        %cs = cute.make_coord(%stage) -> !cute.coord<(_,_,?)>
        %box = cute.slice(%cs, %s)
        %x = cute.tuple_mul(%i, %wide)
        %corner = cute.make_coord(%x) -> !cute.coord<(?,0)>
        cute_nvgpu.tma_load(%tma, %box, %full, %corner)
        cutlass.producer_commit(%p, %at)
        %next = cutlass.advance(%at)
        cute.yield(%next)
      }
      cutlass.producer_tail(%p, %last)
    }
  }
  cute.if %reads {
    %vectors = cute.static() -> !cute.copy_atom<universal, 128>
    %line = cute.make_coord(%lane) -> !cute.coord<(?,_)>
    %out = cute.slice(%line, %D)
    %r = cute.make_fragment_like(%out)
    %start = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<2, consumer>
    %last = cute.for %i = %zero to %count step %one carries (%at = %start) {
      cutlass.consumer_wait(%p, %at)
      %stage = cutlass.state_index(%at)
      %cs = cute.make_coord(%lane, %stage) -> !cute.coord<(?,_,?)>
      %row = cute.slice(%cs, %s)
      cute.copy(%vectors, %row, %r)
      cute.copy(%vectors, %r, %out)
      cutlass.consumer_release(%p, %at)
      %next = cutlass.advance(%at)
      cute.yield(%next)
    }
  }
  cute.return
}
// -----
// What a thread has of a tensor, and the index of a coordinate.
// CHECK: .entry parts
// CHECK: ld.global.b32
// CHECK: st.global.b32
cute.func @parts(%X: !cute.tensor<f32, gmem, align<16>, (16,32):(32,1)>, %Y: !cute.tensor<f32, gmem, align<16>, 512:1>) threads 64 {
  %tid = cute.thread_idx<0>()
  %threads = cute.static() -> !cute.layout<(8,8),(8,1)>
  %mine = cute.local_partition(%X, %threads, %tid)
  %layout = cute.get_layout(%X)
  %corner = cute.static() -> !cute.coord<(3,5)>
  %place = cute.crd2idx(%corner, %layout)
  %there = cute.tuple_add(%tid, %place)
  %zero = cute.static() -> !cute.coord<(0,0)>
  %x = cute.load(%mine, %zero) : f32
  cute.store(%x, %Y, %there)
  cute.return
}
// -----
// Layouts that do not fit are told where they stand.
cute.func @wrong(%D: !cute.tensor<f32, gmem, align<16>, (96,64):(64,1)>) threads 128 {
  %tid = cute.thread_idx<0>()
  %atom = cute_nvgpu.make_warpgroup_mma_atom() -> !cute.mma_atom<warpgroup, (64,64,16), f16, f16, f32>
  %once = cute.static() -> !cute.layout<(1,1,1),(0,0,0)>
  %mma = cute.make_tiled_mma(%atom, %once)
  %tD = cute.partition_c(%mma, %D, %tid)  // expected-error {{(96,64):(64,1) is not made of whole tiles (64,64)}}
  cute.return
}
// -----
// A program of one generation is none of another.
cute.func @other() threads 32 {
  %bars = cute.alloc() -> !cute.tensor<i64, smem, align<8>, 4:1>
  %p = cutlass.make_pipeline(%bars) -> !cutlass.pipeline<tma_umma, 2, 128, (1,1)>  // expected-error {{sm_90 has no pipeline of kind tma_umma, sm_100, sm_103}}
  cute.return
}

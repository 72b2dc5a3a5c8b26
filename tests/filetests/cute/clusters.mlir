// RUN: --emit=ptx --gpu-name=sm_90
// A pipeline of a cluster: boxes come to both CTAs, both release stages; waits begin with a question.
// CHECK: .entry boxes_of_clusters
// CHECK: .reqnctapercluster 2
// CHECK: mbarrier.init.shared::cta.b64
// CHECK: barrier.cluster.arrive.release.aligned
// CHECK: barrier.cluster.wait.acquire.aligned
// CHECK: cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster
// CHECK: mbarrier.arrive.release.cta.shared::cluster.b64
cute.func @boxes_of_clusters(%map: !cute_nvgpu.tma_atom<f16, (64,16), 128>, %Y: !cute.tensor<f16, gmem, align<16>, (2,32,64,?):(2048,64,1,4096)>, %n: i32) threads 64 cluster (2,1,1) {
  %zero = cute.static() -> !cute.int<0>
  %one = cute.static() -> !cute.int<1>
  %high = cute.static() -> !cute.int<16>
  %wide = cute.static() -> !cute.int<64>
  %both = cute.static() -> !cute.int<3>
  %count = cute.to_int(%n)
  %warp = cute_nvgpu.warp_idx()
  %lane = cute_nvgpu.lane_idx()
  %rank = cute_nvgpu.block_idx_in_cluster()
  %tiles = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, S<3,3,3> o 0 o (32,64,2):(64,1,2048)>
  %bars = cute.alloc() -> !cute.tensor<i64, smem, align<8>, 4:1>
  %p = cutlass.make_pipeline(%bars) -> !cutlass.pipeline<tma_async, 2, 4096, (1,2)>
  cutlass.pipeline_init_wait()
  %brings = cute.equal(%warp, %zero)
  %reads = cute.equal(%warp, %one)
  cute.if %brings {
    %leads = cute_nvgpu.elect_sync()
    cute.if %leads {
      %tma = cute_nvgpu.make_exec_tma(%map)
      %row = cute.tuple_mul(%rank, %high)
      %half = cute.static() -> !cute.tile<[16:1;64:1]>
      %start = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<2, producer>
      %last = cute.for %i = %zero to %count step %one carries (%s = %start) {
        %free = cutlass.producer_try_acquire(%p, %s)
        cutlass.producer_acquire(%p, %s, %free)
        %full = cutlass.producer_get_barrier(%p, %s)
        %stage = cutlass.state_index(%s)
        %cs = cute.make_coord(%stage) -> !cute.coord<(_,_,?)>
        %tile = cute.slice(%cs, %tiles)
        %ch = cute.make_coord(%rank) -> !cute.coord<(?,0)>
        %part = cute.local_tile(%tile, %half, %ch)
        %x = cute.tuple_mul(%i, %wide)
        %corner = cute.make_coord(%x, %row) -> !cute.coord<(?,?)>
        cute_nvgpu.tma_load_multicast(%tma, %part, %full, %corner, %both)
        cutlass.producer_commit(%p, %s)
        %next = cutlass.advance(%s)
        cute.yield(%next)
      }
      cutlass.producer_tail(%p, %last)
    }
  }
  cute.if %reads {
    %vectors = cute.static() -> !cute.copy_atom<universal, 128>
    %start = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<2, consumer>
    %last = cute.for %i = %zero to %count step %one carries (%s = %start) {
      %here = cutlass.consumer_try_wait(%p, %s)
      cutlass.consumer_wait(%p, %s, %here)
      %stage = cutlass.state_index(%s)
      %cs = cute.make_coord(%lane, %stage) -> !cute.coord<(?,_,?)>
      %line = cute.slice(%cs, %tiles)
      %cy = cute.make_coord(%rank, %lane, %i) -> !cute.coord<(?,?,_,?)>
      %out = cute.slice(%cy, %Y)
      %r = cute.make_fragment_like(%line)
      cute.copy(%vectors, %line, %r)
      cute.copy(%vectors, %r, %out)
      cute_nvgpu.sync_warp()
      %leads = cute_nvgpu.elect_sync()
      cute.if %leads {
        cutlass.consumer_release(%p, %s, %zero)
        cutlass.consumer_release(%p, %s, %one)
      }
      %next = cutlass.advance(%s)
      cute.yield(%next)
    }
  }
  cute_nvgpu.cluster_arrive_relaxed()
  cute_nvgpu.cluster_wait()
  cute.return
}
// -----
// What another CTA has in its shared memory.
// CHECK: .entry neighbours
// CHECK: mapa.shared::cluster.u32
// CHECK: ld.shared::cluster
cute.func @neighbours(%Y: !cute.tensor<f32, gmem, align<16>, (6,32):(32,1)>) threads 32 cluster (3,1,1) {
  %tid = cute.thread_idx<0>()
  %bid = cute.block_idx<0>()
  %rank = cute_nvgpu.block_idx_in_cluster()
  %one = cute.static() -> !cute.int<1>
  %size = cute_nvgpu.block_in_cluster_dim<0>()
  %next = cute.tuple_add(%rank, %one)
  %other = cute.tuple_mod(%next, %size)
  %cells = cute.alloc() -> !cute.tensor<f32, smem, align<16>, 32:1>
  %c = cute.make_coord(%bid, %tid) -> !cute.coord<(?,?)>
  %x = cute.load(%Y, %c) : f32
  cute.store(%x, %cells, %tid)
  cute_nvgpu.cluster_arrive()
  cute_nvgpu.cluster_wait()
  %mine = cute.get_iter(%cells)
  %there = cute_nvgpu.mapa(%mine, %other)
  %line = cute.static() -> !cute.layout<32,1>
  %cells2 = cute.make_tensor(%there, %line)
  %y = cute.load(%cells2, %tid) : f32
  cute_nvgpu.cluster_arrive()
  cute_nvgpu.cluster_wait()
  cute.store(%y, %Y, %c)
  cute.return
}
// -----
// One warpgroup gives registers to the other one.
// CHECK: .entry registers
// CHECK: .minnctapersm 1
// CHECK: setmaxnreg.dec.sync.aligned.u32 40
// CHECK: setmaxnreg.inc.sync.aligned.u32 232
cute.func @registers(%Y: !cute.tensor<f32, gmem, align<16>, 256:1>) threads 256 {
  %tid = cute.thread_idx<0>()
  %size = cute.static() -> !cute.int<128>
  %low = cute.elem_less(%tid, %size)
  %one = cute.constant 1.0 : f32
  cute.if %low {
    cute_nvgpu.warpgroup_reg_dealloc<40>()
  }
  %high = cute.elem_less(%size, %tid)
  %last = cute.static() -> !cute.int<127>
  %above = cute.elem_less(%last, %tid)
  cute.if %above {
    cute_nvgpu.warpgroup_reg_alloc<232>()
    cute.store(%one, %Y, %tid)
  }
  cute.return
}
// -----
// A cluster is not larger than GPUs launch.
cute.func @large() threads 32 cluster (4,4,1) {  // expected-error {{has clusters (4,4,1), expected (x,y,z) of 1 to 8 CTAs}}
  cute.return
}

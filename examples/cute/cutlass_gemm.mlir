// persistent_gemm with CUTLASS's pipeline and tile scheduler: D := A * B^T on Hopper, f16. A warp brings
// tiles by TMA into four stages, two warpgroups multiply them, one product behind, and store by TMA.
// CTAs take tiles 128 x 256 of D one after the other, 16 along M at a time. %tiles_m * 128 = M,
// %tiles_n * 256 = N, %steps * 64 = K. Parameters: the tensor maps of A, B and D.
cute.func @cutlass_gemm(%mapA: !cute_nvgpu.tma_atom<f16, (64,128), 128>, %mapB: !cute_nvgpu.tma_atom<f16, (64,256), 128>, %mapD: !cute_nvgpu.tma_atom<f16, (64,16), 128>, %tiles_m: i32, %tiles_n: i32, %steps: i32) threads 288 {
  %tid = cute.thread_idx<0>()
  %warp = cute_nvgpu.warp_idx()
  %zero = cute.static() -> !cute.int<0>
  %one = cute.static() -> !cute.int<1>
  %two = cute.static() -> !cute.int<2>
  %boxes = cute.static() -> !cute.int<4>
  %high = cute.static() -> !cute.int<16>
  %depth = cute.static() -> !cute.int<64>
  %tall = cute.static() -> !cute.int<128>
  %wide = cute.static() -> !cute.int<256>
  %count = cute.to_int(%steps)
  // Four stages; two boxes of D for each warp.
  %sA = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, S<3,3,3> o 0 o (128,64,4):(64,1,8192)>
  %sB = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, S<3,3,3> o 0 o (256,64,4):(64,1,16384)>
  %sD = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, S<3,3,3> o 0 o (128,64,2):(64,1,8192)>
  %bars = cute.alloc() -> !cute.tensor<i64, smem, align<8>, 8:1>
  %pipeline = cutlass.make_pipeline(%bars) -> !cutlass.pipeline<tma_async, 4, 49152, (1,8)>
  %boxesD = cutlass.make_pipeline() -> !cutlass.pipeline<tma_store, 2, 0, (1,1)>
  cutlass.pipeline_init_wait()
  %problem = cute.make_shape(%tiles_m, %tiles_n) -> !cute.shape<(?,?,1)>
  %scheduler = cutlass.make_tile_scheduler(%problem) -> !cutlass.tile_scheduler<16, n>
  %begin = cutlass.initial_work(%scheduler)
  %end = cutlass.work_count(%scheduler)
  %ctas = cutlass.work_step(%scheduler)
  %consumers = cute.static() -> !cute.int<8>
  %produces = cute.equal(%warp, %consumers)
  %consumes = cute.elem_less(%warp, %consumers)
  cute.if %produces {
    %elected = cute_nvgpu.elect_sync()
    cute.if %elected {
      %tmaA = cute_nvgpu.make_exec_tma(%mapA)
      %tmaB = cute_nvgpu.make_exec_tma(%mapB)
      %start = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<4, producer>
      %last = cute.for %work = %begin to %end step %ctas carries (%before = %start) {
        %tile = cutlass.get_current_work(%scheduler, %work)
        %tm = cute.get_leaf<0>(%tile)
        %tn = cute.get_leaf<1>(%tile)
        %m = cute.tuple_mul(%tm, %tall)
        %n = cute.tuple_mul(%tn, %wide)
        %after = cute.for %k = %zero to %count step %one carries (%state = %before) {
          cutlass.producer_acquire(%pipeline, %state)
          %stage = cutlass.state_index(%state)
          %full = cutlass.producer_get_barrier(%pipeline, %state)
          %cs = cute.make_coord(%stage) -> !cute.coord<(_,_,?)>
          %sAs = cute.slice(%cs, %sA)
          %sBs = cute.slice(%cs, %sB)
          %kk = cute.tuple_mul(%k, %depth)
          %cA = cute.make_coord(%kk, %m) -> !cute.coord<(?,?)>
          %cB = cute.make_coord(%kk, %n) -> !cute.coord<(?,?)>
          cute_nvgpu.tma_load(%tmaA, %sAs, %full, %cA)
          cute_nvgpu.tma_load(%tmaB, %sBs, %full, %cB)
          cutlass.producer_commit(%pipeline, %state)
          %next = cutlass.advance(%state)
          cute.yield(%next)
        }
        cute.yield(%after)
      }
      cutlass.producer_tail(%pipeline, %last)
    }
  }
  cute.if %consumes {
    %tmaD = cute_nvgpu.make_exec_tma(%mapD)
    %atom = cute_nvgpu.make_warpgroup_mma_atom() -> !cute.mma_atom<warpgroup, (64,256,16), f16, f16, f32>
    %groups = cute.static() -> !cute.layout<(2,1,1),(1,0,0)>
    %mma = cute.make_tiled_mma(%atom, %groups)
    %begins = cute_nvgpu.atom_set_value<0>(%mma, %zero)
    // Who stores what: blocks of 16 columns of the accumulator, four 8x8 matrices each.
    %block = cute_nvgpu.make_warpgroup_mma_atom() -> !cute.mma_atom<warpgroup, (64,16,16), f16, f16, f16>
    %blocks = cute.make_tiled_mma(%block, %groups)
    %matrices = cute_nvgpu.make_stmatrix_atom<4>()
    %copyD = cute_nvgpu.make_tiled_copy_c(%matrices, %blocks)
    %rowsD = cute.partition_d(%copyD, %sD, %tid)
    %rD = cute.alloc() -> !cute.tensor<f32, rmem, align<16>, ((2,2,32),1,1):((1,2,4),0,0)>
    %wordsD = cute.retile(%copyD, %rD)
    %halves = cute.alloc() -> !cute.tensor<f16, rmem, align<16>, (8,4):(1,8)>
    %columns = cute.static() -> !cute.tile<[8:1;4:1]>
    %box = cute.static() -> !cute.tile<[16:1;64:1]>
    %start = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<4, consumer>
    %store0 = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<2, producer>
    %last, %done = cute.for %work = %begin to %end step %ctas carries (%before = %start, %free = %start) {
      %tile = cutlass.get_current_work(%scheduler, %work)
      %tm = cute.get_leaf<0>(%tile)
      %tn = cute.get_leaf<1>(%tile)
      %m = cute.tuple_mul(%tm, %tall)
      %n = cute.tuple_mul(%tn, %wide)
      // The first product of a tile adds to nothing.
      %stage0 = cutlass.state_index(%before)
      %cs0 = cute.make_coord(%stage0) -> !cute.coord<(_,_,?)>
      %sA0 = cute.slice(%cs0, %sA)
      %sB0 = cute.slice(%cs0, %sB)
      cutlass.consumer_wait(%pipeline, %before)
      cute_nvgpu.warpgroup_mma(%begins, %rD, %sA0, %sB0)
      cute_nvgpu.warpgroup_commit_batch()
      %second = cutlass.advance(%before)
      %after, %freed = cute.for %k = %one to %count step %one carries (%state = %second, %release = %free) {
        %stage = cutlass.state_index(%state)
        %cs = cute.make_coord(%stage) -> !cute.coord<(_,_,?)>
        %sAs = cute.slice(%cs, %sA)
        %sBs = cute.slice(%cs, %sB)
        cutlass.consumer_wait(%pipeline, %state)
        cute_nvgpu.warpgroup_mma(%mma, %rD, %sAs, %sBs)
        cute_nvgpu.warpgroup_commit_batch()
        // The product before this one is done: its stage is free.
        cute_nvgpu.warpgroup_wait<1>()
        %elected = cute_nvgpu.elect_sync()
        cute.if %elected {
          cutlass.consumer_release(%pipeline, %release)
        }
        %next = cutlass.advance(%state)
        %following = cutlass.advance(%release)
        cute.yield(%next, %following)
      }
      cute_nvgpu.warpgroup_wait<0>()
      %leads = cute_nvgpu.elect_sync()
      cute.if %leads {
        cutlass.consumer_release(%pipeline, %freed)
      }
      %all = cutlass.advance(%freed)
      // Four boxes of 64 columns for each warp, two of them on their way.
      %line = cute.tuple_mul(%warp, %high)
      %y = cute.tuple_add(%m, %line)
      cute.for %i = %zero to %boxes step %one {
        %place = cute.tuple_mod(%i, %two)
        %elected = cute_nvgpu.elect_sync()
        cute.if %elected {
          cutlass.producer_acquire(%boxesD, %store0)
        }
        cute_nvgpu.sync_warp()
        %ci = cute.make_coord(%i) -> !cute.coord<(0,?)>
        %part = cute.local_tile(%wordsD, %columns, %ci)
        cute.cast(%part, %halves)
        %cp = cute.make_coord(%place) -> !cute.coord<(_,_,_,?)>
        %rows = cute.slice(%cp, %rowsD)
        cute.copy(%copyD, %halves, %rows)
        cute_nvgpu.fence_proxy_async()
        cute_nvgpu.sync_warp()
        %cb = cute.make_coord(%place) -> !cute.coord<(_,_,?)>
        %sDp = cute.slice(%cb, %sD)
        %cw = cute.make_coord(%warp) -> !cute.coord<(?,0)>
        %mine = cute.local_tile(%sDp, %box, %cw)
        %right = cute.tuple_mul(%i, %depth)
        %x = cute.tuple_add(%n, %right)
        %cD = cute.make_coord(%x, %y) -> !cute.coord<(?,?)>
        cute.if %elected {
          cute_nvgpu.tma_store(%tmaD, %mine, %cD)
          cutlass.producer_commit(%boxesD, %store0)
        }
      }
      cute.yield(%after, %all)
    }
    %leads = cute_nvgpu.elect_sync()
    cute.if %leads {
      cutlass.producer_tail(%boxesD, %store0)
    }
  }
  cute.return
}

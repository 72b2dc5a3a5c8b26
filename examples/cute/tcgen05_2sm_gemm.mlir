// D := A * B^T on Blackwell, f16, by the tensor cores of two SMs: the CTAs of a pair have 128 rows each
// of a tile 256 x 256 of D, and the half of the tile's columns of B; the first one multiplies for both,
// into the tensor memory of each. In each CTA a thread brings its halves by TMA into four stages, which
// the first CTA counts, and four warps store by TMA while the next tile is summed up in the other half
// of tensor memory. Pairs take tiles one after the other. %tiles_m * 256 = M, %tiles_n * 256 = N,
// %steps * 64 = K. Parameters: the tensor maps of A, B and D.
cute.func @tcgen05_2sm_gemm(%mapA: !cute_nvgpu.tma_atom<f16, (64,128), 128>, %mapB: !cute_nvgpu.tma_atom<f16, (64,128), 128>, %mapD: !cute_nvgpu.tma_atom<f16, (64,32), 128>, %tiles_m: i32, %tiles_n: i32, %steps: i32) threads 192 cluster (2,1,1) {
  %tid = cute.thread_idx<0>()
  %warp = cute_nvgpu.warp_idx()
  %zero = cute.static() -> !cute.int<0>
  %one = cute.static() -> !cute.int<1>
  %two = cute.static() -> !cute.int<2>
  %four = cute.static() -> !cute.int<4>
  %rank = cute_nvgpu.block_idx_in_cluster()
  %whole = cute.static() -> !cute.int<256>
  %size = cute.static() -> !cute.int<128>
  %depth = cute.static() -> !cute.int<64>
  %count = cute.to_int(%steps)
  %sA = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, S<3,3,3> o 0 o (128,64,4):(64,1,8192)>
  %sB = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, S<3,3,3> o 0 o (128,64,4):(64,1,8192)>
  %sD = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, S<3,3,3> o 0 o (128,(32,2),4):(64,(1,32),8192)>
  %bars = cute.alloc() -> !cute.tensor<i64, smem, align<8>, 8:1>
  %sums = cute.alloc() -> !cute.tensor<i64, smem, align<8>, 4:1>
  %slot = cute.alloc() -> !cute.tensor<i32, smem, align<4>, 1:1>
  // TMA fills stages that tensor cores read; they fill accumulators that four warps read.
  %loads = cutlass.make_pipeline(%bars) -> !cutlass.pipeline<tma_umma_2sm, 4, 65536, (1,1)>
  %accumulators = cutlass.make_pipeline(%sums) -> !cutlass.pipeline<umma_async_2sm, 2, 0, (1,8)>
  %boxesD = cutlass.make_pipeline() -> !cutlass.pipeline<tma_store, 1, 0, (1,1)>
  %problem = cute.make_shape(%tiles_m, %tiles_n) -> !cute.shape<(?,?,1)>
  %scheduler = cutlass.make_tile_scheduler(%problem) -> !cutlass.tile_scheduler<1, m>
  // A pair takes a tile.
  %begin = cute_nvgpu.cluster_idx<0>()
  %end = cutlass.work_count(%scheduler)
  %ctas = cute_nvgpu.cluster_dim<0>()
  %brings = cute.static() -> !cute.int<4>
  %multiplies = cute.static() -> !cute.int<5>
  %produces = cute.equal(%warp, %brings)
  %allocates = cute.equal(%warp, %multiplies)
  %isfirst = cute.equal(%rank, %zero)
  %stores = cute.elem_less(%warp, %brings)
  // Two accumulators of 256 columns, in both CTAs.
  cute.if %allocates {
    cute_nvgpu.tmem_alloc<512,2>(%slot)
  }
  cute_nvgpu.tcgen05_fence_before()
  cutlass.pipeline_init_wait()
  cute_nvgpu.tcgen05_fence_after()
  %tmem = cute_nvgpu.tmem_address(%slot)
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
        %m0 = cute.tuple_mul(%tm, %whole)
        %n0 = cute.tuple_mul(%tn, %whole)
        %half = cute.tuple_mul(%rank, %size)
        %m = cute.tuple_add(%m0, %half)
        %n = cute.tuple_add(%n0, %half)
        %after = cute.for %k = %zero to %count step %one carries (%state = %before) {
          cutlass.producer_acquire(%loads, %state)
          %stage = cutlass.state_index(%state)
          %full = cutlass.producer_get_barrier(%loads, %state)
          %cs = cute.make_coord(%stage) -> !cute.coord<(_,_,?)>
          %sAs = cute.slice(%cs, %sA)
          %sBs = cute.slice(%cs, %sB)
          %kk = cute.tuple_mul(%k, %depth)
          %cA = cute.make_coord(%kk, %m) -> !cute.coord<(?,?)>
          %cB = cute.make_coord(%kk, %n) -> !cute.coord<(?,?)>
          cute_nvgpu.tma_load<2>(%tmaA, %sAs, %full, %cA)
          cute_nvgpu.tma_load<2>(%tmaB, %sBs, %full, %cB)
          cutlass.producer_commit(%loads, %state)
          %next = cutlass.advance(%state)
          cute.yield(%next)
        }
        cute.yield(%after)
      }
      cutlass.producer_tail(%loads, %last)
    }
  }
  cute.if %allocates {
    cute.if %isfirst {
      %atom = cute_nvgpu.make_tcgen05_mma_atom() -> !cute.mma_atom<tcgen05_2sm, (256,256,16), f16, f16, f32>
      %once = cute.static() -> !cute.layout<(1,1,1),(0,0,0)>
      %mma = cute.make_tiled_mma(%atom, %once)
      %elected = cute_nvgpu.elect_sync()
      cute.if %elected {
        %start = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<4, consumer>
        %first = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<2, producer>
        %last, %done = cute.for %work = %begin to %end step %ctas carries (%before = %start, %total = %first) {
          cutlass.producer_acquire(%accumulators, %total)
          %half = cutlass.state_index(%total)
          %column = cute.tuple_mul(%half, %whole)
          %sum = cute.tuple_add(%tmem, %column)
          %after = cute.for %k = %zero to %count step %one carries (%state = %before) {
            %stage = cutlass.state_index(%state)
            %cs = cute.make_coord(%stage) -> !cute.coord<(_,_,?)>
            %sAs = cute.slice(%cs, %sA)
            %sBs = cute.slice(%cs, %sB)
            cutlass.consumer_wait(%loads, %state)
            // The first product of a tile adds to nothing. A stage is free when it is read.
            %adds = cute_nvgpu.atom_set_value<0>(%mma, %k)
            cute_nvgpu.tcgen05_mma(%adds, %sum, %sAs, %sBs)
            cutlass.consumer_release(%loads, %state)
            %next = cutlass.advance(%state)
            cute.yield(%next)
          }
          cutlass.producer_commit(%accumulators, %total)
          %following = cutlass.advance(%total)
          cute.yield(%after, %following)
        }
      }
    }
  }
  cute.if %stores {
    %tmaD = cute_nvgpu.make_exec_tma(%mapD)
    %words = cute.alloc() -> !cute.tensor<f32, rmem, align<16>, 32:1>
    %halves = cute.alloc() -> !cute.tensor<f16, rmem, align<16>, 32:1>
    %vectors = cute.static() -> !cute.copy_atom<universal, 128>
    %span = cute.static() -> !cute.int<32>
    %box = cute.static() -> !cute.tile<[32:1;64:1]>
    %start = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<2, consumer>
    %boxes0 = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<1, producer>
    %done = cute.for %work = %begin to %end step %ctas carries (%total = %start) {
      %tile = cutlass.get_current_work(%scheduler, %work)
      %tm = cute.get_leaf<0>(%tile)
      %tn = cute.get_leaf<1>(%tile)
      %m0 = cute.tuple_mul(%tm, %whole)
      %rows = cute.tuple_mul(%rank, %size)
      %m = cute.tuple_add(%m0, %rows)
      %n = cute.tuple_mul(%tn, %whole)
      %half = cutlass.state_index(%total)
      %column = cute.tuple_mul(%half, %whole)
      %sum = cute.tuple_add(%tmem, %column)
      // The boxes of the tile before are on their way.
      %leads = cute_nvgpu.elect_sync()
      cute.if %leads {
        cutlass.producer_acquire(%boxesD, %boxes0)
      }
      cute_nvgpu.sync_warp()
      cutlass.consumer_wait(%accumulators, %total)
      // A thread has a row, 32 columns at a time.
      cute.for %b = %zero to %four step %one {
        cute.for %c = %zero to %two step %one {
          %boxes = cute.tuple_mul(%b, %depth)
          %parts = cute.tuple_mul(%c, %span)
          %beside = cute.tuple_add(%boxes, %parts)
          %from = cute.tuple_add(%sum, %beside)
          cute_nvgpu.tcgen05_load(%from, %words)
          cute.cast(%words, %halves)
          %ct = cute.make_coord(%tid, %c, %b) -> !cute.coord<(?,(_,?),?)>
          %row = cute.slice(%ct, %sD)
          cute.copy(%vectors, %halves, %row)
        }
      }
      cute_nvgpu.tcgen05_fence_before()
      cute_nvgpu.fence_proxy_async()
      cute_nvgpu.sync_warp()
      cute.if %leads {
        cutlass.consumer_release(%accumulators, %total)
        %line = cute.tuple_mul(%warp, %span)
        %y = cute.tuple_add(%m, %line)
        cute.for %b = %zero to %four step %one {
          %cb = cute.make_coord(%b) -> !cute.coord<(_,_,?)>
          %sDb = cute.slice(%cb, %sD)
          %cw = cute.make_coord(%warp) -> !cute.coord<(?,0)>
          %mine = cute.local_tile(%sDb, %box, %cw)
          %boxes = cute.tuple_mul(%b, %depth)
          %x = cute.tuple_add(%n, %boxes)
          %cD = cute.make_coord(%x, %y) -> !cute.coord<(?,?)>
          cute_nvgpu.tma_store(%tmaD, %mine, %cD)
        }
        cutlass.producer_commit(%boxesD, %boxes0)
      }
      %following = cutlass.advance(%total)
      cute.yield(%following)
    }
    %leads = cute_nvgpu.elect_sync()
    cute.if %leads {
      cutlass.producer_tail(%boxesD, %boxes0)
    }
  }
  // Nobody leaves while the other one's tensor cores use what is here.
  cute_nvgpu.tcgen05_fence_before()
  cute_nvgpu.cluster_arrive()
  cute_nvgpu.cluster_wait()
  cute_nvgpu.tcgen05_fence_after()
  cute.if %allocates {
    cute_nvgpu.tmem_dealloc<512,2>(%tmem)
  }
  cute.return
}

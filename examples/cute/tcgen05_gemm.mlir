// D := A * B^T on Blackwell, f16: one thread brings tiles by TMA into four stages, one multiplies them
// into tensor memory, four warps store by TMA what it has summed up, while the next tile is summed up
// in the other half. CTAs take tiles 128 x 128 of D one after the other. %tiles_m * 128 = M,
// %tiles * 16384 = M * N, %steps * 64 = K. Parameters: the tensor maps of A, B and D.
cute.func @tcgen05_gemm(%mapA: !cute_nvgpu.tma_atom<f16, (64,128), 128>, %mapB: !cute_nvgpu.tma_atom<f16, (64,128), 128>, %mapD: !cute_nvgpu.tma_atom<f16, (64,32), 128>, %tiles_m: i32, %tiles: i32, %steps: i32) threads 192 {
  %tid = cute.thread_idx<0>()
  %bid = cute.block_idx<0>()
  %ctas = cute.grid_dim<0>()
  %warp = cute_nvgpu.warp_idx()
  %zero = cute.static() -> !cute.int<0>
  %one = cute.static() -> !cute.int<1>
  %two = cute.static() -> !cute.int<2>
  %stages = cute.static() -> !cute.int<4>
  %size = cute.static() -> !cute.int<128>
  %depth = cute.static() -> !cute.int<64>
  %count = cute.to_int(%steps)
  %rows = cute.to_int(%tiles_m)
  %all = cute.to_int(%tiles)
  %start = cute.tuple_sub(%count, %count)
  // A barrier for each stage that is full and that is empty, for each accumulator that is summed up
  // and that is read.
  %sA = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, S<3,3,3> o 0 o (128,64,4):(64,1,8192)>
  %sB = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, S<3,3,3> o 0 o (128,64,4):(64,1,8192)>
  %sD = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, S<3,3,3> o 0 o (128,(32,2),2):(64,(1,32),8192)>
  %bars = cute.alloc() -> !cute.tensor<i64, smem, align<8>, (4,2):(1,4)>
  %sums = cute.alloc() -> !cute.tensor<i64, smem, align<8>, (2,2):(1,2)>
  %slot = cute.alloc() -> !cute.tensor<i32, smem, align<4>, 1:1>
  %full = cute.get_iter(%bars)
  %empty = cute.add_offset(%full, %stages)
  %summed = cute.get_iter(%sums)
  %drained = cute.add_offset(%summed, %two)
  %first = cute.elem_less(%tid, %one)
  cute.if %first {
    cute.for %s = %zero to %stages step %one {
      %f = cute.add_offset(%full, %s)
      %e = cute.add_offset(%empty, %s)
      cute_nvgpu.mbarrier_init<1>(%f)
      cute_nvgpu.mbarrier_init<1>(%e)
    }
    cute.for %s = %zero to %two step %one {
      %f = cute.add_offset(%summed, %s)
      %e = cute.add_offset(%drained, %s)
      cute_nvgpu.mbarrier_init<1>(%f)
      cute_nvgpu.mbarrier_init<4>(%e)
    }
    cute_nvgpu.mbarrier_init_fence()
  }
  %brings = cute.static() -> !cute.int<4>
  %multiplies = cute.static() -> !cute.int<5>
  %produces = cute.equal(%warp, %brings)
  %computes = cute.equal(%warp, %multiplies)
  %stores = cute.elem_less(%warp, %brings)
  // Two accumulators of 128 columns.
  cute.if %computes {
    cute_nvgpu.tmem_alloc<256>(%slot)
  }
  cute_nvgpu.tcgen05_fence_before()
  cute.sync_threads()
  cute_nvgpu.tcgen05_fence_after()
  %tmem = cute_nvgpu.tmem_address(%slot)
  cute.if %produces {
    %elected = cute_nvgpu.elect_sync()
    cute.if %elected {
      %tmaA = cute_nvgpu.make_exec_tma(%mapA)
      %tmaB = cute_nvgpu.make_exec_tma(%mapB)
      %last = cute.for %tile = %bid to %all step %ctas carries (%before = %start) {
        %tm = cute.tuple_mod(%tile, %rows)
        %tn = cute.tuple_div(%tile, %rows)
        %m = cute.tuple_mul(%tm, %size)
        %n = cute.tuple_mul(%tn, %size)
        %after = cute.for %k = %zero to %count step %one carries (%turn = %before) {
          %stage = cute.tuple_mod(%turn, %stages)
          %round = cute.tuple_div(%turn, %stages)
          %flipped = cute.tuple_add(%round, %one)
          %phase = cute.tuple_mod(%flipped, %two)
          %e = cute.add_offset(%empty, %stage)
          %f = cute.add_offset(%full, %stage)
          cute_nvgpu.mbarrier_wait(%e, %phase)
          cute_nvgpu.mbarrier_arrive_and_expect_tx<32768>(%f)
          %cs = cute.make_coord(%stage) -> !cute.coord<(_,_,?)>
          %sAs = cute.slice(%cs, %sA)
          %sBs = cute.slice(%cs, %sB)
          %kk = cute.tuple_mul(%k, %depth)
          %cA = cute.make_coord(%kk, %m) -> !cute.coord<(?,?)>
          %cB = cute.make_coord(%kk, %n) -> !cute.coord<(?,?)>
          cute_nvgpu.tma_load(%tmaA, %sAs, %f, %cA)
          cute_nvgpu.tma_load(%tmaB, %sBs, %f, %cB)
          %next = cute.tuple_add(%turn, %one)
          cute.yield(%next)
        }
        cute.yield(%after)
      }
    }
  }
  cute.if %computes {
    %atom = cute_nvgpu.make_tcgen05_mma_atom() -> !cute.mma_atom<tcgen05, (128,128,16), f16, f16, f32>
    %once = cute.static() -> !cute.layout<(1,1,1),(0,0,0)>
    %mma = cute.make_tiled_mma(%atom, %once)
    %elected = cute_nvgpu.elect_sync()
    cute.if %elected {
      %last, %done = cute.for %tile = %bid to %all step %ctas carries (%before = %start, %number = %start) {
        %half = cute.tuple_mod(%number, %two)
        %round = cute.tuple_div(%number, %two)
        %flipped = cute.tuple_add(%round, %one)
        %phase = cute.tuple_mod(%flipped, %two)
        %s = cute.add_offset(%summed, %half)
        %d = cute.add_offset(%drained, %half)
        cute_nvgpu.mbarrier_wait(%d, %phase)
        cute_nvgpu.tcgen05_fence_after()
        %column = cute.tuple_mul(%half, %size)
        %sum = cute.tuple_add(%tmem, %column)
        %after = cute.for %k = %zero to %count step %one carries (%turn = %before) {
          %stage = cute.tuple_mod(%turn, %stages)
          %turned = cute.tuple_div(%turn, %stages)
          %parity = cute.tuple_mod(%turned, %two)
          %f = cute.add_offset(%full, %stage)
          %e = cute.add_offset(%empty, %stage)
          %cs = cute.make_coord(%stage) -> !cute.coord<(_,_,?)>
          %sAs = cute.slice(%cs, %sA)
          %sBs = cute.slice(%cs, %sB)
          cute_nvgpu.mbarrier_wait(%f, %parity)
          cute_nvgpu.tcgen05_fence_after()
          // The first product of a tile adds to nothing. A stage is free when it is read.
          %adds = cute_nvgpu.atom_set_value<0>(%mma, %k)
          cute_nvgpu.tcgen05_mma(%adds, %sum, %sAs, %sBs)
          cute_nvgpu.tcgen05_commit(%e)
          %next = cute.tuple_add(%turn, %one)
          cute.yield(%next)
        }
        cute_nvgpu.tcgen05_commit(%s)
        %following = cute.tuple_add(%number, %one)
        cute.yield(%after, %following)
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
    %done = cute.for %tile = %bid to %all step %ctas carries (%number = %start) {
      %tm = cute.tuple_mod(%tile, %rows)
      %tn = cute.tuple_div(%tile, %rows)
      %m = cute.tuple_mul(%tm, %size)
      %n = cute.tuple_mul(%tn, %size)
      %half = cute.tuple_mod(%number, %two)
      %round = cute.tuple_div(%number, %two)
      %phase = cute.tuple_mod(%round, %two)
      %s = cute.add_offset(%summed, %half)
      %d = cute.add_offset(%drained, %half)
      %column = cute.tuple_mul(%half, %size)
      %sum = cute.tuple_add(%tmem, %column)
      // The boxes of the tile before are on their way.
      %leads = cute_nvgpu.elect_sync()
      cute.if %leads {
        cute_nvgpu.tma_store_wait_read<0>()
      }
      cute_nvgpu.sync_warp()
      cute_nvgpu.mbarrier_wait(%s, %phase)
      cute_nvgpu.tcgen05_fence_after()
      // A thread has a row, 32 columns at a time.
      cute.for %b = %zero to %two step %one {
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
        cute_nvgpu.mbarrier_arrive(%d)
        %line = cute.tuple_mul(%warp, %span)
        %y = cute.tuple_add(%m, %line)
        cute.for %b = %zero to %two step %one {
          %cb = cute.make_coord(%b) -> !cute.coord<(_,_,?)>
          %sDb = cute.slice(%cb, %sD)
          %cw = cute.make_coord(%warp) -> !cute.coord<(?,0)>
          %mine = cute.local_tile(%sDb, %box, %cw)
          %boxes = cute.tuple_mul(%b, %depth)
          %x = cute.tuple_add(%n, %boxes)
          %cD = cute.make_coord(%x, %y) -> !cute.coord<(?,?)>
          cute_nvgpu.tma_store(%tmaD, %mine, %cD)
        }
        cute_nvgpu.tma_store_commit()
      }
      %following = cute.tuple_add(%number, %one)
      cute.yield(%following)
    }
    %leads = cute_nvgpu.elect_sync()
    cute.if %leads {
      cute_nvgpu.tma_store_wait<0>()
    }
  }
  cute_nvgpu.tcgen05_fence_before()
  cute.sync_threads()
  cute_nvgpu.tcgen05_fence_after()
  cute.if %computes {
    cute_nvgpu.tmem_dealloc<256>(%tmem)
  }
  cute.return
}

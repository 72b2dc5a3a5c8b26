// D := A * B^T on Hopper, f16: a warp brings tiles by TMA into four stages, two warpgroups multiply
// them, one product behind, and store by TMA. CTAs take tiles 128 x 256 of D one after the other,
// 16 along M at a time. %span = 16 N / 256, %tiles = M N / 32768, %steps = K / 64. M is a multiple of
// 2048. Parameters: the tensor maps of A, B and D.
cute.func @persistent_gemm(%mapA: !cute_nvgpu.tma_atom<f16, (64,128), 128>, %mapB: !cute_nvgpu.tma_atom<f16, (64,256), 128>, %mapD: !cute_nvgpu.tma_atom<f16, (64,16), 128>, %span: i32, %tiles: i32, %steps: i32) threads 288 {
  %tid = cute.thread_idx<0>()
  %bid = cute.block_idx<0>()
  %ctas = cute.grid_dim<0>()
  %warp = cute_nvgpu.warp_idx()
  %zero = cute.static() -> !cute.int<0>
  %one = cute.static() -> !cute.int<1>
  %two = cute.static() -> !cute.int<2>
  %boxes = cute.static() -> !cute.int<4>
  %stages = cute.static() -> !cute.int<4>
  %high = cute.static() -> !cute.int<16>
  %depth = cute.static() -> !cute.int<64>
  %tall = cute.static() -> !cute.int<128>
  %wide = cute.static() -> !cute.int<256>
  %count = cute.to_int(%steps)
  %group = cute.to_int(%span)
  %all = cute.to_int(%tiles)
  %start = cute.tuple_sub(%count, %count)
  // Four stages; a barrier for what is full, one for what is empty. Two boxes of D for each warp.
  %sA = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, S<3,3,3> o 0 o (128,64,4):(64,1,8192)>
  %sB = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, S<3,3,3> o 0 o (256,64,4):(64,1,16384)>
  %sD = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, S<3,3,3> o 0 o (128,64,2):(64,1,8192)>
  %bars = cute.alloc() -> !cute.tensor<i64, smem, align<8>, (4,2):(1,4)>
  %full = cute.get_iter(%bars)
  %empty = cute.add_offset(%full, %stages)
  %first = cute.elem_less(%tid, %one)
  cute.if %first {
    cute.for %s = %zero to %stages step %one {
      %f = cute.add_offset(%full, %s)
      %e = cute.add_offset(%empty, %s)
      cute_nvgpu.mbarrier_init<1>(%f)
      cute_nvgpu.mbarrier_init<8>(%e)
    }
    cute_nvgpu.mbarrier_init_fence()
  }
  cute.sync_threads()
  %consumers = cute.static() -> !cute.int<8>
  %produces = cute.equal(%warp, %consumers)
  %consumes = cute.elem_less(%warp, %consumers)
  cute.if %produces {
    %elected = cute_nvgpu.elect_sync()
    cute.if %elected {
      %tmaA = cute_nvgpu.make_exec_tma(%mapA)
      %tmaB = cute_nvgpu.make_exec_tma(%mapB)
      %last = cute.for %tile = %bid to %all step %ctas carries (%before = %start) {
        %outer = cute.tuple_div(%tile, %group)
        %inner = cute.tuple_mod(%tile, %group)
        %base = cute.tuple_mul(%outer, %high)
        %row = cute.tuple_mod(%inner, %high)
        %tm = cute.tuple_add(%base, %row)
        %tn = cute.tuple_div(%inner, %high)
        %m = cute.tuple_mul(%tm, %tall)
        %n = cute.tuple_mul(%tn, %wide)
        %after = cute.for %k = %zero to %count step %one carries (%turn = %before) {
          %stage = cute.tuple_mod(%turn, %stages)
          %round = cute.tuple_div(%turn, %stages)
          %flipped = cute.tuple_add(%round, %one)
          %phase = cute.tuple_mod(%flipped, %two)
          %e = cute.add_offset(%empty, %stage)
          %f = cute.add_offset(%full, %stage)
          cute_nvgpu.mbarrier_wait(%e, %phase)
          cute_nvgpu.mbarrier_arrive_and_expect_tx<49152>(%f)
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
    %last = cute.for %tile = %bid to %all step %ctas carries (%before = %start) {
      %outer = cute.tuple_div(%tile, %group)
      %inner = cute.tuple_mod(%tile, %group)
      %base = cute.tuple_mul(%outer, %high)
      %row = cute.tuple_mod(%inner, %high)
      %tm = cute.tuple_add(%base, %row)
      %tn = cute.tuple_div(%inner, %high)
      %m = cute.tuple_mul(%tm, %tall)
      %n = cute.tuple_mul(%tn, %wide)
      // The first product of a tile adds to nothing.
      %stage0 = cute.tuple_mod(%before, %stages)
      %round0 = cute.tuple_div(%before, %stages)
      %phase0 = cute.tuple_mod(%round0, %two)
      %f0 = cute.add_offset(%full, %stage0)
      %cs0 = cute.make_coord(%stage0) -> !cute.coord<(_,_,?)>
      %sA0 = cute.slice(%cs0, %sA)
      %sB0 = cute.slice(%cs0, %sB)
      cute_nvgpu.mbarrier_wait(%f0, %phase0)
      cute_nvgpu.warpgroup_mma(%begins, %rD, %sA0, %sB0)
      cute_nvgpu.warpgroup_commit_batch()
      %second = cute.tuple_add(%before, %one)
      %after = cute.for %k = %one to %count step %one carries (%turn = %second) {
        %stage = cute.tuple_mod(%turn, %stages)
        %round = cute.tuple_div(%turn, %stages)
        %phase = cute.tuple_mod(%round, %two)
        %f = cute.add_offset(%full, %stage)
        %cs = cute.make_coord(%stage) -> !cute.coord<(_,_,?)>
        %sAs = cute.slice(%cs, %sA)
        %sBs = cute.slice(%cs, %sB)
        cute_nvgpu.mbarrier_wait(%f, %phase)
        cute_nvgpu.warpgroup_mma(%mma, %rD, %sAs, %sBs)
        cute_nvgpu.warpgroup_commit_batch()
        // The product before this one is done: its stage is free.
        cute_nvgpu.warpgroup_wait<1>()
        %done = cute.tuple_sub(%turn, %one)
        %there = cute.tuple_mod(%done, %stages)
        %e = cute.add_offset(%empty, %there)
        %elected = cute_nvgpu.elect_sync()
        cute.if %elected {
          cute_nvgpu.mbarrier_arrive(%e)
        }
        %next = cute.tuple_add(%turn, %one)
        cute.yield(%next)
      }
      cute_nvgpu.warpgroup_wait<0>()
      %done = cute.tuple_sub(%after, %one)
      %there = cute.tuple_mod(%done, %stages)
      %e = cute.add_offset(%empty, %there)
      %leads = cute_nvgpu.elect_sync()
      cute.if %leads {
        cute_nvgpu.mbarrier_arrive(%e)
      }
      // Four boxes of 64 columns for each warp, two of them on their way.
      %line = cute.tuple_mul(%warp, %high)
      %y = cute.tuple_add(%m, %line)
      cute.for %i = %zero to %boxes step %one {
        %place = cute.tuple_mod(%i, %two)
        %elected = cute_nvgpu.elect_sync()
        cute.if %elected {
          cute_nvgpu.tma_store_wait_read<1>()
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
          cute_nvgpu.tma_store_commit()
        }
      }
      cute.yield(%after)
    }
    %leads = cute_nvgpu.elect_sync()
    cute.if %leads {
      cute_nvgpu.tma_store_wait<0>()
    }
  }
  cute.return
}

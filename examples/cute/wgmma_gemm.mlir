// D := A * B^T on Hopper: a warp brings tiles by TMA into three stages, two warpgroups multiply them.
// CTAs take tiles 128 x 64 of D one after the other. %tiles_m * 128 = M, %tiles * 8192 = M * N,
// %steps * 32 = K. Parameters: the tensor maps of A and B; D, its extents and stride.
cute.func @wgmma_gemm(%mapA: !cute_nvgpu.tma_atom<f16, (32,128), 64>, %mapB: !cute_nvgpu.tma_atom<f16, (32,64), 64>, %D: !cute.tensor<f32, gmem, align<16>, (?{div=128},?{div=64}):(?{div=64},1)>, %tiles_m: i32, %tiles: i32, %steps: i32) threads 288 {
  %tid = cute.thread_idx<0>()
  %bid = cute.block_idx<0>()
  %ctas = cute.grid_dim<0>()
  %warp = cute_nvgpu.warp_idx()
  %zero = cute.static() -> !cute.int<0>
  %one = cute.static() -> !cute.int<1>
  %two = cute.static() -> !cute.int<2>
  %stages = cute.static() -> !cute.int<3>
  %count = cute.to_int(%steps)
  %rows = cute.to_int(%tiles_m)
  %all = cute.to_int(%tiles)
  %start = cute.tuple_sub(%count, %count)
  // Three stages, rows of 64 bytes; a barrier for what is full, one for what is empty.
  %sA = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, S<2,3,3> o 0 o (128,32,3):(32,1,4096)>
  %sB = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, S<2,3,3> o 0 o (64,32,3):(32,1,2048)>
  %bars = cute.alloc() -> !cute.tensor<i64, smem, align<8>, (3,2):(1,3)>
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
      %depth = cute.static() -> !cute.int<32>
      %tall = cute.static() -> !cute.int<128>
      %wide = cute.static() -> !cute.int<64>
      %last = cute.for %tile = %bid to %all step %ctas carries (%before = %start) {
        %tm = cute.tuple_mod(%tile, %rows)
        %tn = cute.tuple_div(%tile, %rows)
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
          cute_nvgpu.mbarrier_arrive_and_expect_tx<12288>(%f)
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
    %atom = cute_nvgpu.make_warpgroup_mma_atom() -> !cute.mma_atom<warpgroup, (64,64,16), f16, f16, f32>
    %groups = cute.static() -> !cute.layout<(2,1,1),(1,0,0)>
    %mma = cute.make_tiled_mma(%atom, %groups)
    %tiler = cute.static() -> !cute.tile<[128:1;64:1]>
    %pair = cute.static() -> !cute.copy_atom<universal, 64>
    %last = cute.for %tile = %bid to %all step %ctas carries (%before = %start) {
      %tm = cute.tuple_mod(%tile, %rows)
      %tn = cute.tuple_div(%tile, %rows)
      %cD = cute.make_coord(%tm, %tn) -> !cute.coord<(?,?)>
      %gD = cute.local_tile(%D, %tiler, %cD)
      %tD = cute.partition_c(%mma, %gD, %tid)
      %rD = cute.make_fragment_c(%mma, %tD)
      cute.clear(%rD)
      %after = cute.for %k = %zero to %count step %one carries (%turn = %before) {
        %stage = cute.tuple_mod(%turn, %stages)
        %round = cute.tuple_div(%turn, %stages)
        %phase = cute.tuple_mod(%round, %two)
        %f = cute.add_offset(%full, %stage)
        %e = cute.add_offset(%empty, %stage)
        %cs = cute.make_coord(%stage) -> !cute.coord<(_,_,?)>
        %sAs = cute.slice(%cs, %sA)
        %sBs = cute.slice(%cs, %sB)
        cute_nvgpu.mbarrier_wait(%f, %phase)
        cute_nvgpu.warpgroup_arrive()
        cute_nvgpu.warpgroup_mma(%mma, %rD, %sAs, %sBs)
        cute_nvgpu.warpgroup_commit_batch()
        cute_nvgpu.warpgroup_wait<0>()
        %elected = cute_nvgpu.elect_sync()
        cute.if %elected {
          cute_nvgpu.mbarrier_arrive(%e)
        }
        %next = cute.tuple_add(%turn, %one)
        cute.yield(%next)
      }
      cute.copy(%pair, %rD, %tD)
      cute.yield(%after)
    }
  }
  cute.return
}

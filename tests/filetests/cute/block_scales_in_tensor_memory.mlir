// RUN: --emit=ptx --gpu-name=sm_100
// Scales come to tensor memory as chunks, then one thread multiplies.
// CHECK: .entry scaled_tcgen05_gemm
// CHECK: cp.async.bulk.tensor.2d
// CHECK: tcgen05.cp.cta_group::1.32x128b.warpx4
// CHECK: tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale
// CHECK: tcgen05.commit
cute.func @scaled_tcgen05_gemm(%mapA: !cute_nvgpu.tma_atom<f8E4M3FN, (128,128), 128>, %mapB: !cute_nvgpu.tma_atom<f8E4M3FN, (128,128), 128>, %SFA: !cute.tensor<f8E8M0FNU, gmem, align<16>, (512,?):(1,512)>, %SFB: !cute.tensor<f8E8M0FNU, gmem, align<16>, (512,?):(1,512)>, %D: !cute.tensor<f32, gmem, align<16>, (?{div=128},?{div=128}):(?{div=128},1)>, %steps: i32) threads 128 {
  %tid = cute.thread_idx<0>()
  %bm = cute.block_idx<0>()
  %bn = cute.block_idx<1>()
  %warp = cute_nvgpu.warp_idx()
  %lane = cute_nvgpu.lane_idx()
  %zero = cute.static() -> !cute.int<0>
  %one = cute.static() -> !cute.int<1>
  %two = cute.static() -> !cute.int<2>
  %size = cute.static() -> !cute.int<128>
  %count = cute.to_int(%steps)
  %sA = cute.alloc() -> !cute.tensor<f8E4M3FN, smem, align<1024>, S<3,4,3> o 0 o (128,128):(128,1)>
  %sB = cute.alloc() -> !cute.tensor<f8E4M3FN, smem, align<1024>, S<3,4,3> o 0 o (128,128):(128,1)>
  %sSA = cute.alloc() -> !cute.tensor<f8E8M0FNU, smem, align<128>, ((32,4),4):((16,4),1)>
  %sSB = cute.alloc() -> !cute.tensor<f8E8M0FNU, smem, align<128>, ((32,4),4):((16,4),1)>
  %bars = cute.alloc() -> !cute.tensor<i64, smem, align<8>, 2:1>
  %slot = cute.alloc() -> !cute.tensor<i32, smem, align<4>, 1:1>
  %full = cute.get_iter(%bars)
  %read = cute.add_offset(%full, %one)
  %first = cute.equal(%warp, %zero)
  %second = cute.equal(%warp, %one)
  cute.if %first {
    cute_nvgpu.tmem_alloc<256>(%slot)
    %leads = cute_nvgpu.elect_sync()
    cute.if %leads {
      cute_nvgpu.mbarrier_init<1>(%full)
      cute_nvgpu.mbarrier_init<1>(%read)
      cute_nvgpu.mbarrier_init_fence()
    }
  }
  cute_nvgpu.tcgen05_fence_before()
  cute.sync_threads()
  cute_nvgpu.tcgen05_fence_after()
  // Sums in 128 columns, then four each for the scales of A and B.
  %sums = cute_nvgpu.tmem_address(%slot)
  %four = cute.static() -> !cute.int<4>
  %tSA = cute.tuple_add(%sums, %size)
  %tSB = cute.tuple_add(%tSA, %four)
  %atom = cute_nvgpu.make_tcgen05_mma_atom() -> !cute.mma_atom<tcgen05, (128,128,32), f8E4M3FN, f8E4M3FN, f32, f8E8M0FNU, 32>
  %once = cute.static() -> !cute.layout<(1,1,1),(0,0,0)>
  %mma = cute.make_tiled_mma(%atom, %once)
  // A lane has 16 bytes of a chunk.
  %vectors = cute.static() -> !cute.copy_atom<universal, 128>
  %lanes = cute.static() -> !cute.layout<32,1>
  %bytes = cute.static() -> !cute.layout<16,1>
  %copy = cute.make_tiled_copy(%vectors, %lanes, %bytes)
  %flat = cute.static() -> !cute.layout<512,1>
  %pSA = cute.get_iter(%sSA)
  %pSB = cute.get_iter(%sSB)
  %flatA = cute.make_tensor(%pSA, %flat)
  %flatB = cute.make_tensor(%pSB, %flat)
  %toA = cute.partition_d(%copy, %flatA, %lane)
  %toB = cute.partition_d(%copy, %flatB, %lane)
  %m = cute.tuple_mul(%bm, %size)
  %n = cute.tuple_mul(%bn, %size)
  %beforeA = cute.tuple_mul(%bm, %count)
  %beforeB = cute.tuple_mul(%bn, %count)
  cute.for %k = %zero to %count step %one {
    cute.if %first {
      %number = cute.tuple_add(%beforeA, %k)
      %cs = cute.make_coord(%number) -> !cute.coord<(_,?)>
      %chunk = cute.slice(%cs, %SFA)
      %from = cute.partition_s(%copy, %chunk, %lane)
      %r = cute.make_fragment_like(%from)
      cute.copy(%copy, %from, %r)
      cute.copy(%copy, %r, %toA)
    }
    cute.if %second {
      %number = cute.tuple_add(%beforeB, %k)
      %cs = cute.make_coord(%number) -> !cute.coord<(_,?)>
      %chunk = cute.slice(%cs, %SFB)
      %from = cute.partition_s(%copy, %chunk, %lane)
      %r = cute.make_fragment_like(%from)
      cute.copy(%copy, %from, %r)
      cute.copy(%copy, %r, %toB)
    }
    cute_nvgpu.fence_proxy_async()
    cute.sync_threads()
    %parity = cute.tuple_mod(%k, %two)
    cute.if %first {
      %leads = cute_nvgpu.elect_sync()
      cute.if %leads {
        %tmaA = cute_nvgpu.make_exec_tma(%mapA)
        %tmaB = cute_nvgpu.make_exec_tma(%mapB)
        %kk = cute.tuple_mul(%k, %size)
        %cA = cute.make_coord(%kk, %m) -> !cute.coord<(?,?)>
        %cB = cute.make_coord(%kk, %n) -> !cute.coord<(?,?)>
        cute_nvgpu.mbarrier_arrive_and_expect_tx<32768>(%full)
        cute_nvgpu.tma_load(%tmaA, %sA, %full, %cA)
        cute_nvgpu.tma_load(%tmaB, %sB, %full, %cB)
        cute_nvgpu.mbarrier_wait(%full, %parity)
        cute_nvgpu.tcgen05_cp(%tSA, %sSA)
        cute_nvgpu.tcgen05_cp(%tSB, %sSB)
        %adds = cute_nvgpu.atom_set_value<0>(%mma, %k)
        cute_nvgpu.tcgen05_mma_block_scaled(%adds, %sums, %tSA, %tSB, %sA, %sB)
        cute_nvgpu.tcgen05_commit(%read)
      }
    }
    cute_nvgpu.mbarrier_wait(%read, %parity)
  }
  cute_nvgpu.tcgen05_fence_after()
  // A thread has a row of 128 columns.
  %row = cute.static() -> !cute.tile<[1:1;128:1]>
  %line = cute.tuple_add(%m, %tid)
  %cD = cute.make_coord(%line, %bn) -> !cute.coord<(?,?)>
  %out = cute.local_tile(%D, %row, %cD)
  %words = cute.alloc() -> !cute.tensor<f32, rmem, align<16>, (1,128):(0,1)>
  cute_nvgpu.tcgen05_load(%sums, %words)
  cute.copy(%vectors, %words, %out)
  cute_nvgpu.tcgen05_fence_before()
  cute.sync_threads()
  cute.if %first {
    cute_nvgpu.tmem_dealloc<256>(%sums)
  }
  cute.return
}

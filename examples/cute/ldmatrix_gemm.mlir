// D := A * B^T by four warps: cp.async into two swizzled stages, ldmatrix, mma.sync.
// Each CTA has a tile 64 x 64 of D; %steps is K / 32. Parameters: A, its extents and stride, B, D.
cute.func @ldmatrix_gemm(%A: !cute.tensor<f16, gmem, align<16>, (?{div=64},?{div=32}):(?{div=32},1)>, %B: !cute.tensor<f16, gmem, align<16>, (?{div=64},?{div=32}):(?{div=32},1)>, %D: !cute.tensor<f32, gmem, align<16>, (?{div=64},?{div=64}):(?{div=64},1)>, %steps: i32) threads 128 {
  %tid = cute.thread_idx<0>()
  %bm = cute.block_idx<0>()
  %bn = cute.block_idx<1>()
  %zero = cute.static() -> !cute.int<0>
  %one = cute.static() -> !cute.int<1>
  %stages = cute.static() -> !cute.int<2>
  %count = cute.to_int(%steps)
  // Tiles in global memory: (64,32,K/32) of A and B, (64,64) of D.
  %tileK = cute.static() -> !cute.tile<[64:1;32:1]>
  %tileD = cute.static() -> !cute.tile<[64:1;64:1]>
  %cA = cute.make_coord(%bm) -> !cute.coord<(?,_)>
  %cB = cute.make_coord(%bn) -> !cute.coord<(?,_)>
  %cD = cute.make_coord(%bm, %bn) -> !cute.coord<(?,?)>
  %gA = cute.local_tile(%A, %tileK, %cA)
  %gB = cute.local_tile(%B, %tileK, %cB)
  %gD = cute.local_tile(%D, %tileD, %cD)
  // Two stages of shared memory; rows of 64 bytes, swizzled.
  %sA = cute.alloc() -> !cute.tensor<f16, smem, align<128>, S<2,3,3> o 0 o (64,32,2):(32,1,2048)>
  %sB = cute.alloc() -> !cute.tensor<f16, smem, align<128>, S<2,3,3> o 0 o (64,32,2):(32,1,2048)>
  // A thread brings 8 elements of each of two rows.
  %async = cute_nvgpu.make_cp_async_atom<128>()
  %threads = cute.static() -> !cute.layout<(32,4),(4,1)>
  %values = cute.static() -> !cute.layout<(1,8),(0,1)>
  %load = cute.make_tiled_copy(%async, %threads, %values)
  %gAt = cute.partition_s(%load, %gA, %tid)
  %gBt = cute.partition_s(%load, %gB, %tid)
  %sAt = cute.partition_d(%load, %sA, %tid)
  %sBt = cute.partition_d(%load, %sB, %tid)
  // Products of 32 x 16 x 16 by 2 x 2 warps.
  %atom = cute_nvgpu.make_warp_mma_atom() -> !cute.mma_atom<warp, (16,8,16), f16, f16, f32>
  %warps = cute.static() -> !cute.layout<(2,2,1),(1,2,0)>
  %mma = cute.make_tiled_mma(%atom, %warps)
  %tD = cute.partition_c(%mma, %gD, %tid)
  %rD = cute.make_fragment_c(%mma, %tD)
  %first = cute.static() -> !cute.coord<(_,_,0)>
  %sA0 = cute.slice(%first, %sA)
  %sB0 = cute.slice(%first, %sB)
  %tA = cute.partition_a(%mma, %sA0, %tid)
  %tB = cute.partition_b(%mma, %sB0, %tid)
  %rA = cute.make_fragment_a(%mma, %tA)
  %rB = cute.make_fragment_b(%mma, %tB)
  %matrices = cute_nvgpu.make_ldmatrix_atom<4>()
  %copyA = cute_nvgpu.make_tiled_copy_a(%matrices, %mma)
  %copyB = cute_nvgpu.make_tiled_copy_b(%matrices, %mma)
  %rowsA = cute.partition_s(%copyA, %sA, %tid)
  %rowsB = cute.partition_s(%copyB, %sB, %tid)
  %wordsA = cute.retile(%copyA, %rA)
  %wordsB = cute.retile(%copyB, %rB)
  cute.clear(%rD)
  // The first stage is on its way before the loop.
  %g0 = cute.static() -> !cute.coord<(_,_,_,0)>
  %gA0 = cute.slice(%g0, %gAt)
  %gB0 = cute.slice(%g0, %gBt)
  %sAt0 = cute.slice(%g0, %sAt)
  %sBt0 = cute.slice(%g0, %sBt)
  cute.copy(%load, %gA0, %sAt0)
  cute.copy(%load, %gB0, %sBt0)
  cute_nvgpu.cp_async_commit_group()
  cute.for %k = %zero to %count step %one {
    // The stage of this turn is there, and nobody reads the other one any more.
    cute_nvgpu.cp_async_wait_group<0>()
    cute.sync_threads()
    %next = cute.tuple_add(%k, %one)
    %more = cute.elem_less(%next, %count)
    %there = cute.tuple_mod(%next, %stages)
    cute.if %more {
      %cg = cute.make_coord(%next) -> !cute.coord<(_,_,_,?)>
      %cs = cute.make_coord(%there) -> !cute.coord<(_,_,_,?)>
      %gAn = cute.slice(%cg, %gAt)
      %gBn = cute.slice(%cg, %gBt)
      %sAn = cute.slice(%cs, %sAt)
      %sBn = cute.slice(%cs, %sBt)
      cute.copy(%load, %gAn, %sAn)
      cute.copy(%load, %gBn, %sBn)
      cute_nvgpu.cp_async_commit_group()
    }
    %here = cute.tuple_mod(%k, %stages)
    %ch = cute.make_coord(%here) -> !cute.coord<(_,_,_,?)>
    %rowsAh = cute.slice(%ch, %rowsA)
    %rowsBh = cute.slice(%ch, %rowsB)
    cute.copy(%copyA, %rowsAh, %wordsA)
    cute.copy(%copyB, %rowsBh, %wordsB)
    cute.gemm(%mma, %rD, %rA, %rB, %rD)
  }
  %word = cute.static() -> !cute.copy_atom<universal, 64>
  cute.copy(%word, %rD, %tD)
  cute.return
}

// D := (A * SFA) * (B * SFB)^T on sm_120: 32 numbers of e4m3 along K share a scale of ue8m0. One CTA
// of four warps has a tile of 32 x 32 x 64; fragments come from global memory as they are. Parameters:
// A and B, (rows,K); their scales, (rows,K / 32); D.
cute.func @scaled_gemm(%A: !cute.tensor<f8E4M3FN, gmem, align<16>, (32,64):(64,1)>, %B: !cute.tensor<f8E4M3FN, gmem, align<16>, (32,64):(64,1)>, %SFA: !cute.tensor<f8E8M0FNU, gmem, align<16>, (32,2):(2,1)>, %SFB: !cute.tensor<f8E8M0FNU, gmem, align<16>, (32,2):(2,1)>, %D: !cute.tensor<f32, gmem, align<16>, (32,32):(32,1)>) threads 128 {
  %tid = cute.thread_idx<0>()
  %atom = cute_nvgpu.make_warp_mma_atom() -> !cute.mma_atom<warp, (16,8,32), f8E4M3FN, f8E4M3FN, f32, f8E8M0FNU, 32>
  %warps = cute.static() -> !cute.layout<(2,2,1),(1,2,0)>
  %mma = cute.make_tiled_mma(%atom, %warps)
  %tA = cute.partition_a(%mma, %A, %tid)
  %tB = cute.partition_b(%mma, %B, %tid)
  %tSA = cute.partition_sfa(%mma, %SFA, %tid)
  %tSB = cute.partition_sfb(%mma, %SFB, %tid)
  %tD = cute.partition_c(%mma, %D, %tid)
  %rA = cute.make_fragment_a(%mma, %tA)
  %rB = cute.make_fragment_b(%mma, %tB)
  %rSA = cute.make_fragment_sfa(%mma, %tSA)
  %rSB = cute.make_fragment_sfb(%mma, %tSB)
  %rD = cute.make_fragment_c(%mma, %tD)
  // Four numbers, or a scale.
  %word = cute.static() -> !cute.copy_atom<universal, 32>
  %byte = cute.static() -> !cute.copy_atom<universal, 8>
  cute.copy(%word, %tA, %rA)
  cute.copy(%word, %tB, %rB)
  cute.copy(%byte, %tSA, %rSA)
  cute.copy(%byte, %tSB, %rSB)
  cute.clear(%rD)
  cute_nvgpu.gemm_block_scaled(%mma, %rD, %rA, %rSA, %rB, %rSB, %rD)
  %pair = cute.static() -> !cute.copy_atom<universal, 64>
  cute.copy(%pair, %rD, %tD)
  cute.return
}

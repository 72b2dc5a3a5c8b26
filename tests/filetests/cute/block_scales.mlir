// RUN: --emit=ptx --gpu-name=sm_120
// Fragments of numbers and of scales: a thread has the scales of its rows.
// CHECK: .entry scaled_gemm
// CHECK: mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0
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
// -----
// An atom of another generation.
cute.func @other() threads 32 {
  %atom = cute_nvgpu.make_tcgen05_mma_atom() -> !cute.mma_atom<tcgen05, (128,64,32), f8E4M3FN, f8E4M3FN, f32, f8E8M0FNU, 32>  // expected-error {{sm_120 has no tcgen05.mma mxf8f6f4 of 128x64x32, sm_100, sm_103}}
  cute.return
}

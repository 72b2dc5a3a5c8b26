// D := A * B^T, 32 x 32 x 32 by four warps of mma.sync. Parameters: A, B, D.
cute.func @gemm(%A: !cute.tensor<f16, gmem, align<16>, (32,32):(32,1)>, %B: !cute.tensor<f16, gmem, align<16>, (32,32):(32,1)>, %D: !cute.tensor<f32, gmem, align<16>, (32,32):(32,1)>) threads 128 {
  %tid = cute.thread_idx<0>()
  %atom = cute.static() -> !cute.mma_atom<warp, (16,8,16), f16, f16, f32>
  %warps = cute.static() -> !cute.layout<(2,2,1),(1,2,0)>
  %mma = cute.make_tiled_mma(%atom, %warps)
  %tA = cute.partition_a(%mma, %A, %tid)
  %tB = cute.partition_b(%mma, %B, %tid)
  %tC = cute.partition_c(%mma, %D, %tid)
  %rA = cute.make_fragment_a(%mma, %tA)
  %rB = cute.make_fragment_b(%mma, %tB)
  %rC = cute.make_fragment_c(%mma, %tC)
  %half = cute.static() -> !cute.copy_atom<universal, 16>
  %word = cute.static() -> !cute.copy_atom<universal, 32>
  cute.copy(%half, %tA, %rA)
  cute.copy(%half, %tB, %rB)
  cute.clear(%rC)
  cute.gemm(%mma, %rC, %rA, %rB, %rC)
  cute.copy(%word, %rC, %tC)
  cute.return
}

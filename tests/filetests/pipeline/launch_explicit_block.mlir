// RUN: --emit=ptx --gpu-name=sm_80
// Before clusters existed the launcher passes the block size, and a wrong one fails.

cuda_tile.module @m {
  // CHECK: .target sm_80
  // CHECK: .visible .entry does_nothing(
  // CHECK: .reqntid
  // CHECK-NOT: .blocksareclusters
  entry @does_nothing(%a: tile<ptr<f32>>) {
    return
  }
}

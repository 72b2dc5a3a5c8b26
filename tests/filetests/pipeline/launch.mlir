// RUN: --emit=ptx --gpu-name=sm_90
// An ordinary grid: real threads inside; the cubin says that the launcher gives one.

cuda_tile.module @m {
  // CHECK: .target sm_90a
  // CHECK: .visible .entry does_nothing(
  // CHECK: .reqntid
  // CHECK-NOT: .blocksareclusters
  entry @does_nothing(%a: tile<ptr<f32>>) {
    return
  }
}

// RUN: --emit=ptx --gpu-name=sm_90
// Launched in units of clusters: one thread per block for the launcher, real threads inside.

cuda_tile.module @m {
  // CHECK: .target sm_90a
  // CHECK: .visible .entry does_nothing(
  // CHECK: .reqntid
  // CHECK: .blocksareclusters
  // CHECK: ret;
  entry @does_nothing(%a: tile<ptr<f32>>) {
    return
  }
}

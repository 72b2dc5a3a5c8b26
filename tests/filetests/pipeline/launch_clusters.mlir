// RUN: --emit=ptx --gpu-name=sm_90 --launch=cluster
// A grid of clusters of one CTA: one thread per block for the launcher, without a mark in the cubin.

cuda_tile.module @m {
  // CHECK: .visible .entry does_nothing(
  // CHECK: .reqntid
  // CHECK: .reqnctapercluster 1
  // CHECK: .blocksareclusters
  entry @does_nothing(%a: tile<ptr<f32>>) {
    return
  }
}

// The end of the pipeline: a fence for aliases stands between barriers of all threads.
// RUN: --emit=ptx --gpu-name=sm_90
cuda_tile.module @kernels {
  entry @orders_aliases(%p: tile<ptr<i32>>) {
    // CHECK: bar.sync
    // CHECK-NEXT: // begin inline asm
    // CHECK-NEXT: fence.proxy.alias;
    // CHECK: bar.sync
    %t0 = make_token : token
    %t1 = memory_fence_alias_tko %t0
    return
  }
}
// -----
cuda_tile.module @kernels {
  entry @orders_nothing(%p: tile<ptr<i32>>) {
    // CHECK: entry orders_nothing
    // CHECK-NOT: fence
    %t0 = make_token : token
    return
  }
}

// The end of the pipeline: which PTX an atomic becomes, by its ordering and by who uses its result.
// RUN: --emit=ptx --gpu-name=sm_90
cuda_tile.module @kernels {
  entry @its_old_value_is_used(%p: tile<ptr<i32>>, %q: tile<ptr<i32>>) {
    // CHECK: atom.relaxed.gpu.global.add.u32
    // CHECK-NOT: red.relaxed
    %c1 = constant <i32: 1> : tile<i32>
    %old, %t = atomic_rmw_tko relaxed device %p, add, %c1
      : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %s = store_ptr_tko weak %q, %old token=%t : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}
// -----
cuda_tile.module @kernels {
  entry @nobody_uses_its_old_value(%p: tile<ptr<i32>>) {
    // CHECK: red.relaxed.gpu.global.add.u32
    // CHECK-NOT: atom.
    %c1 = constant <i32: 1> : tile<i32>
    %old, %t = atomic_rmw_tko relaxed device %p, add, %c1
      : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    return
  }
}
// -----
cuda_tile.module @kernels {
  entry @acquires_though_nobody_uses_its_old_value(%p: tile<ptr<i32>>) {
    // CHECK: atom.acq_rel.gpu.global.add.u32
    // CHECK-NOT: red.
    %c1 = constant <i32: 1> : tile<i32>
    %old, %t = atomic_rmw_tko acq_rel device %p, add, %c1
      : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    return
  }
}

// The end of the pipeline: dependent grids exist since sm_90: others do without.
// RUN: --emit=ptx --gpu-name=sm_80
cuda_tile.module @kernels {
  entry @has_nobody_to_wait_for() {
    // CHECK: entry has_nobody_to_wait_for
    // CHECK-NOT: griddepcontrol
    %t0 = gdc_wait_tko -> token
    %t1 = gdc_launch_dependents_tko -> token
    return
  }
}

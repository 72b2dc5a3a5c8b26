// The end of the pipeline: dependent grids exist since sm_90.
// RUN: --emit=ptx --gpu-name=sm_90
cuda_tile.module @kernels {
  entry @waits_and_lets_others_start() {
    // CHECK: griddepcontrol.wait
    // CHECK-NOT: griddepcontrol.wait
    // CHECK: griddepcontrol.launch_dependents
    // CHECK-NOT: griddepcontrol
    %t0 = gdc_wait_tko -> token
    %t1 = gdc_launch_dependents_tko -> token
    return
  }
}

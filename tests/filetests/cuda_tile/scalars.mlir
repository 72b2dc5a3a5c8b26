// RUN:
// Reads, verifies and prints in the form of the disassembler.

cuda_tile.module @m {
  // CHECK-LABEL: entry @prefixes_are_dropped(
  entry @prefixes_are_dropped(%a: !cuda_tile.tile<f32>) {
    // CHECK-NEXT: %0 = addf %arg0, %arg0 {{ *}}: tile<f32>
    %0 = cuda_tile.addf %a, %a : !cuda_tile.tile<f32>
    // CHECK-NEXT: return
  }
}
// -----
cuda_tile.module @m {
  // CHECK-LABEL: entry @splats_collapse(
  entry @splats_collapse() {
    // CHECK: constant <i32: 7> : tile<4xi32>
    %0 = constant <i32: [7, 7, 7, 7]> : tile<4xi32>
    return
  }
}
// -----
cuda_tile.module @m {
  // CHECK-LABEL: entry @hints_are_kept(
  // CHECK-SAME: optimization_hints=<sm_90 = {occupancy = 2}>
  entry @hints_are_kept() optimization_hints=<sm_90 = {occupancy = 2}> {
    return
  }
}
// -----
cuda_tile.module @m {
  entry @rejects_size_that_is_no_power_of_two() {
    %0 = iota : tile<3xi32>  // expected-error {{power}}
    return
  }
}
// -----
cuda_tile.module @m {
  entry @rejects_mixed_types(%a: tile<f32>, %b: tile<f16>) {
    %0 = addf %a, %b : tile<f32>  // expected-error {{f16}}
    return
  }
}
// -----
cuda_tile.module @m {
  entry @rejects_unknown_op() {
    %0 = frobnicate : tile<i32>  // expected-error {{frobnicate}}
    return
  }
}

// RUN: check-target --gpu-name=sm_80
cuda_tile.module @m {
  entry @rejects_what_the_target_lacks() {
    %t = make_token : token
    // expected-error@+1 {{unsupported type 'f8E4M3FN'}}
    %x = constant <f8E4M3FN: 1.0> : tile<16xf8E4M3FN>
    return
  }
}
// -----
// CHECK: constant <f16:
cuda_tile.module @m {
  entry @takes_what_the_target_has() {
    %x = constant <f16: 1.0> : tile<16xf16>
    print_tko "%f", %x : tile<16xf16> -> token
    return
  }
}

// RUN: canonicalize
// CHECK: %[[C:.*]] = constant <i32: 4>
// CHECK: muli %{{.*}}, %[[C]]
// CHECK-NOT: addi
cuda_tile.module @m {
  entry @folds_constants_and_identities(%x: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %c = constant <i32: 2> : tile<i32>
    %d = addi %c, %c : tile<i32>
    %e = muli %x, %d : tile<i32>
    %f = addi %e, %zero : tile<i32>
    %unused = muli %x, %x : tile<i32>
    print_tko "%d", %f : tile<i32> -> token
    return
  }
}
// -----
// CHECK: constant <f32: 0
// CHECK: addf
cuda_tile.module @m {
  entry @leaves_float_arithmetic(%x: tile<f32>) {
    %zero = constant <f32: 0.0> : tile<f32>
    %f = addf %x, %zero : tile<f32>
    print_tko "%f", %f : tile<f32> -> token
    return
  }
}

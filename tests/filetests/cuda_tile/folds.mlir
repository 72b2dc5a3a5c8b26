// RUN: canonicalize --verify-each

cuda_tile.module @m {
  // There are no constants of i4: the conversion stays.
  // CHECK-LABEL: entry @no_constant_of_i4(
  entry @no_constant_of_i4() {
    // CHECK: trunci
    // CHECK-SAME: tile<8xi4>
    %0 = constant <i8: 3> : tile<8xi8>
    %1 = trunci %0 : tile<8xi8> -> tile<8xi4>
    %2 = pack %1 : tile<8xi4> -> tile<4xi8>
    %3 = print_tko "%d", %2 : tile<4xi8> -> token
    return
  }
}

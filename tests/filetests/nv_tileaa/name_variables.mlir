// RUN: --device-debug --opt-level=0 convert-cudatile-to-tileaa,tileaa-name-variables
// marks_values_with_names_behind_their_operations
// CHECK: %rest = nv_tileaa.subi
// CHECK-NEXT: nv_tileaa.debug_value %rest {variable = "rest", parameter = 0} : i32
// CHECK: %sum = nv_tileaa.addi
// CHECK-NEXT: nv_tileaa.debug_value %sum {variable = "sum", parameter = 0} : tensor<64xi32>
cuda_tile.module @m {
  entry @k(%n: tile<i32>) {
    %c = constant <i32: 4> : tile<i32>
    %0 = subi %n, %c : tile<i32> loc("rest"("k.py":3:8))
    %1 = iota : tile<64xi32>
    %2 = addi %1, %1 : tile<64xi32> loc("sum"("k.py":4:8))
    return
  }
}
// -----
// leaves_values_without_names_and_large_tiles_and_tokens_alone
// CHECK: nv_tileaa.subi
// CHECK-NOT: debug_value
cuda_tile.module @m {
  entry @k(%n: tile<i32>) {
    %t = make_token : token loc("order"("k.py":1:8))
    %0 = subi %n, %n : tile<i32> loc("k.py":3:8)
    %1 = iota : tile<8192xi32>
    %2 = addi %1, %1 : tile<8192xi32> loc("large"("k.py":4:8))
    return
  }
}

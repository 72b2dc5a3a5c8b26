// RUN: canonicalize,cse,convert-cudatile-to-tileaa,simplify-addresses
// moves_rows_out_of_the_loop_and_compares_narrow_indices
// CHECK: nv_tileaa.muli
// CHECK: nv_tileaa.addptr
// CHECK: nv_tileaa.for
// CHECK: nv_tileaa.addi
// CHECK-NEXT: nv_tileaa.exti
// CHECK-NEXT: nv_tileaa.addptr
// CHECK-NEXT: nv_tileaa.cmpi
// CHECK-SAME: : tensor<64xi32>
cuda_tile.module @m {
  entry @gather(%p: tile<ptr<f32>>, %stride: tile<i64>, %size: tile<i32>, %n: tile<i32>) {
    %t = make_token : token
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %b0 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %base = broadcast %b0 : tile<1xptr<f32>> -> tile<64xptr<f32>>
    %i = iota : tile<64xi64>
    %s0 = reshape %stride : tile<i64> -> tile<1xi64>
    %s = broadcast %s0 : tile<1xi64> -> tile<64xi64>
    %rows = muli %i, %s : tile<64xi64>
    %e0 = exti %size signed : tile<i32> -> tile<i64>
    %e1 = reshape %e0 : tile<i64> -> tile<1xi64>
    %limit = broadcast %e1 : tile<1xi64> -> tile<64xi64>
    %places = iota : tile<64xi32>
    for %k in (%c0 to %n, step %c1) : tile<i32> {
      %k1 = reshape %k : tile<i32> -> tile<1xi32>
      %k2 = broadcast %k1 : tile<1xi32> -> tile<64xi32>
      %d0 = addi %k2, %places : tile<64xi32>
      %d = exti %d0 signed : tile<64xi32> -> tile<64xi64>
      %o = addi %rows, %d : tile<64xi64>
      %q = offset %base, %o : tile<64xptr<f32>>, tile<64xi64> -> tile<64xptr<f32>>
      %m = cmpi less_than %d, %limit, unsigned : tile<64xi64> -> tile<64xi1>
      %v, %tv = load_ptr_tko weak %q, %m token = %t
        : tile<64xptr<f32>>, tile<64xi1> -> tile<64xf32>, token
      %w = store_ptr_tko weak %q, %v, %m token = %tv
        : tile<64xptr<f32>>, tile<64xf32>, tile<64xi1> -> token
    }
    return
  }
}
// -----
// keeps_offsets_that_change_as_a_whole_and_comparisons_of_unlike_numbers
// CHECK: nv_tileaa.for
// CHECK: nv_tileaa.muli
// CHECK: nv_tileaa.addptr
// CHECK: nv_tileaa.cmpi
// CHECK-SAME: : tensor<64xi64>
cuda_tile.module @m {
  entry @other(%p: tile<ptr<f32>>, %size: tile<i32>, %n: tile<i32>) {
    %t = make_token : token
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %b0 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %base = broadcast %b0 : tile<1xptr<f32>> -> tile<64xptr<f32>>
    %e0 = exti %size unsigned : tile<i32> -> tile<i64>
    %e1 = reshape %e0 : tile<i64> -> tile<1xi64>
    %limit = broadcast %e1 : tile<1xi64> -> tile<64xi64>
    %places = iota : tile<64xi32>
    for %k in (%c0 to %n, step %c1) : tile<i32> {
      %k1 = reshape %k : tile<i32> -> tile<1xi32>
      %k2 = broadcast %k1 : tile<1xi32> -> tile<64xi32>
      %d0 = muli %k2, %places : tile<64xi32>
      %d = exti %d0 signed : tile<64xi32> -> tile<64xi64>
      %q = offset %base, %d : tile<64xptr<f32>>, tile<64xi64> -> tile<64xptr<f32>>
      %m = cmpi less_than %d, %limit, unsigned : tile<64xi64> -> tile<64xi1>
      %v, %tv = load_ptr_tko weak %q, %m token = %t
        : tile<64xptr<f32>>, tile<64xi1> -> tile<64xf32>, token
      %w = store_ptr_tko weak %q, %v, %m token = %tv
        : tile<64xptr<f32>>, tile<64xf32>, tile<64xi1> -> token
    }
    return
  }
}
// -----
// keeps_sums_that_may_wrap
// CHECK: nv_tileaa.for
// CHECK: nv_tileaa.addi
// CHECK-SAME: tensor<64xi32>
// CHECK-NEXT: nv_tileaa.addptr
// CHECK-SAME: tensor<64xi32>
cuda_tile.module @m {
  entry @narrow(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %b0 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %base = broadcast %b0 : tile<1xptr<f32>> -> tile<64xptr<f32>>
    %places = iota : tile<64xi32>
    for %k in (%c0 to %n, step %c1) : tile<i32> {
      %k1 = reshape %k : tile<i32> -> tile<1xi32>
      %k2 = broadcast %k1 : tile<1xi32> -> tile<64xi32>
      %d = addi %places, %k2 : tile<64xi32>
      %q = offset %base, %d : tile<64xptr<f32>>, tile<64xi32> -> tile<64xptr<f32>>
      %v, %tv = load_ptr_tko weak %q token = %t : tile<64xptr<f32>> -> tile<64xf32>, token
      %w = store_ptr_tko weak %q, %v token = %tv : tile<64xptr<f32>>, tile<64xf32> -> token
    }
    return
  }
}

// RUN: cse
// CHECK: %[[A:.*]] = muli
// CHECK-NOT: muli
// CHECK: addi %[[A]], %[[A]]
cuda_tile.module @m {
  entry @computes_equal_expressions_once(%x: tile<i32>, %y: tile<i32>) {
    %a = muli %x, %y : tile<i32>
    %b = muli %x, %y : tile<i32>
    %c = addi %a, %b : tile<i32>
    print_tko "%d", %c : tile<i32> -> token
    return
  }
}
// -----
// CHECK: load_ptr_tko
// CHECK: load_ptr_tko
cuda_tile.module @m {
  entry @keeps_loads_that_a_store_stands_between(%p: tile<ptr<f32>>) {
    %o = make_token : token
    %a, %s = load_ptr_tko weak %p token=%o : tile<ptr<f32>> -> tile<f32>, token
    %b = addf %a, %a : tile<f32>
    %w = store_ptr_tko weak %p, %b token=%s : tile<ptr<f32>>, tile<f32> -> token
    %c, %t = load_ptr_tko weak %p token=%w : tile<ptr<f32>> -> tile<f32>, token
    print_tko "%f", %c : tile<f32> -> token
    return
  }
}

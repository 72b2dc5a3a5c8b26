// RUN: unroll-loops
// CHECK-NOT: for
// CHECK-COUNT-4: load_ptr_tko
cuda_tile.module @m {
  entry @unrolls_two_loops_that_load_the_same(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %n: tile<i32>) {
    %o = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %width = constant <i32: 8> : tile<i32>
    %trips = constant <i32: 2> : tile<i32>
    %lanes = iota : tile<8xi32>
    %x1 = reshape %x : tile<ptr<f32>> -> tile<1xptr<f32>>
    %xs = broadcast %x1 : tile<1xptr<f32>> -> tile<8xptr<f32>>
    %none = constant <f32: 0.0> : tile<8xf32>
    %sums = for %i in (%zero to %trips, step %one) : tile<i32> iter_values(%a = %none)
        -> (tile<8xf32>) {
      %p0 = muli %i, %width : tile<i32>
      %p1 = reshape %p0 : tile<i32> -> tile<1xi32>
      %p2 = broadcast %p1 : tile<1xi32> -> tile<8xi32>
      %p3 = addi %p2, %lanes : tile<8xi32>
      %p4 = offset %xs, %p3 : tile<8xptr<f32>>, tile<8xi32> -> tile<8xptr<f32>>
      %p, %pt = load_ptr_tko weak %p4 token=%o : tile<8xptr<f32>> -> tile<8xf32>, token
      %b = addf %a, %p : tile<8xf32>
      continue %b : tile<8xf32>
    }
    for %i in (%zero to %trips, step %one) : tile<i32> {
      %q0 = muli %i, %width : tile<i32>
      %q1 = reshape %q0 : tile<i32> -> tile<1xi32>
      %q2 = broadcast %q1 : tile<1xi32> -> tile<8xi32>
      %q3 = addi %q2, %lanes : tile<8xi32>
      %q4 = offset %xs, %q3 : tile<8xptr<f32>>, tile<8xi32> -> tile<8xptr<f32>>
      %q, %qt = load_ptr_tko weak %q4 token=%o : tile<8xptr<f32>> -> tile<8xf32>, token
      %d = divf %q, %sums : tile<8xf32>
      print_tko "%f", %d : tile<8xf32> -> token
      continue
    }
    return
  }
}
// -----
// CHECK: for
// CHECK: load_ptr_tko
// CHECK: for
// CHECK: load_ptr_tko
cuda_tile.module @m {
  entry @leaves_loops_of_unknown_length(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %n: tile<i32>) {
    %o = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %width = constant <i32: 8> : tile<i32>
    %trips = assume div_by<1>, %n : tile<i32>
    %lanes = iota : tile<8xi32>
    %x1 = reshape %x : tile<ptr<f32>> -> tile<1xptr<f32>>
    %xs = broadcast %x1 : tile<1xptr<f32>> -> tile<8xptr<f32>>
    %none = constant <f32: 0.0> : tile<8xf32>
    %sums = for %i in (%zero to %trips, step %one) : tile<i32> iter_values(%a = %none)
        -> (tile<8xf32>) {
      %p0 = muli %i, %width : tile<i32>
      %p1 = reshape %p0 : tile<i32> -> tile<1xi32>
      %p2 = broadcast %p1 : tile<1xi32> -> tile<8xi32>
      %p3 = addi %p2, %lanes : tile<8xi32>
      %p4 = offset %xs, %p3 : tile<8xptr<f32>>, tile<8xi32> -> tile<8xptr<f32>>
      %p, %pt = load_ptr_tko weak %p4 token=%o : tile<8xptr<f32>> -> tile<8xf32>, token
      %b = addf %a, %p : tile<8xf32>
      continue %b : tile<8xf32>
    }
    for %i in (%zero to %trips, step %one) : tile<i32> {
      %q0 = muli %i, %width : tile<i32>
      %q1 = reshape %q0 : tile<i32> -> tile<1xi32>
      %q2 = broadcast %q1 : tile<1xi32> -> tile<8xi32>
      %q3 = addi %q2, %lanes : tile<8xi32>
      %q4 = offset %xs, %q3 : tile<8xptr<f32>>, tile<8xi32> -> tile<8xptr<f32>>
      %q, %qt = load_ptr_tko weak %q4 token=%o : tile<8xptr<f32>> -> tile<8xf32>, token
      %d = divf %q, %sums : tile<8xf32>
      print_tko "%f", %d : tile<8xf32> -> token
      continue
    }
    return
  }
}

// RUN: canonicalize,uplift-while-to-for
// CHECK-NOT: loop iter_values
// CHECK: %[[FOR:.*]] = for %{{.*}} in (%arg0 to %arg1, step %{{.*}}) : tile<i32> iter_values(
// CHECK-NEXT: %[[SUM:.*]] = addi
// CHECK-NEXT: continue %[[SUM]]
// CHECK: %[[END:.*]] = maxi %arg0, %arg1 signed
// CHECK: print_tko "%d %d", %[[END]], %[[FOR]]
cuda_tile.module @m {
  entry @counts_to_a_bound(%first: tile<i32>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %end:2 = loop iter_values(%i = %first, %s = %zero) : tile<i32>, tile<i32> -> tile<i32>, tile<i32> {
      %more = cmpi less_than %i, %n, signed : tile<i32> -> tile<i1>
      if %more {
      } else {
        break %i, %s : tile<i32>, tile<i32>
      }
      %t = addi %s, %i : tile<i32>
      %j = addi %i, %one : tile<i32>
      continue %j, %t : tile<i32>, tile<i32>
    }
    print_tko "%d %d", %end#0, %end#1 : tile<i32>, tile<i32> -> token
    return
  }
}
// -----
// CHECK: divi
// CHECK: for unsigned %{{.*}} in (%cst_0_i32 to %0, step %cst_2_i32)
// CHECK: if
// CHECK-NEXT: continue
// CHECK-NOT: break
cuda_tile.module @m {
  entry @takes_the_bound_out_and_keeps_early_continues(%n: tile<i32>, %p: tile<i1>) {
    %zero = constant <i32: 0> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %eight = constant <i32: 8> : tile<i32>
    %end:2 = loop iter_values(%i = %zero, %s = %zero) : tile<i32>, tile<i32> -> tile<i32>, tile<i32> {
      %half = divi %n, %eight unsigned : tile<i32>
      %over = cmpi less_than_or_equal %half, %i, unsigned : tile<i32> -> tile<i1>
      if %over {
        break %zero, %s : tile<i32>, tile<i32>
      }
      %j = addi %i, %two overflow<no_wrap> : tile<i32>
      if %p {
        continue %j, %s : tile<i32>, tile<i32>
      }
      %t = addi %s, %i : tile<i32>
      continue %j, %t : tile<i32>, tile<i32>
    }
    print_tko "%d", %end#1 : tile<i32> -> token
    return
  }
}
// -----
// CHECK: loop
// CHECK-NOT: for
cuda_tile.module @m {
  entry @leaves_a_step_that_may_overflow(%n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %end = loop iter_values(%i = %zero) : tile<i32> -> tile<i32> {
      %more = cmpi less_than %i, %n, signed : tile<i32> -> tile<i1>
      if %more {
      } else {
        break %i : tile<i32>
      }
      print_tko "%d", %i : tile<i32> -> token
      %j = addi %i, %two : tile<i32>
      continue %j : tile<i32>
    }
    return
  }
}
// -----
// CHECK: loop
// CHECK-NOT: for
cuda_tile.module @m {
  entry @leaves_a_second_break(%n: tile<i32>, %p: tile<i1>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %end = loop iter_values(%i = %zero) : tile<i32> -> tile<i32> {
      %more = cmpi less_than %i, %n, signed : tile<i32> -> tile<i1>
      if %more {
      } else {
        break %i : tile<i32>
      }
      print_tko "%d", %i : tile<i32> -> token
      if %p {
        break %zero : tile<i32>
      }
      %j = addi %i, %one : tile<i32>
      continue %j : tile<i32>
    }
    return
  }
}
// -----
// CHECK: loop
// CHECK-NOT: for
cuda_tile.module @m {
  entry @leaves_a_bound_that_changes(%n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %end:2 = loop iter_values(%i = %zero, %m = %n) : tile<i32>, tile<i32> -> tile<i32>, tile<i32> {
      %more = cmpi less_than %i, %m, signed : tile<i32> -> tile<i1>
      if %more {
      } else {
        break %i, %m : tile<i32>, tile<i32>
      }
      print_tko "%d", %i : tile<i32> -> token
      %j = addi %i, %one : tile<i32>
      %k = subi %m, %one : tile<i32>
      continue %j, %k : tile<i32>, tile<i32>
    }
    return
  }
}
// -----
// CHECK: loop
// CHECK-NOT: for
cuda_tile.module @m {
  entry @leaves_what_prints_before_it_asks(%n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %end = loop iter_values(%i = %zero) : tile<i32> -> tile<i32> {
      print_tko "%d", %i : tile<i32> -> token
      %more = cmpi less_than %i, %n, signed : tile<i32> -> tile<i1>
      if %more {
      } else {
        break %i : tile<i32>
      }
      %j = addi %i, %one : tile<i32>
      continue %j : tile<i32>
    }
    return
  }
}
// -----
// CHECK: loop
// CHECK-NOT: for
cuda_tile.module @m {
  entry @leaves_what_returns(%n: tile<i32>, %p: tile<i1>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %end = loop iter_values(%i = %zero) : tile<i32> -> tile<i32> {
      %more = cmpi less_than %i, %n, signed : tile<i32> -> tile<i1>
      if %more {
      } else {
        break %i : tile<i32>
      }
      if %p {
        return
      }
      %j = addi %i, %one : tile<i32>
      continue %j : tile<i32>
    }
    return
  }
}

// RUN: ...,tileas-legalize-reduce
// rows_of_four_warps_are_combined_in_registers_then_lanes_then_registers_again
// CHECK: nv_tileaa.reduce
// CHECK: steps = [#nv_tileas.combine<in = registers, strides = [1, 2, 512]>
// CHECK-SAME: #nv_tileas.combine<in = lanes, strides = [4, 8, 16, 32, 64]>
// CHECK-NEXT: #nv_tileas.regroup<layout = #[[LEFT:.*]], by = [#nv_tileas.through_smem<store = 4, load = 4
// CHECK-NEXT: #nv_tileas.combine<in = registers, strides = [1, 2]>]
// CHECK: nv_tileas.convert_layout
cuda_tile.module @m {
  entry @rows(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f32>>
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %at = make_tensor_view %a0, shape = [16, 4096], strides = [4096, 1]
      : tensor_view<16x4096xf32, strides=[4096,1]>
    %av = make_partition_view %at
      : partition_view<tile=(4x1024), tensor_view<16x4096xf32, strides=[4096,1]>>
    %bt = make_tensor_view %b, shape = [16], strides = [1] : tensor_view<16xf32, strides=[1]>
    %bv = make_partition_view %bt : partition_view<tile=(4), tensor_view<16xf32, strides=[1]>>
    %x, %tx = load_view_tko weak %av[%i, %i] token = %t
      : partition_view<tile=(4x1024), tensor_view<16x4096xf32, strides=[4096,1]>>, tile<i32>
      -> tile<4x1024xf32>, token
    %r = reduce %x dim=1 identities=[0.000000e+00 : f32]
      : tile<4x1024xf32> -> tile<4xf32> (%p: tile<f32>, %q: tile<f32>) {
      %z = addf %p, %q rounding<nearest_even> : tile<f32>
      yield %z : tile<f32>
    }
    %u = store_view_tko weak %r, %bv[%i] token = %t
      : tile<4xf32>, partition_view<tile=(4), tensor_view<16xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
// -----
// integers_of_all_lanes_are_one_instruction
// CHECK: steps = [#nv_tileas.combine<in = registers, strides = [1, 2, 128, 256]>, #nv_tileas.redux<kind = umax>]
cuda_tile.module @m {
  entry @largest(%a: tile<ptr<i32>>, %b: tile<ptr<i32>>) {
    %a0 = assume div_by<16>, %a : tile<ptr<i32>>
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %at = make_tensor_view %a0, shape = [4096], strides = [1] : tensor_view<4096xi32, strides=[1]>
    %av = make_partition_view %at : partition_view<tile=(512), tensor_view<4096xi32, strides=[1]>>
    %x, %tx = load_view_tko weak %av[%i] token = %t
      : partition_view<tile=(512), tensor_view<4096xi32, strides=[1]>>, tile<i32>
      -> tile<512xi32>, token
    %r = reduce %x dim=0 identities=[0 : i32]
      : tile<512xi32> -> tile<i32> (%p: tile<i32>, %q: tile<i32>) {
      %z = maxi %p, %q unsigned : tile<i32>
      yield %z : tile<i32>
    }
    %u = store_ptr_tko weak %b, %r token = %t : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}
// -----
// a_body_that_does_not_commute_goes_from_the_lowest_bit_to_the_highest
// CHECK: steps = [#nv_tileas.combine<in = registers, strides = [1, 2]>
// CHECK-SAME: #nv_tileas.combine<in = lanes, strides = [4, 8, 16, 32, 64],
// CHECK-NEXT: in_order>, #nv_tileas.combine<in = registers, strides = [128, 256, 512]>]
cuda_tile.module @m {
  entry @last(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f32>>
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %at = make_tensor_view %a0, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %av = make_partition_view %at : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>
    %x, %tx = load_view_tko weak %av[%i] token = %t
      : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32>
      -> tile<1024xf32>, token
    %r = reduce %x dim=0 identities=[0.000000e+00 : f32]
      : tile<1024xf32> -> tile<f32> (%p: tile<f32>, %q: tile<f32>) {
      %z = subf %p, %q rounding<nearest_even> : tile<f32>
      yield %z : tile<f32>
    }
    %u = store_ptr_tko weak %b, %r token = %t : tile<ptr<f32>>, tile<f32> -> token
    return
  }
}
// -----
// a_scan_over_warps_says_how_totals_get_about
// CHECK: nv_tileaa.scan
// CHECK: totals = #nv_tileas.regroup<layout = #{{.*}}, by = [#nv_tileas.through_smem<
cuda_tile.module @m {
  entry @sums(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f32>>
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %at = make_tensor_view %a0, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %av = make_partition_view %at : partition_view<tile=(4096), tensor_view<4096xf32, strides=[1]>>
    %x, %tx = load_view_tko weak %av[%i] token = %t
      : partition_view<tile=(4096), tensor_view<4096xf32, strides=[1]>>, tile<i32>
      -> tile<4096xf32>, token
    %r = scan %x dim=0 reverse=false identities=[0.000000e+00 : f32]
      : tile<4096xf32> -> tile<4096xf32> (%p: tile<f32>, %q: tile<f32>) {
      %z = addf %p, %q rounding<nearest_even> : tile<f32>
      yield %z : tile<f32>
    }
    %u = store_view_tko weak %r, %av[%i] token = %tx
      : tile<4096xf32>, partition_view<tile=(4096), tensor_view<4096xf32, strides=[1]>>, tile<i32>
      -> token
    return
  }
}
// -----
// leaves_a_scan_within_warps
// CHECK: nv_tileaa.scan
// CHECK-NOT: totals
cuda_tile.module @m {
  entry @sums(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f32>>
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %at = make_tensor_view %a0, shape = [64, 64], strides = [64, 1]
      : tensor_view<64x64xf32, strides=[64,1]>
    %av = make_partition_view %at
      : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %x, %tx = load_view_tko weak %av[%i, %i] token = %t
      : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32>
      -> tile<64x64xf32>, token
    %r = scan %x dim=1 reverse=false identities=[0.000000e+00 : f32]
      : tile<64x64xf32> -> tile<64x64xf32> (%p: tile<f32>, %q: tile<f32>) {
      %z = addf %p, %q rounding<nearest_even> : tile<f32>
      yield %z : tile<f32>
    }
    %u = store_view_tko weak %r, %av[%i, %i] token = %tx
      : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>,
        tile<i32> -> token
    return
  }
}
// -----
// of_the_largest_element_a_thread_finds_the_number_first
// CHECK: steps = [#nv_tileas.find<kind = maxnum>, #nv_tileas.combine<in = lanes
cuda_tile.module @m {
  entry @place(%a: tile<ptr<f32>>, %b: tile<ptr<i32>>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f32>>
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %at = make_tensor_view %a0, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %av = make_partition_view %at : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>
    %x, %tx = load_view_tko weak %av[%i] token = %t
      : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32>
      -> tile<1024xf32>, token
    %k = iota : tile<1024xi32>
    %r, %p = reduce %x, %k dim=0 identities=[0.000000e+00 : f32, 0 : i32]
      : tile<1024xf32>, tile<1024xi32> -> tile<f32>, tile<i32>
      (%u: tile<f32>, %v: tile<f32>, %m: tile<i32>, %n: tile<i32>) {
      %gt = cmpf greater_than ordered %u, %v : tile<f32> -> tile<i1>
      %eq = cmpf equal ordered %u, %v : tile<f32> -> tile<i1>
      %un = cmpf not_equal unordered %u, %u : tile<f32> -> tile<i1>
      %vn = cmpf not_equal unordered %v, %v : tile<f32> -> tile<i1>
      %uo = cmpf equal ordered %u, %u : tile<f32> -> tile<i1>
      %alone = andi %uo, %vn : tile<i1>
      %wins = ori %gt, %alone : tile<i1>
      %both = andi %un, %vn : tile<i1>
      %same = ori %eq, %both : tile<i1>
      %first = cmpi less_than %m, %n, signed : tile<i32> -> tile<i1>
      %tie = andi %same, %first : tile<i1>
      %takes = ori %wins, %tie : tile<i1>
      %w = select %takes, %u, %v : tile<i1>, tile<f32>
      %q = select %takes, %m, %n : tile<i1>, tile<i32>
      yield %w, %q : tile<f32>, tile<i32>
    }
    %s = store_ptr_tko weak %b, %p token = %t : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}
// -----
// the_last_place_is_left_to_the_body
// CHECK: steps = [#nv_tileas.combine<in = registers
cuda_tile.module @m {
  entry @place(%a: tile<ptr<f32>>, %b: tile<ptr<i32>>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f32>>
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %at = make_tensor_view %a0, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %av = make_partition_view %at : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>
    %x, %tx = load_view_tko weak %av[%i] token = %t
      : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32>
      -> tile<1024xf32>, token
    %k = iota : tile<1024xi32>
    %r, %p = reduce %x, %k dim=0 identities=[0.000000e+00 : f32, 0 : i32]
      : tile<1024xf32>, tile<1024xi32> -> tile<f32>, tile<i32>
      (%u: tile<f32>, %v: tile<f32>, %m: tile<i32>, %n: tile<i32>) {
      %gt = cmpf greater_than ordered %u, %v : tile<f32> -> tile<i1>
      %eq = cmpf equal ordered %u, %v : tile<f32> -> tile<i1>
      %un = cmpf not_equal unordered %u, %u : tile<f32> -> tile<i1>
      %vn = cmpf not_equal unordered %v, %v : tile<f32> -> tile<i1>
      %uo = cmpf equal ordered %u, %u : tile<f32> -> tile<i1>
      %alone = andi %uo, %vn : tile<i1>
      %wins = ori %gt, %alone : tile<i1>
      %both = andi %un, %vn : tile<i1>
      %same = ori %eq, %both : tile<i1>
      %first = cmpi greater_than %m, %n, signed : tile<i32> -> tile<i1>
      %tie = andi %same, %first : tile<i1>
      %takes = ori %wins, %tie : tile<i1>
      %w = select %takes, %u, %v : tile<i1>, tile<f32>
      %q = select %takes, %m, %n : tile<i1>, tile<i32>
      yield %w, %q : tile<f32>, tile<i32>
    }
    %s = store_ptr_tko weak %b, %p token = %t : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}
// -----
// a_reduction_of_what_is_scanned_is_the_end_of_the_scan
// CHECK-NOT: nv_tileaa.reduce
// CHECK: %[[S:.*]] = nv_tileaa.scan
// CHECK-NOT: nv_tileaa.reduce
// CHECK: nv_tileas.scan_total %[[S]] : tensor<64x64xf32, #{{.*}}> -> tensor<64xf32, #
cuda_tile.module @m {
  entry @sums(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f32>>
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %at = make_tensor_view %a0, shape = [64, 64], strides = [64, 1]
      : tensor_view<64x64xf32, strides=[64,1]>
    %av = make_partition_view %at
      : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %bt = make_tensor_view %b, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
    %bv = make_partition_view %bt : partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>
    %x, %tx = load_view_tko weak %av[%i, %i] token = %t
      : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32>
      -> tile<64x64xf32>, token
    %s = reduce %x dim=1 identities=[0.000000e+00 : f32]
      : tile<64x64xf32> -> tile<64xf32> (%p: tile<f32>, %q: tile<f32>) {
      %z = addf %p, %q rounding<nearest_even> : tile<f32>
      yield %z : tile<f32>
    }
    %r = scan %x dim=1 reverse=true identities=[0.000000e+00 : f32]
      : tile<64x64xf32> -> tile<64x64xf32> (%p: tile<f32>, %q: tile<f32>) {
      %z = addf %p, %q rounding<nearest_even> : tile<f32>
      yield %z : tile<f32>
    }
    %u = store_view_tko weak %r, %av[%i, %i] token = %tx
      : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>,
        tile<i32> -> token
    %v = store_view_tko weak %s, %bv[%i] token = %t
      : tile<64xf32>, partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>, tile<i32>
      -> token
    return
  }
}
// -----
// a_reduction_by_another_body_has_its_own_steps
// CHECK: nv_tileaa.scan
// CHECK-NOT: scan_total
// CHECK: nv_tileaa.reduce
// CHECK: steps = [
cuda_tile.module @m {
  entry @sums(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f32>>
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %at = make_tensor_view %a0, shape = [64, 64], strides = [64, 1]
      : tensor_view<64x64xf32, strides=[64,1]>
    %av = make_partition_view %at
      : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %bt = make_tensor_view %b, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
    %bv = make_partition_view %bt : partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>
    %x, %tx = load_view_tko weak %av[%i, %i] token = %t
      : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32>
      -> tile<64x64xf32>, token
    %r = scan %x dim=1 reverse=false identities=[0.000000e+00 : f32]
      : tile<64x64xf32> -> tile<64x64xf32> (%p: tile<f32>, %q: tile<f32>) {
      %z = addf %p, %q rounding<nearest_even> : tile<f32>
      yield %z : tile<f32>
    }
    %s = reduce %x dim=1 identities=[0.000000e+00 : f32]
      : tile<64x64xf32> -> tile<64xf32> (%p: tile<f32>, %q: tile<f32>) {
      %z = subf %p, %q rounding<nearest_even> : tile<f32>
      yield %z : tile<f32>
    }
    %u = store_view_tko weak %r, %av[%i, %i] token = %tx
      : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>,
        tile<i32> -> token
    %v = store_view_tko weak %s, %bv[%i] token = %t
      : tile<64xf32>, partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>, tile<i32>
      -> token
    return
  }
}
// -----
// what_is_scanned_from_the_end_is_combined_in_another_order
// CHECK: nv_tileaa.scan
// CHECK-NOT: scan_total
// CHECK: nv_tileaa.reduce
// CHECK: steps = [
cuda_tile.module @m {
  entry @sums(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f32>>
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %at = make_tensor_view %a0, shape = [64, 64], strides = [64, 1]
      : tensor_view<64x64xf32, strides=[64,1]>
    %av = make_partition_view %at
      : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %bt = make_tensor_view %b, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
    %bv = make_partition_view %bt : partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>
    %x, %tx = load_view_tko weak %av[%i, %i] token = %t
      : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32>
      -> tile<64x64xf32>, token
    %r = scan %x dim=1 reverse=true identities=[0.000000e+00 : f32]
      : tile<64x64xf32> -> tile<64x64xf32> (%p: tile<f32>, %q: tile<f32>) {
      %z = subf %p, %q rounding<nearest_even> : tile<f32>
      yield %z : tile<f32>
    }
    %s = reduce %x dim=1 identities=[0.000000e+00 : f32]
      : tile<64x64xf32> -> tile<64xf32> (%p: tile<f32>, %q: tile<f32>) {
      %z = subf %p, %q rounding<nearest_even> : tile<f32>
      yield %z : tile<f32>
    }
    %u = store_view_tko weak %r, %av[%i, %i] token = %tx
      : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>,
        tile<i32> -> token
    %v = store_view_tko weak %s, %bv[%i] token = %t
      : tile<64xf32>, partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>, tile<i32>
      -> token
    return
  }
}

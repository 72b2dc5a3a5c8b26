// RUN: canonicalize,cse,convert-cudatile-to-tileaa,hoist-loads
// reads_both_in_one_trip
// CHECK: nv_tileaa.load
// CHECK: nv_tileaa.tiled_load
// CHECK: nv_tileaa.if
// CHECK-NOT: nv_tileaa.tiled_load
cuda_tile.module @m {
  entry @turns(%a: tile<ptr<f32>>, %p: tile<ptr<i32>>) {
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %x = constant <f32: 1.0> : tile<64xf32>
    %at = make_tensor_view %a, shape = [100], strides = [1] : tensor_view<100xf32, strides=[1]>
    %av = make_partition_view %at : partition_view<tile=(64), tensor_view<100xf32, strides=[1]>>
    %n, %tn = load_ptr_tko weak %p token = %t : tile<ptr<i32>> -> tile<i32>, token
    %c = cmpi equal %n, %i, signed : tile<i32> -> tile<i1>
    if %c {
      %s = store_view_tko weak %x, %av[%i] token = %t
        : tile<64xf32>, partition_view<tile=(64), tensor_view<100xf32, strides=[1]>>, tile<i32> -> token
    } else {
      %o, %to = load_view_tko weak %av[%i] token = %t
        : partition_view<tile=(64), tensor_view<100xf32, strides=[1]>>, tile<i32> -> tile<64xf32>, token
      %y = addf %o, %x : tile<64xf32>
      %s = store_view_tko weak %y, %av[%i] token = %to
        : tile<64xf32>, partition_view<tile=(64), tensor_view<100xf32, strides=[1]>>, tile<i32> -> token
    }
    return
  }
}
// -----
// leaves_what_the_other_side_does_not_access
// CHECK: nv_tileaa.if
// CHECK: nv_tileaa.tiled_load
cuda_tile.module @m {
  entry @other(%a: tile<ptr<f32>>, %p: tile<ptr<i32>>) {
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %j = constant <i32: 1> : tile<i32>
    %x = constant <f32: 1.0> : tile<64xf32>
    %at = make_tensor_view %a, shape = [100], strides = [1] : tensor_view<100xf32, strides=[1]>
    %av = make_partition_view %at : partition_view<tile=(64), tensor_view<100xf32, strides=[1]>>
    %n, %tn = load_ptr_tko weak %p token = %t : tile<ptr<i32>> -> tile<i32>, token
    %c = cmpi equal %n, %i, signed : tile<i32> -> tile<i1>
    if %c {
      %s = store_view_tko weak %x, %av[%j] token = %t
        : tile<64xf32>, partition_view<tile=(64), tensor_view<100xf32, strides=[1]>>, tile<i32> -> token
    } else {
      %o, %to = load_view_tko weak %av[%i] token = %t
        : partition_view<tile=(64), tensor_view<100xf32, strides=[1]>>, tile<i32> -> tile<64xf32>, token
      %y = addf %o, %x : tile<64xf32>
      %s = store_view_tko weak %y, %av[%i] token = %to
        : tile<64xf32>, partition_view<tile=(64), tensor_view<100xf32, strides=[1]>>, tile<i32> -> token
    }
    return
  }
}
// -----
// leaves_a_load_that_is_ordered_after_a_store_of_its_side
// CHECK: nv_tileaa.if
// CHECK: nv_tileaa.tiled_store
// CHECK: nv_tileaa.tiled_load
cuda_tile.module @m {
  entry @ordered(%a: tile<ptr<f32>>, %p: tile<ptr<i32>>) {
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %x = constant <f32: 1.0> : tile<64xf32>
    %at = make_tensor_view %a, shape = [100], strides = [1] : tensor_view<100xf32, strides=[1]>
    %av = make_partition_view %at : partition_view<tile=(64), tensor_view<100xf32, strides=[1]>>
    %n, %tn = load_ptr_tko weak %p token = %t : tile<ptr<i32>> -> tile<i32>, token
    %c = cmpi equal %n, %i, signed : tile<i32> -> tile<i1>
    if %c {
      %s = store_view_tko weak %x, %av[%i] token = %t
        : tile<64xf32>, partition_view<tile=(64), tensor_view<100xf32, strides=[1]>>, tile<i32> -> token
    } else {
      %b = store_view_tko weak %x, %av[%i] token = %t
        : tile<64xf32>, partition_view<tile=(64), tensor_view<100xf32, strides=[1]>>, tile<i32> -> token
      %o, %to = load_view_tko weak %av[%i] token = %b
        : partition_view<tile=(64), tensor_view<100xf32, strides=[1]>>, tile<i32> -> tile<64xf32>, token
      %y = addf %o, %x : tile<64xf32>
      %s = store_view_tko weak %y, %av[%i] token = %to
        : tile<64xf32>, partition_view<tile=(64), tensor_view<100xf32, strides=[1]>>, tile<i32> -> token
    }
    return
  }
}
// -----
// leaves_a_branch_whose_condition_is_known_without_memory
// CHECK: nv_tileaa.if
// CHECK: nv_tileaa.tiled_load
cuda_tile.module @m {
  entry @known(%a: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %x = constant <f32: 1.0> : tile<64xf32>
    %at = make_tensor_view %a, shape = [100], strides = [1] : tensor_view<100xf32, strides=[1]>
    %av = make_partition_view %at : partition_view<tile=(64), tensor_view<100xf32, strides=[1]>>
    %c = cmpi equal %n, %i, signed : tile<i32> -> tile<i1>
    if %c {
      %s = store_view_tko weak %x, %av[%i] token = %t
        : tile<64xf32>, partition_view<tile=(64), tensor_view<100xf32, strides=[1]>>, tile<i32> -> token
    } else {
      %o, %to = load_view_tko weak %av[%i] token = %t
        : partition_view<tile=(64), tensor_view<100xf32, strides=[1]>>, tile<i32> -> tile<64xf32>, token
      %y = addf %o, %x : tile<64xf32>
      %s = store_view_tko weak %y, %av[%i] token = %to
        : tile<64xf32>, partition_view<tile=(64), tensor_view<100xf32, strides=[1]>>, tile<i32> -> token
    }
    return
  }
}
// -----
// loads_what_is_small_and_known_in_front_of_products
// CHECK: nv_tileaa.tiled_load
// CHECK: nv_tileaa.tiled_load
// CHECK: nv_tileaa.dot
// CHECK: nv_tileaa.dot
cuda_tile.module @m {
  entry @twice(%a: tile<ptr<f16>>, %x: tile<ptr<f16>>, %c: tile<ptr<f32>>) {
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %zero16 = constant <f32: 0.0> : tile<16x16xf32>
    %zero = constant <f32: 0.0> : tile<32x16xf32>
    %at = make_tensor_view %a, shape = [32, 16], strides = [16, 1] : tensor_view<32x16xf16, strides=[16,1]>
    %xt = make_tensor_view %x, shape = [16, 16], strides = [16, 1] : tensor_view<16x16xf16, strides=[16,1]>
    %ct = make_tensor_view %c, shape = [32, 16], strides = [16, 1] : tensor_view<32x16xf32, strides=[16,1]>
    %av = make_partition_view %at : partition_view<tile=(32x16), tensor_view<32x16xf16, strides=[16,1]>>
    %xv = make_partition_view %xt : partition_view<tile=(16x16), tensor_view<16x16xf16, strides=[16,1]>>
    %cv = make_partition_view %ct : partition_view<tile=(32x16), tensor_view<32x16xf32, strides=[16,1]>>
    %l, %tl = load_view_tko weak %xv[%i, %i] token = %t
      : partition_view<tile=(16x16), tensor_view<16x16xf16, strides=[16,1]>>, tile<i32> -> tile<16x16xf16>, token
    %d = mmaf %l, %l, %zero16 : tile<16x16xf16>, tile<16x16xf16>, tile<16x16xf32>
    %n = ftof %d : tile<16x16xf32> -> tile<16x16xf16>
    %b, %tb = load_view_tko weak %av[%i, %i] token = %t : partition_view<tile=(32x16), tensor_view<32x16xf16, strides=[16,1]>>, tile<i32> -> tile<32x16xf16>, token
    %e = mmaf %b, %n, %zero : tile<32x16xf16>, tile<16x16xf16>, tile<32x16xf32>
    %s = store_view_tko weak %e, %cv[%i, %i] token = %t
      : tile<32x16xf32>, partition_view<tile=(32x16), tensor_view<32x16xf32, strides=[16,1]>>, tile<i32> -> token
    return
  }
}
// -----
// leaves_large_tiles_behind_products
// CHECK: nv_tileaa.tiled_load
// CHECK: nv_tileaa.dot
// CHECK: nv_tileaa.tiled_load
// CHECK: nv_tileaa.dot
cuda_tile.module @m {
  entry @twice(%a: tile<ptr<f16>>, %x: tile<ptr<f16>>, %c: tile<ptr<f32>>) {
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %zero16 = constant <f32: 0.0> : tile<16x16xf32>
    %zero = constant <f32: 0.0> : tile<64x16xf32>
    %at = make_tensor_view %a, shape = [64, 16], strides = [16, 1] : tensor_view<64x16xf16, strides=[16,1]>
    %xt = make_tensor_view %x, shape = [16, 16], strides = [16, 1] : tensor_view<16x16xf16, strides=[16,1]>
    %ct = make_tensor_view %c, shape = [64, 16], strides = [16, 1] : tensor_view<64x16xf32, strides=[16,1]>
    %av = make_partition_view %at : partition_view<tile=(64x16), tensor_view<64x16xf16, strides=[16,1]>>
    %xv = make_partition_view %xt : partition_view<tile=(16x16), tensor_view<16x16xf16, strides=[16,1]>>
    %cv = make_partition_view %ct : partition_view<tile=(64x16), tensor_view<64x16xf32, strides=[16,1]>>
    %l, %tl = load_view_tko weak %xv[%i, %i] token = %t
      : partition_view<tile=(16x16), tensor_view<16x16xf16, strides=[16,1]>>, tile<i32> -> tile<16x16xf16>, token
    %d = mmaf %l, %l, %zero16 : tile<16x16xf16>, tile<16x16xf16>, tile<16x16xf32>
    %n = ftof %d : tile<16x16xf32> -> tile<16x16xf16>
    %b, %tb = load_view_tko weak %av[%i, %i] token = %t : partition_view<tile=(64x16), tensor_view<64x16xf16, strides=[16,1]>>, tile<i32> -> tile<64x16xf16>, token
    %e = mmaf %b, %n, %zero : tile<64x16xf16>, tile<16x16xf16>, tile<64x16xf32>
    %s = store_view_tko weak %e, %cv[%i, %i] token = %t
      : tile<64x16xf32>, partition_view<tile=(64x16), tensor_view<64x16xf32, strides=[16,1]>>, tile<i32> -> token
    return
  }
}

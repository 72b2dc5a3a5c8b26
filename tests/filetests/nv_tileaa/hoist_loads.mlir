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

// RUN: canonicalize,cse,convert-cudatile-to-tileaa,choose-strategy,tileas-plan-cta,tileas-assign-dot-layouts,tileas-assign-load-store-layouts,tileas-assign-warp-roles,convert-tileaa-to-tileas,tileas-hoist-layout-conversions
// converts_once_what_both_branches_store
// CHECK: %[[STORED:.*]] = nv_tileas.convert_layout %tile
// CHECK-NEXT: nv_tileaa.if
// CHECK-NEXT: nv_tileas.tiled_store %[[STORED]]
// CHECK: nv_tileas.tiled_store %[[STORED]]
cuda_tile.module @m {
  entry @both(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %lock: tile<ptr<i32>>, %n: tile<i32>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f32>>
    %b0 = assume div_by<16>, %b : tile<ptr<f32>>
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = cmpi equal %n, %one, signed : tile<i32> -> tile<i1>
    %at = make_tensor_view %a0, shape = [64, 64], strides = [1, 64] : tensor_view<64x64xf32, strides=[1,64]>
    %bt = make_tensor_view %b0, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %av = make_partition_view %at : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[1,64]>>
    %bv = make_partition_view %bt : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %x, %tx = load_view_tko weak %av[%i, %i] token = %t
      : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[1,64]>>, tile<i32> -> tile<64x64xf32>, token
    if %c {
      %s = store_view_tko weak %x, %bv[%i, %i] token = %t
        : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    } else {
      %y = exp %x : tile<64x64xf32>
      %s = store_view_tko weak %x, %bv[%i, %i] token = %t
        : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
      %u = store_view_tko weak %y, %bv[%i, %i] token = %s
        : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    }
    return
  }
}
// -----
// leaves_in_its_branch_what_the_other_does_not_need
// CHECK-NOT: nv_tileas.convert_layout
// CHECK: nv_tileaa.if
// CHECK-NEXT: nv_tileas.convert_layout %tile
cuda_tile.module @m {
  entry @one(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %lock: tile<ptr<i32>>, %n: tile<i32>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f32>>
    %b0 = assume div_by<16>, %b : tile<ptr<f32>>
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = cmpi equal %n, %one, signed : tile<i32> -> tile<i1>
    %at = make_tensor_view %a0, shape = [64, 64], strides = [1, 64] : tensor_view<64x64xf32, strides=[1,64]>
    %bt = make_tensor_view %b0, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %av = make_partition_view %at : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[1,64]>>
    %bv = make_partition_view %bt : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %x, %tx = load_view_tko weak %av[%i, %i] token = %t
      : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[1,64]>>, tile<i32> -> tile<64x64xf32>, token
    if %c {
      %s = store_view_tko weak %x, %bv[%i, %i] token = %t
        : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    }
    return
  }
}
// -----
// converts_before_it_waits_for_a_lock
// CHECK: nv_tileas.tiled_load
// CHECK: nv_tileas.convert_layout %tile
// CHECK: nv_tileaa.loop
// CHECK: nv_tileaa.atomic_cas
// CHECK-NOT: nv_tileas.convert_layout
// CHECK: nv_tileas.tiled_store
cuda_tile.module @m {
  entry @waits(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %lock: tile<ptr<i32>>, %n: tile<i32>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f32>>
    %b0 = assume div_by<16>, %b : tile<ptr<f32>>
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = cmpi equal %n, %one, signed : tile<i32> -> tile<i1>
    %at = make_tensor_view %a0, shape = [64, 64], strides = [1, 64] : tensor_view<64x64xf32, strides=[1,64]>
    %bt = make_tensor_view %b0, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %av = make_partition_view %at : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[1,64]>>
    %bv = make_partition_view %bt : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %x, %tx = load_view_tko weak %av[%i, %i] token = %t
      : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[1,64]>>, tile<i32> -> tile<64x64xf32>, token
    %held = loop iter_values(%w = %t) : token -> token {
      %old, %taken = atomic_cas_tko acquire device %lock, %i, %one token=%w
        : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
      %busy = cmpi equal %old, %one, signed : tile<i32> -> tile<i1>
      if %busy {
      } else {
        break %taken : token
      }
      continue %taken : token
    }
    if %c {
      %s = store_view_tko weak %x, %bv[%i, %i] token = %held
        : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    }
    return
  }
}

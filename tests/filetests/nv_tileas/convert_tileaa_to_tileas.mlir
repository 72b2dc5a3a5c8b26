// RUN: canonicalize,cse,convert-cudatile-to-tileaa,choose-strategy,tileas-plan-cta,tileas-assign-dot-layouts,tileas-assign-load-store-layouts,tileas-assign-warp-roles,convert-tileaa-to-tileas
// converts_where_two_layouts_meet
// CHECK: %tile, %{{.*}} = nv_tileas.tiled_load
// CHECK: nv_tileas.convert_layout %tile : tensor<64x64xf32, #blocked0> -> tensor<64x64xf32, #blocked1>
// CHECK-NEXT: nv_tileas.tiled_store
// CHECK-NOT: access =
// CHECK-NOT: layouts =
cuda_tile.module @m {
  entry @transposed(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f32>>
    %b0 = assume div_by<16>, %b : tile<ptr<f32>>
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %at = make_tensor_view %a0, shape = [1024, 1024], strides = [1, 1024] : tensor_view<1024x1024xf32, strides=[1,1024]>
    %bt = make_tensor_view %b0, shape = [1024, 1024], strides = [1024, 1] : tensor_view<1024x1024xf32, strides=[1024,1]>
    %av = make_partition_view %at : partition_view<tile=(64x64), tensor_view<1024x1024xf32, strides=[1,1024]>>
    %bv = make_partition_view %bt : partition_view<tile=(64x64), tensor_view<1024x1024xf32, strides=[1024,1]>>
    %x, %tx = load_view_tko weak %av[%i, %i] token = %t
      : partition_view<tile=(64x64), tensor_view<1024x1024xf32, strides=[1,1024]>>, tile<i32>
      -> tile<64x64xf32>, token
    %s = store_view_tko weak %x, %bv[%i, %i] token = %t
      : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<1024x1024xf32, strides=[1024,1]>>, tile<i32>
      -> token
    return
  }
}
// -----
// computes_again_what_is_marked
// CHECK: nv_tileaa.addi %{{.*}} : tensor<64xi32, #blocked1>
// CHECK: nv_tileaa.make_range : tensor<64xi32, #[[ROWS:linear[0-9]]]>
// CHECK: nv_tileaa.addi %{{.*}} : tensor<64xi32, #[[ROWS]]>
// CHECK: nv_tileaa.reshape %{{.*}} : tensor<64xi32, #[[ROWS]]>
// CHECK: nv_tileaa.reduce
// CHECK: nv_tileas.convert_layout
// CHECK-NEXT: nv_tileas.tiled_store
cuda_tile.module @m {
  entry @positions(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %n: tile<i32>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f32>>
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %at = make_tensor_view %a0, shape = [1024, 1024], strides = [1024, 1] : tensor_view<1024x1024xf32, strides=[1024,1]>
    %bt = make_tensor_view %b, shape = [1024], strides = [1] : tensor_view<1024xf32, strides=[1]>
    %av = make_partition_view %at : partition_view<tile=(64x64), tensor_view<1024x1024xf32, strides=[1024,1]>>
    %bv = make_partition_view %bt : partition_view<tile=(64), tensor_view<1024xf32, strides=[1]>>
    %x, %tx = load_view_tko weak %av[%i, %i] token = %t
      : partition_view<tile=(64x64), tensor_view<1024x1024xf32, strides=[1024,1]>>, tile<i32>
      -> tile<64x64xf32>, token
    %r = iota : tile<64xi32>
    %n1 = reshape %n : tile<i32> -> tile<1xi32>
    %nn = broadcast %n1 : tile<1xi32> -> tile<64xi32>
    %p = addi %r, %nn : tile<64xi32>
    %column = reshape %p : tile<64xi32> -> tile<64x1xi32>
    %wide = broadcast %column : tile<64x1xi32> -> tile<64x64xi32>
    %f = itof %wide signed : tile<64x64xi32> -> tile<64x64xf32>
    %y = mulf %x, %f : tile<64x64xf32>
    %sum = reduce %y dim=1 identities=[0.0 : f32] : tile<64x64xf32> -> tile<64xf32>
      (%e: tile<f32>, %acc: tile<f32>) {
        %added = addf %e, %acc : tile<f32>
        yield %added : tile<f32>
      }
    %s = store_view_tko weak %sum, %bv[%i] token = %t
      : tile<64xf32>, partition_view<tile=(64), tensor_view<1024xf32, strides=[1]>>, tile<i32>
      -> token
    return
  }
}
// -----
// converts_what_was_computed_from_loads
// CHECK: %[[SUM:.*]] = nv_tileaa.addf
// CHECK-NEXT: nv_tileas.convert_layout %[[SUM]]
// CHECK-NOT: nv_tileaa.addf
cuda_tile.module @m {
  entry @loaded(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f32>>
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %at = make_tensor_view %a0, shape = [1024, 1024], strides = [1024, 1] : tensor_view<1024x1024xf32, strides=[1024,1]>
    %bt = make_tensor_view %b, shape = [1024], strides = [1] : tensor_view<1024xf32, strides=[1]>
    %av = make_partition_view %at : partition_view<tile=(64x64), tensor_view<1024x1024xf32, strides=[1024,1]>>
    %bv = make_partition_view %bt : partition_view<tile=(64), tensor_view<1024xf32, strides=[1]>>
    %x, %tx = load_view_tko weak %av[%i, %i] token = %t
      : partition_view<tile=(64x64), tensor_view<1024x1024xf32, strides=[1024,1]>>, tile<i32>
      -> tile<64x64xf32>, token
    %v, %tv = load_view_tko weak %bv[%i] token = %t
      : partition_view<tile=(64), tensor_view<1024xf32, strides=[1]>>, tile<i32>
      -> tile<64xf32>, token
    %p = addf %v, %v : tile<64xf32>
    %column = reshape %p : tile<64xf32> -> tile<64x1xf32>
    %wide = broadcast %column : tile<64x1xf32> -> tile<64x64xf32>
    %y = mulf %x, %wide : tile<64x64xf32>
    %s = store_view_tko weak %y, %av[%i, %i] token = %tx
      : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<1024x1024xf32, strides=[1024,1]>>, tile<i32>
      -> token
    return
  }
}

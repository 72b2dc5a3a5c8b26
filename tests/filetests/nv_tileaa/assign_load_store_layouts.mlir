// RUN: canonicalize,cse,convert-cudatile-to-tileaa,choose-strategy,tileas-plan-cta,tileas-assign-dot-layouts,tileas-assign-load-store-layouts
// gives_what_lies_between_load_and_store_one_layout
// CHECK: #blocked0 = #nv_tileas.layout<{register = {{\[\[1\], \[2\].*}}} -> 1024>
// CHECK-NOT: #blocked1
// CHECK: nv_tileaa.tiled_load
// CHECK-SAME: {access = #nv_tileas.access<vector = 4, axis = 0,
// CHECK-NEXT: layout = #blocked0>, layouts = [#blocked0]}
// CHECK: nv_tileaa.exp %tile {rounding_mode = full, layouts = [#blocked0]}
// CHECK: nv_tileaa.tiled_store
// CHECK-SAME: {access = #nv_tileas.access<vector = 4, axis = 0,
// CHECK-NEXT: layout = #blocked0>} : tensor<1024xf32>
cuda_tile.module @m {
  entry @exponentials(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f32>>
    %b0 = assume div_by<16>, %b : tile<ptr<f32>>
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %at = make_tensor_view %a0, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %bt = make_tensor_view %b0, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %av = make_partition_view %at : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>
    %bv = make_partition_view %bt : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>
    %x, %tx = load_view_tko weak %av[%i] token = %t
      : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32>
      -> tile<1024xf32>, token
    %y = exp %x : tile<1024xf32>
    %s = store_view_tko weak %y, %bv[%i] token = %t
      : tile<1024xf32>, partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32>
      -> token
    return
  }
}
// -----
// stores_coalesced_what_was_loaded_the_other_way
// CHECK: #blocked0 = #nv_tileas.layout<{register = {{\[\[1, 0\], \[2, 0\]}}
// CHECK: #blocked1 = #nv_tileas.layout<{register = {{\[\[0, 1\], \[0, 2\]}}
// CHECK: %tile, %{{.*}} = nv_tileaa.tiled_load
// CHECK-NEXT: {access = #nv_tileas.access<vector = 4, axis = 0, layout = #blocked0>, layouts = [#blocked0]}
// CHECK: nv_tileaa.tiled_store %tile
// CHECK-NEXT: {access = #nv_tileas.access<vector = 4, axis = 1, layout = #blocked1>}
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
// computes_indices_again_where_two_layouts_meet
// CHECK: nv_tileaa.addi %{{.*}} {layouts = [#blocked1], rematerialize} : tensor<64xi32>
// CHECK: nv_tileaa.mulf %tile, %{{.*}} {layouts = [#blocked0]}
// CHECK: nv_tileaa.reduce
// CHECK: {operand_layouts = [#blocked0], layouts = [#linear0]}
// CHECK: nv_tileaa.tiled_store
// CHECK-NEXT: layout = #blocked1>} : tensor<64xf32>
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
// computes_nothing_that_was_loaded_again
// CHECK: nv_tileaa.addf %{{.*}} {layouts = [#{{.*}}]} : tensor<64xf32>
// CHECK-NOT: rematerialize
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
// -----
// leaves_a_kernel_without_tensors_as_it_is
// CHECK: nv_tileaa.print
// CHECK-NOT: layouts
cuda_tile.module @m {
  entry @scalars(%x: tile<i32>) {
    print_tko "%d", %x : tile<i32> -> token
    return
  }
}
// -----
// keeps_both_parts_of_a_pair_in_a_thread
// CHECK: register = {{\[\[0, 0, 1\], \[4, 0, 0\]}}
// CHECK: #nv_tileas.access<vector = 1, axis = 2
cuda_tile.module @m {
  entry @pairs(%a: tile<ptr<f16>>, %s0: tile<i32>, %s1: tile<i32>, %out: tile<ptr<f16>>) {
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %at = make_tensor_view %a, shape = [64, 64, 2], strides = [%s0, %s1, 1] : tile<i32> -> tensor_view<64x64x2xf16, strides=[?,?,1]>
    %av = make_partition_view %at : partition_view<tile=(64x64x2), tensor_view<64x64x2xf16, strides=[?,?,1]>>
    %ot = make_tensor_view %out, shape = [64, 64, 1], strides = [64, 1, 1] : tensor_view<64x64x1xf16, strides=[64,1,1]>
    %ov = make_partition_view %ot : partition_view<tile=(64x64x1), tensor_view<64x64x1xf16, strides=[64,1,1]>>
    %x, %tx = load_view_tko weak %av[%i, %i, %i] token = %t
      : partition_view<tile=(64x64x2), tensor_view<64x64x2xf16, strides=[?,?,1]>>, tile<i32>
      -> tile<64x64x2xf16>, token
    %re = extract %x[%i, %i, %i] : tile<64x64x2xf16> -> tile<64x64x1xf16>
    %im = extract %x[%i, %i, %one] : tile<64x64x2xf16> -> tile<64x64x1xf16>
    %sum = addf %re, %im : tile<64x64x1xf16>
    %w = store_view_tko weak %sum, %ov[%i, %i, %i] token = %tx
      : tile<64x64x1xf16>, partition_view<tile=(64x64x1), tensor_view<64x64x1xf16, strides=[64,1,1]>>, tile<i32>
      -> token
    return
  }
}
// -----
// leaves_pairs_that_are_read_whole_to_neighbouring_lanes
// CHECK: lane = {{\[\[0, 0, 1\], \[0, 1, 0\]}}
cuda_tile.module @m {
  entry @first(%a: tile<ptr<f16>>, %s0: tile<i32>, %s1: tile<i32>, %out: tile<ptr<f16>>) {
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %at = make_tensor_view %a, shape = [64, 64, 2], strides = [%s0, %s1, 1] : tile<i32> -> tensor_view<64x64x2xf16, strides=[?,?,1]>
    %av = make_partition_view %at : partition_view<tile=(64x64x2), tensor_view<64x64x2xf16, strides=[?,?,1]>>
    %ot = make_tensor_view %out, shape = [64, 64, 1], strides = [64, 1, 1] : tensor_view<64x64x1xf16, strides=[64,1,1]>
    %ov = make_partition_view %ot : partition_view<tile=(64x64x1), tensor_view<64x64x1xf16, strides=[64,1,1]>>
    %x, %tx = load_view_tko weak %av[%i, %i, %i] token = %t
      : partition_view<tile=(64x64x2), tensor_view<64x64x2xf16, strides=[?,?,1]>>, tile<i32>
      -> tile<64x64x2xf16>, token
    %re = extract %x[%i, %i, %i] : tile<64x64x2xf16> -> tile<64x64x1xf16>
    %y = addf %x, %x : tile<64x64x2xf16>
    %im = extract %y[%i, %i, %one] : tile<64x64x2xf16> -> tile<64x64x1xf16>
    %sum = addf %re, %im : tile<64x64x1xf16>
    %w = store_view_tko weak %sum, %ov[%i, %i, %i] token = %tx
      : tile<64x64x1xf16>, partition_view<tile=(64x64x1), tensor_view<64x64x1xf16, strides=[64,1,1]>>, tile<i32>
      -> token
    return
  }
}

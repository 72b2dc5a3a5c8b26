// RUN: ...,tileas-defer-reductions
// carries_the_sums_of_each_lane_and_scales_them
// CHECK: %[[SHARE:.*]] = nv_tileaa.mulf
// CHECK: %[[OWN:.*]] = nv_tileaa.for {{.*}} iter_args(%{{.*}} = %[[SHARE]]) -> (tensor<16x32xf32
// CHECK: nv_tileaa.reduce {{.*}} dim 2
// CHECK: -> tensor<16x32xf32
// CHECK: nv_tileaa.fma
// CHECK-NEXT: nv_tileaa.continue
// CHECK: nv_tileaa.reduce (%[[OWN]]) dim 1
// CHECK: nv_tileas.tiled_store
cuda_tile.module @m {
  entry @rows(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %n: tile<i32>, %f: tile<f32>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f32>>
    %t = make_token : token
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %zero = constant <f32: 0.0> : tile<16xf32>
    %f1 = reshape %f : tile<f32> -> tile<1xf32>
    %fade = broadcast %f1 : tile<1xf32> -> tile<16xf32>
    %av = make_tensor_view %a0, shape = [16, 1024], strides = [1024, 1] : tensor_view<16x1024xf32, strides=[1024,1]>
    %ap = make_partition_view %av : partition_view<tile=(16x128), tensor_view<16x1024xf32, strides=[1024,1]>>
    %bv = make_tensor_view %b, shape = [16], strides = [1] : tensor_view<16xf32, strides=[1]>
    %bp = make_partition_view %bv : partition_view<tile=(16), tensor_view<16xf32, strides=[1]>>
    %s = for %i in (%c0 to %n, step %c1) : tile<i32> iter_values(%sum = %zero) -> (tile<16xf32>) {
      %x, %tx = load_view_tko weak %ap[%c0, %i] token = %t
        : partition_view<tile=(16x128), tensor_view<16x1024xf32, strides=[1024,1]>>, tile<i32> -> tile<16x128xf32>, token
      %r = reduce %x dim=1 identities=[0.000000e+00 : f32] : tile<16x128xf32> -> tile<16xf32> (%p: tile<f32>, %q: tile<f32>) {
        %z = addf %p, %q rounding<nearest_even> : tile<f32>
        yield %z : tile<f32>
      }
      %y = fma %sum, %fade, %r rounding<nearest_even> : tile<16xf32>
      continue %y : tile<16xf32>
    }
    %u = store_view_tko weak %s, %bp[%c0] token = %t : tile<16xf32>, partition_view<tile=(16), tensor_view<16xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
// -----
// leaves_sums_that_the_loop_reads
// CHECK: nv_tileaa.for
// CHECK: nv_tileaa.reduce {{.*}} dim 1
// CHECK: nv_tileaa.continue
// CHECK-NOT: nv_tileaa.reduce
cuda_tile.module @m {
  entry @read(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %n: tile<i32>, %f: tile<f32>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f32>>
    %t = make_token : token
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %zero = constant <f32: 0.0> : tile<16xf32>
    %f1 = reshape %f : tile<f32> -> tile<1xf32>
    %fade = broadcast %f1 : tile<1xf32> -> tile<16xf32>
    %av = make_tensor_view %a0, shape = [16, 1024], strides = [1024, 1] : tensor_view<16x1024xf32, strides=[1024,1]>
    %ap = make_partition_view %av : partition_view<tile=(16x128), tensor_view<16x1024xf32, strides=[1024,1]>>
    %bv = make_tensor_view %b, shape = [16], strides = [1] : tensor_view<16xf32, strides=[1]>
    %bp = make_partition_view %bv : partition_view<tile=(16), tensor_view<16xf32, strides=[1]>>
    %s = for %i in (%c0 to %n, step %c1) : tile<i32> iter_values(%sum = %zero) -> (tile<16xf32>) {
      %x, %tx = load_view_tko weak %ap[%c0, %i] token = %t
        : partition_view<tile=(16x128), tensor_view<16x1024xf32, strides=[1024,1]>>, tile<i32> -> tile<16x128xf32>, token
      %r = reduce %x dim=1 identities=[0.000000e+00 : f32] : tile<16x128xf32> -> tile<16xf32> (%p: tile<f32>, %q: tile<f32>) {
        %z = addf %p, %q rounding<nearest_even> : tile<f32>
        yield %z : tile<f32>
      }
      %y = fma %sum, %sum, %r rounding<nearest_even> : tile<16xf32>
      continue %y : tile<16xf32>
    }
    %u = store_view_tko weak %s, %bp[%c0] token = %t : tile<16xf32>, partition_view<tile=(16), tensor_view<16xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
// -----
// leaves_other_functions
// CHECK: nv_tileaa.for
// CHECK: nv_tileaa.reduce {{.*}} dim 1
// CHECK: nv_tileaa.continue
// CHECK-NOT: nv_tileaa.reduce
cuda_tile.module @m {
  entry @whole(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %n: tile<i32>, %f: tile<f32>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f32>>
    %t = make_token : token
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %zero = constant <f32: 0.0> : tile<16xf32>
    %f1 = reshape %f : tile<f32> -> tile<1xf32>
    %fade = broadcast %f1 : tile<1xf32> -> tile<16xf32>
    %av = make_tensor_view %a0, shape = [16, 1024], strides = [1024, 1] : tensor_view<16x1024xf32, strides=[1024,1]>
    %ap = make_partition_view %av : partition_view<tile=(16x128), tensor_view<16x1024xf32, strides=[1024,1]>>
    %bv = make_tensor_view %b, shape = [16], strides = [1] : tensor_view<16xf32, strides=[1]>
    %bp = make_partition_view %bv : partition_view<tile=(16), tensor_view<16xf32, strides=[1]>>
    %s = for %i in (%c0 to %n, step %c1) : tile<i32> iter_values(%sum = %zero) -> (tile<16xf32>) {
      %x, %tx = load_view_tko weak %ap[%c0, %i] token = %t
        : partition_view<tile=(16x128), tensor_view<16x1024xf32, strides=[1024,1]>>, tile<i32> -> tile<16x128xf32>, token
      %r = reduce %x dim=1 identities=[0.000000e+00 : f32] : tile<16x128xf32> -> tile<16xf32> (%p: tile<f32>, %q: tile<f32>) {
        %z = maxf %p, %q : tile<f32>
        yield %z : tile<f32>
      }
      %y = fma %sum, %fade, %r rounding<nearest_even> : tile<16xf32>
      continue %y : tile<16xf32>
    }
    %u = store_view_tko weak %s, %bp[%c0] token = %t : tile<16xf32>, partition_view<tile=(16), tensor_view<16xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}

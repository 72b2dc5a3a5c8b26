// RUN: ...,tileas-optimize-alloc-tensor
// loops_one_after_another_have_their_buffers_in_the_same_place
// CHECK: #[[CELLS:cells0]] = #nv_tileas.thread_cells<layout = #blocked0>
// CHECK-NEXT: !smem0 = !nv_tileas.memdesc<1x64xf32, #[[CELLS]], smem>
// CHECK: %[[FIRST:.*]] = nv_tileas.alloc_tensor {stages = 5, offset = 0} : !smem0
// CHECK: nv_tileas.async_copy %view[{{.*}}] into %[[FIRST]][
// CHECK: nv_tileas.read_stage {{.*}} from %[[FIRST]][{{.*}}pending = 4
// CHECK: : !view0, !smem0 -> tensor<1x64xf32, #blocked0>
// CHECK: nv_tileaa.async_wait_group
// CHECK: nv_tileas.alloc_tensor {stages = 5, offset = 0} : !smem0
cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %rows: tile<i32>,
           %columns0: tile<i32>, %lower: tile<i32>, %tiles: tile<i32>, %by: tile<i32>)
      optimization_hints=<sm_90 = {}> {
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %p16 = assume div_by<16>, %p : tile<ptr<f32>>
    %q16 = assume div_by<16>, %q : tile<ptr<f32>>
    %columns = assume div_by<16>, %columns0 : tile<i32>
    %r, %b1, %b2 = get_tile_block_id : tile<i32>
    %xt = make_tensor_view %p16, shape = [%rows, %columns], strides = [%columns, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?, 1]>
    %u = make_partition_view %xt : partition_view<tile=(1x64), padding_value = zero, tensor_view<?x?xf32, strides=[?, 1]>>
    %yt = make_tensor_view %q16, shape = [%rows, %columns], strides = [%columns, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?, 1]>
    %w = make_partition_view %yt : partition_view<tile=(1x64), padding_value = zero, tensor_view<?x?xf32, strides=[?, 1]>>
    %none = constant <f32: 0.0> : tile<1x64xf32>
    %sum = for %j in (%lower to %tiles, step %one) : tile<i32> iter_values(%s = %none) -> (tile<1x64xf32>) {
      
      %x, %a = load_view_tko weak %u[%r, %j] token = %t  : partition_view<tile=(1x64), padding_value = zero, tensor_view<?x?xf32, strides=[?, 1]>>, tile<i32> -> tile<1x64xf32>, token
      %n = addf %s, %x : tile<1x64xf32>
      continue %n : tile<1x64xf32>
    }
    %row = reduce %sum dim=1 identities=[0.000000e+00 : f32] : tile<1x64xf32> -> tile<1xf32>
      (%l: tile<f32>, %m: tile<f32>) {
        %o = addf %l, %m : tile<f32>
        yield %o : tile<f32>
      }
    %row1 = reshape %row : tile<1xf32> -> tile<1x1xf32>
    %all = broadcast %row1 : tile<1x1xf32> -> tile<1x64xf32>
    for %j in (%lower to %tiles, step %by) : tile<i32>  {
      %x, %a = load_view_tko weak %u[%r, %j] token = %t  : partition_view<tile=(1x64), padding_value = zero, tensor_view<?x?xf32, strides=[?, 1]>>, tile<i32> -> tile<1x64xf32>, token
      %d = subf %x, %all : tile<1x64xf32>
      
      %c = store_view_tko weak %d, %w[%r, %j] token = %a
        : tile<1x64xf32>, partition_view<tile=(1x64), padding_value = zero, tensor_view<?x?xf32, strides=[?, 1]>>, tile<i32> -> token
      continue
    }
    return
  }
}

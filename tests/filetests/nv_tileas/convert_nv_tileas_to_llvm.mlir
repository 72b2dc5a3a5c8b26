// RUN: ...,convert-nv-tileas-to-llvm
// CHECK: llvm.func @writes_the_program_of_one_thread
// CHECK-NOT: nv_tileas.
// CHECK: vector<8xf32>
cuda_tile.module @m {
  entry @writes_the_program_of_one_thread(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %c1 = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %p1 = assume div_by<16>, %p : tile<ptr<f32>>
    %v = make_tensor_view %p1, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %w = make_partition_view %v : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %a, %ta = load_view_tko weak %w[%x] token = %t
      : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
    %b = addf %a, %a : tile<1024xf32>
    %s = store_view_tko weak %b, %w[%x] token = %ta
      : tile<1024xf32>, partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
// -----
// CHECK: llvm.func @keeps_scalars_scalar
// CHECK-NOT: vector<
// CHECK: llvm.return
cuda_tile.module @m {
  entry @keeps_scalars_scalar(%p: tile<ptr<i32>>, %x: tile<i32>) {
    %t = make_token : token
    %y = addi %x, %x : tile<i32>
    %s = store_ptr_tko weak %p, %y token=%t : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}

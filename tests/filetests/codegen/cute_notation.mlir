// RUN: --emit=cute --gpu-name=sm_90
// CHECK: kernel @vector_add warps 2 {
// CHECK-NEXT{LITERAL}:   #blocked0 = (64,(4,2)):(4,(1,256))  // (512)
// CHECK-NEXT{LITERAL}:   %memref = %arg0 : !cute.tensor<f32, gmem, align<16>, (?{div=4}):(1)>
// CHECK: %view = local_tile(%memref, (512))
// CHECK: %tile = cute.copy(!cute.tiled_copy<universal, 128, #blocked0, (512)>, %view(%pid_x))
// CHECK-NOT: addf
// CHECK: cute.copy(!cute.tiled_copy<universal, 128, #blocked0, (512)>, %{{.*}}, %view_2(%pid_x))
cuda_tile.module @m {
  entry @vector_add(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %c: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %a16 = assume div_by<16>, %a : tile<ptr<f32>>
    %b16 = assume div_by<16>, %b : tile<ptr<f32>>
    %c16 = assume div_by<16>, %c : tile<ptr<f32>>
    %bounded = assume bounded<0, ?>, %n : tile<i32>
    %count = assume div_by<4>, %bounded : tile<i32>
    %av = make_tensor_view %a16, shape = [%count], strides = [1]
        : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %bv = make_tensor_view %b16, shape = [%count], strides = [1]
        : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %cv = make_tensor_view %c16, shape = [%count], strides = [1]
        : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %ap = make_partition_view %av : partition_view<tile=(512), tensor_view<?xf32, strides=[1]>>
    %bp = make_partition_view %bv : partition_view<tile=(512), tensor_view<?xf32, strides=[1]>>
    %cp = make_partition_view %cv : partition_view<tile=(512), tensor_view<?xf32, strides=[1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %at, %ta = load_view_tko weak %ap[%x] token = %t
        : partition_view<tile=(512), tensor_view<?xf32, strides=[1]>>, tile<i32>
          -> tile<512xf32>, token
    %bt, %tb = load_view_tko weak %bp[%x] token = %t
        : partition_view<tile=(512), tensor_view<?xf32, strides=[1]>>, tile<i32>
          -> tile<512xf32>, token
    %sum = addf %at, %bt : tile<512xf32>
    %done = store_view_tko weak %sum, %cp[%x] token = %t
        : tile<512xf32>, partition_view<tile=(512), tensor_view<?xf32, strides=[1]>>, tile<i32>
          -> token
    return
  }
}

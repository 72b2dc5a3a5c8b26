// RUN: ...,tileas-dynamic-persistent --gpu-name=sm_103
// Four CTAs with 128x128 each get the left operand of three tile blocks once.
// CHECK: nv_tileaa.func @three_tile_blocks_at_once
// CHECK: cluster = 4
// CHECK: dynamic_tile_scheduler, tiles_at_once = 3
// CHECK: nv_tileaa.return
// CHECK: nv_tileaa.for %{{.*}} : i32 attributes {takes_over} {
// CHECK: %[[SECOND:.*]] = nv_tileaa.andi
// CHECK: %[[THIRD:.*]] = nv_tileaa.andi
// CHECK: nv_tileaa.for
// CHECK: nv_tileaa.dot_scaled
// CHECK: nv_tileaa.dot_scaled {{.*}} if %[[SECOND]]
// CHECK: nv_tileaa.dot_scaled {{.*}} if %[[THIRD]]
// CHECK: nv_tileaa.tiled_store
// CHECK: nv_tileaa.if %[[SECOND]]
// CHECK: nv_tileaa.tiled_store
// CHECK: nv_tileaa.if %[[THIRD]]
// CHECK: nv_tileaa.tiled_store
cuda_tile.module @m { entry @three_tile_blocks_at_once(%a: tile<ptr<f4E2M1FN>>, %b: tile<ptr<f4E2M1FN>>, %sa: tile<ptr<f8E4M3FN>>, %sb: tile<ptr<f8E4M3FN>>, %c: tile<ptr<f32>>) optimization_hints=<sm_100 = {num_cta_in_cga = 4}, sm_103 = {num_cta_in_cga = 4}, sm_110 = {num_cta_in_cga = 4}> { %z = constant <i32: 0> : tile<i32>
 %one = constant <i32: 1> : tile<i32>
 %steps = constant <i32: 2> : tile<i32>
 %zero = constant <f32: 0.0> : tile<512x128xf32>
 %x, %y, %w = get_tile_block_id : tile<i32>
 %a_p = assume div_by<16>, %a : tile<ptr<f4E2M1FN>>
 %a_t = make_tensor_view %a_p, shape = [512, 512], strides = [512, 1] : tensor_view<512x512xf4E2M1FN, strides=[512, 1]>
 %a_v = make_partition_view %a_t : partition_view<tile=(512x256), padding_value = zero, tensor_view<512x512xf4E2M1FN, strides=[512, 1]>>
 %b_p = assume div_by<16>, %b : tile<ptr<f4E2M1FN>>
 %b_t = make_tensor_view %b_p, shape = [512, 1024], strides = [1, 512] : tensor_view<512x1024xf4E2M1FN, strides=[1, 512]>
 %b_v = make_partition_view %b_t : partition_view<tile=(256x128), padding_value = zero, tensor_view<512x1024xf4E2M1FN, strides=[1, 512]>>
 %sa_p = assume div_by<16>, %sa : tile<ptr<f8E4M3FN>>
 %sa_t = make_tensor_view %sa_p, shape = [512, 32], strides = [32, 1] : tensor_view<512x32xf8E4M3FN, strides=[32, 1]>
 %sa_v = make_partition_view %sa_t : partition_view<tile=(512x16), padding_value = zero, tensor_view<512x32xf8E4M3FN, strides=[32, 1]>>
 %sb_p = assume div_by<16>, %sb : tile<ptr<f8E4M3FN>>
 %sb_t = make_tensor_view %sb_p, shape = [32, 1024], strides = [1, 32] : tensor_view<32x1024xf8E4M3FN, strides=[1, 32]>
 %sb_v = make_partition_view %sb_t : partition_view<tile=(16x128), padding_value = zero, tensor_view<32x1024xf8E4M3FN, strides=[1, 32]>>
 %c_p = assume div_by<16>, %c : tile<ptr<f32>>
 %c_t = make_tensor_view %c_p, shape = [512, 1024], strides = [1024, 1] : tensor_view<512x1024xf32, strides=[1024, 1]>
 %c_v = make_partition_view %c_t : partition_view<tile=(512x128), padding_value = zero, tensor_view<512x1024xf32, strides=[1024, 1]>>
 %r = for %i in (%z to %steps, step %one) : tile<i32> iter_values(%sum = %zero) -> (tile<512x128xf32>) {
  %a_x, %a_k = load_view_tko weak %a_v[%x, %i] : partition_view<tile=(512x256), padding_value = zero, tensor_view<512x512xf4E2M1FN, strides=[512, 1]>>, tile<i32> -> tile<512x256xf4E2M1FN>, token
  %b_x, %b_k = load_view_tko weak %b_v[%i, %y] : partition_view<tile=(256x128), padding_value = zero, tensor_view<512x1024xf4E2M1FN, strides=[1, 512]>>, tile<i32> -> tile<256x128xf4E2M1FN>, token
  %sa_x, %sa_k = load_view_tko weak %sa_v[%x, %i] : partition_view<tile=(512x16), padding_value = zero, tensor_view<512x32xf8E4M3FN, strides=[32, 1]>>, tile<i32> -> tile<512x16xf8E4M3FN>, token
  %sb_x, %sb_k = load_view_tko weak %sb_v[%i, %y] : partition_view<tile=(16x128), padding_value = zero, tensor_view<32x1024xf8E4M3FN, strides=[1, 32]>>, tile<i32> -> tile<16x128xf8E4M3FN>, token
  %next = mmaf_scaled %a_x, %b_x, %sum, %sa_x, %sb_x : tile<512x256xf4E2M1FN>, tile<256x128xf4E2M1FN>, tile<512x128xf32>, tile<512x16xf8E4M3FN>, tile<16x128xf8E4M3FN>
  continue %next : tile<512x128xf32>
 }
 %t = store_view_tko weak %r, %c_v[%x, %y] : tile<512x128xf32>, partition_view<tile=(512x128), padding_value = zero, tensor_view<512x1024xf32, strides=[1024, 1]>>, tile<i32> -> token
 return
 } }
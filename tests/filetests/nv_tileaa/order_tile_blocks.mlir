// RUN: canonicalize,cse,convert-cudatile-to-tileaa,order-tile-blocks
// rows_by_the_first_axis_and_columns_by_the_second
// CHECK: %[[WIDTH:.*]] = nv_tileaa.get_num_programs 0
// CHECK: %[[HEIGHT:.*]] = nv_tileaa.get_num_programs 1
// CHECK: nv_tileaa.divi
// CHECK: nv_tileaa.mulhii %[[WIDTH]], %[[HEIGHT]]
// CHECK: nv_tileaa.tiled_load
cuda_tile.module @m {
  entry @copy(%x: tile<ptr<f16>>, %y: tile<ptr<f16>>, %rows: tile<i32>, %columns: tile<i32>) {
    %t = make_token : token
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %v = make_tensor_view %x, shape = [%rows, %columns], strides = [%columns, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %w = make_tensor_view %y, shape = [%rows, %columns], strides = [%columns, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %p = make_partition_view %v
      : partition_view<tile=(64x64), tensor_view<?x?xf16, strides=[?,1]>>
    %q = make_partition_view %w
      : partition_view<tile=(64x64), tensor_view<?x?xf16, strides=[?,1]>>
    %a, %r = load_view_tko weak %p[%bx, %by] token = %t
      : partition_view<tile=(64x64), tensor_view<?x?xf16, strides=[?,1]>>, tile<i32>
      -> tile<64x64xf16>, token
    %z = store_view_tko weak %a, %q[%bx, %by] token = %r : tile<64x64xf16>,
      partition_view<tile=(64x64), tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> token
    return
  }
}
// -----
// leaves_transposes_that_write_along_the_first_axis
// CHECK-NOT: nv_tileaa.get_num_programs
// CHECK: nv_tileaa.permute
cuda_tile.module @m {
  entry @transpose(%x: tile<ptr<f16>>, %y: tile<ptr<f16>>, %rows: tile<i32>, %columns: tile<i32>) {
    %t = make_token : token
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %v = make_tensor_view %x, shape = [%rows, %columns], strides = [%columns, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %w = make_tensor_view %y, shape = [%columns, %rows], strides = [%rows, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %p = make_partition_view %v
      : partition_view<tile=(64x64), tensor_view<?x?xf16, strides=[?,1]>>
    %q = make_partition_view %w
      : partition_view<tile=(64x64), tensor_view<?x?xf16, strides=[?,1]>>
    %a, %r = load_view_tko weak %p[%bx, %by] token = %t
      : partition_view<tile=(64x64), tensor_view<?x?xf16, strides=[?,1]>>, tile<i32>
      -> tile<64x64xf16>, token
    %b = permute %a [1, 0] : tile<64x64xf16> -> tile<64x64xf16>
    %z = store_view_tko weak %b, %q[%by, %bx] token = %r : tile<64x64xf16>,
      partition_view<tile=(64x64), tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> token
    return
  }
}

// RUN: ...,split-reductions
// CHECK: cluster = 4
// CHECK: nv_tileaa.get_cluster_rank
// CHECK: nv_tileaa.constant 4 : i32
// CHECK: nv_tileaa.for
// CHECK: nv_tileaa.reduce
// CHECK: nv_tileaa.share_tiles {{.*}} {reader = 3} : tensor<128xf32>
// CHECK: nv_tileaa.await_shared
// CHECK: nv_tileaa.tiled_store
// CHECK: nv_tileaa.send_shared
// CHECK-NOT: nv_tileaa.tiled_store
cuda_tile.module @m {
  entry @divides_a_loop_over_the_rows_of_a_matrix(%x: tile<ptr<f32>>, %out: tile<ptr<f32>>, %rows: tile<i32>, %columns: tile<i32>) {
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %c64 = constant <i32: 64> : tile<i32>
    %zeros = constant <f32: 0.0> : tile<64x128xf32>
    %t = make_token : token
    %b, %by, %bz = get_tile_block_id : tile<i32>
    %a0 = assume div_by<16>, %x : tile<ptr<f32>>
    %v = make_tensor_view %a0, shape = [%rows, %columns], strides = [%columns, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %p = make_partition_view %v : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>
    %a1 = assume div_by<16>, %out : tile<ptr<f32>>
    %o = make_tensor_view %a1, shape = [%columns], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %op = make_partition_view %o : partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>
    %n = divi %rows, %c64 signed rounding<positive_inf> : tile<i32>
    %sums = for %i in (%c0 to %n, step %c1) : tile<i32> iter_values(%s = %zeros) -> (tile<64x128xf32>) {
      %y, %r = load_view_tko weak %p[%i, %b] token = %t : partition_view<tile=(64x128), padding_value = zero,
        tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> tile<64x128xf32>, token
      %more = addf %s, %y : tile<64x128xf32>
      continue %more : tile<64x128xf32>
    }
    %sum = reduce %sums dim=0 identities=[0.0 : f32] : tile<64x128xf32> -> tile<128xf32>
    (%e: tile<f32>, %acc: tile<f32>) {
      %both = addf %e, %acc : tile<f32>
      yield %both : tile<f32>
    }
    %w = store_view_tko weak %sum, %op[%b] token = %t : tile<128xf32>, partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>, tile<i32>
      -> token
    return
  }
}

// -----
// CHECK-NOT: cluster
// CHECK: nv_tileaa.return
cuda_tile.module @m {
  entry @leaves_a_loop_along_a_row(%x: tile<ptr<f32>>, %out: tile<ptr<f32>>, %rows: tile<i32>, %columns: tile<i32>) {
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %c64 = constant <i32: 64> : tile<i32>
    %zeros = constant <f32: 0.0> : tile<64x128xf32>
    %t = make_token : token
    %b, %by, %bz = get_tile_block_id : tile<i32>
    %a0 = assume div_by<16>, %x : tile<ptr<f32>>
    %v = make_tensor_view %a0, shape = [%rows, %columns], strides = [%columns, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %p = make_partition_view %v : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>
    %a1 = assume div_by<16>, %out : tile<ptr<f32>>
    %o = make_tensor_view %a1, shape = [%columns], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %op = make_partition_view %o : partition_view<tile=(64), tensor_view<?xf32, strides=[1]>>
    %n = divi %rows, %c64 signed rounding<positive_inf> : tile<i32>
    %sums = for %i in (%c0 to %n, step %c1) : tile<i32> iter_values(%s = %zeros) -> (tile<64x128xf32>) {
      %y, %r = load_view_tko weak %p[%b, %i] token = %t : partition_view<tile=(64x128), padding_value = zero,
        tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> tile<64x128xf32>, token
      %more = addf %s, %y : tile<64x128xf32>
      continue %more : tile<64x128xf32>
    }
    %sum = reduce %sums dim=1 identities=[0.0 : f32] : tile<64x128xf32> -> tile<64xf32>
    (%e: tile<f32>, %acc: tile<f32>) {
      %both = addf %e, %acc : tile<f32>
      yield %both : tile<f32>
    }
    %w = store_view_tko weak %sum, %op[%b] token = %t : tile<64xf32>, partition_view<tile=(64), tensor_view<?xf32, strides=[1]>>, tile<i32>
      -> token
    return
  }
}

// -----
// CHECK: cluster = 4
// CHECK: %[[PART:.*]] = nv_tileaa.get_cluster_rank
// CHECK-NOT: nv_tileaa.for %{{.*}} : i32 {
// CHECK: nv_tileaa.for {{.*}} -> (tensor<64x256xf32>)
// CHECK: nv_tileaa.addi %{{.*}}, %[[PART]]
// CHECK: nv_tileaa.reduce
// CHECK: nv_tileaa.tiled_store
// CHECK: nv_tileaa.return
cuda_tile.module @m {
  entry @divides_the_parts_of_a_large_tile(%x: tile<ptr<f32>>, %out: tile<ptr<f32>>, %rows: tile<i32>,
                 %columns: tile<i32>) {
    %c0 = constant <i32: 0> : tile<i32>
    %first = constant <i32: 0> : tile<i32>
    %step = constant <i32: 1> : tile<i32>
    %c64 = constant <i32: 64> : tile<i32>
    %start = constant <f32: 0.0> : tile<64x1024xf32>
    %t = make_token : token
    %b, %by, %bz = get_tile_block_id : tile<i32>
    %a0 = assume div_by<16>, %x : tile<ptr<f32>>
    %v = make_tensor_view %a0, shape = [%rows, %columns], strides = [%columns, 1]
      : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %p = make_partition_view %v : partition_view<tile=(64x1024), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>
    %a1 = assume div_by<16>, %out : tile<ptr<f32>>
    %o = make_tensor_view %a1, shape = [%columns], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %op = make_partition_view %o : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>
    %n = divi %rows, %c64 signed rounding<positive_inf> : tile<i32>
    %sums = for %i in (%first to %n, step %step) : tile<i32>
      iter_values(%s = %start) -> (tile<64x1024xf32>) {
      %y, %r = load_view_tko weak %p[%i, %b] token = %t : partition_view<tile=(64x1024), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>, tile<i32>
        -> tile<64x1024xf32>, token
      %more = addf %s, %y  : tile<64x1024xf32>
      continue %more : tile<64x1024xf32>
    }
    %sum = reduce %sums dim=0 identities=[0.0 : f32] : tile<64x1024xf32> -> tile<1024xf32>
    (%e: tile<f32>, %acc: tile<f32>) {
      %both = addf %e, %acc  : tile<f32>
      yield %both : tile<f32>
    }
    %w = store_view_tko weak %sum, %op[%b] token = %t
      : tile<1024xf32>, partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}

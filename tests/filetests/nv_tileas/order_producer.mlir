// RUN: ...,tileas-order-producer
// makes_tensor_maps_while_indices_are_loaded_and_issues_tma_before_gathers
// CHECK: producer {
// CHECK-NOT: make_tiled_tma_desc
// CHECK: %[[INDEX:value_[0-9]]], %{{.*}} = nv_tileas.load
// CHECK-NOT: %[[INDEX]]
// CHECK: %[[MAP:.*]] = nv_tileas.make_tiled_tma_desc
// CHECK-NEXT: nv_tileaa.reshape %[[INDEX]]
// CHECK: producer_acquire
// CHECK-NEXT: nv_tileas.async.tiled_tma_load {{.*}} using %[[MAP]]
// CHECK-NEXT: nv_tileas.async.gather_load
cuda_tile.module @m {
  entry @experts(%T: tile<ptr<f16>>, %W: tile<ptr<f16>>, %O: tile<ptr<f32>>, %S: tile<ptr<i32>>,
                 %E: tile<ptr<i32>>, %rows: tile<i32>, %depth: tile<i32>, %columns: tile<i32>,
                 %experts: tile<i32>, %total: tile<i32>) {
    %first_element = constant <i32: 0> : tile<i32>
    %T0 = offset %T, %first_element : tile<ptr<f16>>, tile<i32> -> tile<ptr<f16>>
    %T1 = assume div_by<16>, %T0 : tile<ptr<f16>>
    %W1 = assume div_by<16>, %W : tile<ptr<f16>>
    %D1 = assume div_by<16>, %depth : tile<i32>
    %C1 = assume div_by<16>, %columns : tile<i32>
    %ws = muli %D1, %C1 : tile<i32>
    %t0 = make_token : token
    %tw = make_tensor_view %W1, shape = [%experts, %D1, %C1], strides = [%ws, %C1, 1]
      : tile<i32> -> tensor_view<?x?x?xf16, strides=[?,?,1]>
    %to = make_tensor_view %O, shape = [%total, %C1], strides = [%C1, 1]
      : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %pw = make_partition_view %tw : partition_view<tile=(1x64x128), padding_value = zero, tensor_view<?x?x?xf16, strides=[?,?,1]>>
    %po = make_partition_view %to : partition_view<tile=(128x128), tensor_view<?x?xf32, strides=[?,1]>>
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %cd = constant <i32: 64> : tile<i32>
    %cr = constant <i32: 128> : tile<i32>
    %ep = offset %E, %bx : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %expert, %te = load_ptr_tko weak %ep token=%t0 : tile<ptr<i32>> -> tile<i32>, token
    %first = muli %bx, %cr : tile<i32>
    %ri = iota : tile<128xi32>
    %f1 = reshape %first : tile<i32> -> tile<1xi32>
    %f2 = broadcast %f1 : tile<1xi32> -> tile<128xi32>
    %stages = addi %f2, %ri : tile<128xi32>
    %sp1 = reshape %S : tile<ptr<i32>> -> tile<1xptr<i32>>
    %sp2 = broadcast %sp1 : tile<1xptr<i32>> -> tile<128xptr<i32>>
    %sp = offset %sp2, %stages : tile<128xptr<i32>>, tile<128xi32> -> tile<128xptr<i32>>
    %source, %ts = load_ptr_tko weak %sp token=%t0 : tile<128xptr<i32>> -> tile<128xi32>, token
    %s1 = reshape %source : tile<128xi32> -> tile<128x1xi32>
    %rows1 = reshape %rows : tile<i32> -> tile<1x1xi32>
    %rows2 = broadcast %rows1 : tile<1x1xi32> -> tile<128x1xi32>
    %rm = cmpi less_than %s1, %rows2, unsigned : tile<128x1xi32> -> tile<128x1xi1>
    %rm2 = broadcast %rm : tile<128x1xi1> -> tile<128x64xi1>
    %d1 = reshape %D1 : tile<i32> -> tile<1x1xi32>
    %d2 = broadcast %d1 : tile<1x1xi32> -> tile<128x1xi32>
    %ro = muli %s1, %d2 : tile<128x1xi32>
    %ro2 = broadcast %ro : tile<128x1xi32> -> tile<128x64xi32>
    %tp1 = reshape %T1 : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %tp2 = broadcast %tp1 : tile<1x1xptr<f16>> -> tile<128x64xptr<f16>>
    %tp3 = offset %tp2, %ro2 : tile<128x64xptr<f16>>, tile<128x64xi32> -> tile<128x64xptr<f16>>
    %di = iota : tile<64xi32>
    %di1 = reshape %di : tile<64xi32> -> tile<1x64xi32>
    %di2 = broadcast %di1 : tile<1x64xi32> -> tile<128x64xi32>
    %dm = broadcast %d1 : tile<1x1xi32> -> tile<1x64xi32>
    %zh = constant <f16: 0.0> : tile<128x64xf16>
    %z = constant <f32: 0.0> : tile<128x128xf32>
    %steps = divi %D1, %cd signed rounding<positive_inf> : tile<i32>
    %acc = for %k in (%c0 to %steps, step %c1) : tile<i32>
        iter_values(%a0 = %z) -> (tile<128x128xf32>) {
      %k0 = muli %k, %cd : tile<i32>
      %k1 = reshape %k0 : tile<i32> -> tile<1x1xi32>
      %k2 = broadcast %k1 : tile<1x1xi32> -> tile<1x64xi32>
      %k3 = addi %k2, %di1 : tile<1x64xi32>
      %km = cmpi less_than %k3, %dm, unsigned : tile<1x64xi32> -> tile<1x64xi1>
      %km2 = broadcast %km : tile<1x64xi1> -> tile<128x64xi1>
      %mask = andi %rm2, %km2 : tile<128x64xi1>
      %k4 = broadcast %k3 : tile<1x64xi32> -> tile<128x64xi32>
      %p = offset %tp3, %k4 : tile<128x64xptr<f16>>, tile<128x64xi32> -> tile<128x64xptr<f16>>
      %a, %ta = load_ptr_tko weak %p, %mask, %zh token=%t0
        : tile<128x64xptr<f16>>, tile<128x64xi1>, tile<128x64xf16> -> tile<128x64xf16>, token
      %w, %tb = load_view_tko weak %pw[%expert, %k, %by] token = %t0
        : partition_view<tile=(1x64x128), padding_value = zero, tensor_view<?x?x?xf16, strides=[?,?,1]>>, tile<i32> -> tile<1x64x128xf16>, token
      %w2 = reshape %w : tile<1x64x128xf16> -> tile<64x128xf16>
      %d = mmaf %a, %w2, %a0 : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      continue %d : tile<128x128xf32>
    }
    %s = store_view_tko weak %acc, %po[%bx, %by] token = %t0
      : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32>
      -> token
    return
  }
}
// -----
// leaves_a_producer_that_loads_no_indices
// CHECK: producer {
// CHECK: %[[LEFT:.*]] = nv_tileas.make_tiled_tma_desc
// CHECK: nv_tileaa.block_tile
// CHECK: %[[RIGHT:.*]] = nv_tileas.make_tiled_tma_desc
// CHECK: producer_acquire
// CHECK-NEXT: tiled_tma_load {{.*}} using %[[LEFT]]
// CHECK-NEXT: tiled_tma_load {{.*}} using %[[RIGHT]]
cuda_tile.module @m {
  entry @gemm(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f16>>,
              %M: tile<i32>, %N: tile<i32>, %K: tile<i32>) {
    %A1 = assume div_by<16>, %A : tile<ptr<f16>>
    %B1 = assume div_by<16>, %B : tile<ptr<f16>>
    %N1 = assume div_by<16>, %N : tile<i32>
    %K1 = assume div_by<16>, %K : tile<i32>
    %t0 = make_token : token
    %ta = make_tensor_view %A1, shape = [%M, %K1], strides = [%K1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tb = make_tensor_view %B1, shape = [%K1, %N1], strides = [%N1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tc = make_tensor_view %C, shape = [%M, %N1], strides = [%N1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %pa = make_partition_view %ta : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pb = make_partition_view %tb : partition_view<tile=(64x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pc = make_partition_view %tc : partition_view<tile=(128x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %is:2 = get_index_space_shape %pa : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>> -> tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %z = constant <f32: 0.0> : tile<128x256xf32>
    %acc, %tl = for %k in (%c0 to %is#1, step %c1) : tile<i32>
        iter_values(%a0 = %z, %t = %t0) -> (tile<128x256xf32>, token) {
      %a, %ka = load_view_tko weak %pa[%bx, %k] token = %t0
        : partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<128x64xf16>, token
      %b, %kb = load_view_tko weak %pb[%k, %by] token = %t0
        : partition_view<tile=(64x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x256xf16>, token
      %d = mmaf %a, %b, %a0 : tile<128x64xf16>, tile<64x256xf16>, tile<128x256xf32>
      continue %d, %t : tile<128x256xf32>, token
    }
    %h = ftof %acc : tile<128x256xf32> -> tile<128x256xf16>
    %s = store_view_tko weak %h, %pc[%bx, %by] token = %tl
      : tile<128x256xf16>, partition_view<tile=(128x256), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> token
    return
  }
}

// RUN: canonicalize,cse,convert-cudatile-to-tileaa,choose-strategy,tileas-plan-cta,tileas-assign-dot-layouts,tileas-assign-load-store-layouts,insert-barriers,tileas-assign-warp-roles
// gives_addresses_and_copies_to_the_producer_too
// CHECK: warp_roles = #nv_tileas.warp_roles<consumer = 8,
// CHECK: producer = 1>
// CHECK: %pid_x = nv_tileaa.get_program_id 0 {roles = #nv_tileas.roles<producer, consumer>}
// CHECK: %pid_z = nv_tileaa.get_program_id 2
// CHECK-NEXT: nv_tileaa.constant 0 : i32 attributes {roles = #nv_tileas.roles<producer, consumer>}
// CHECK: nv_tileaa.for
// CHECK: prologue_fills = [#nv_tileas.prologue_fill<pipeline = 0, hurried = 1>]
// CHECK: nv_tileaa.tiled_load
// CHECK: roles = #nv_tileas.roles<producer, consumer>
// CHECK: nv_tileaa.dot
// CHECK: layouts = [#mma0], operand_layouts = [#mma0], pending = 1 : i32, releases = array<i32: 0>}
// CHECK: nv_tileaa.continue %{{.*}} {roles = #nv_tileas.roles<producer, consumer>}
// CHECK: nv_tileaa.tiled_store
// CHECK-NEXT: {access = #nv_tileas.access<vector = 1, axis = 1, layout = #mma0>} :
// CHECK-NEXT: nv_tileaa.return {roles = #nv_tileas.roles<producer, consumer>}
cuda_tile.module @m {
  entry @gemm(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f32>>, %n: tile<i32>) {
    %a0 = assume div_by<16>, %A : tile<ptr<f16>>
    %b0 = assume div_by<16>, %B : tile<ptr<f16>>
    %t = make_token : token
    %at = make_tensor_view %a0, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf16, strides=[1024,1]>
    %bt = make_tensor_view %b0, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf16, strides=[1024,1]>
    %ct = make_tensor_view %C, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf32, strides=[1024,1]>
    %av = make_partition_view %at
      : partition_view<tile=(128x64), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %bv = make_partition_view %bt
      : partition_view<tile=(64x128), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %cv = make_partition_view %ct
      : partition_view<tile=(128x128), tensor_view<1024x1024xf32, strides=[1024,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %zero = constant <f32: 0.0> : tile<128x128xf32>
    %sum = for %k in (%c0 to %n, step %c1) : tile<i32>
        iter_values(%s = %zero) -> (tile<128x128xf32>) {
      %a, %ta = load_view_tko weak %av[%x, %k] token = %t
        : partition_view<tile=(128x64), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32>
        -> tile<128x64xf16>, token
      %b, %tb = load_view_tko weak %bv[%k, %y] token = %t
        : partition_view<tile=(64x128), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32>
        -> tile<64x128xf16>, token
      %d = mmaf %a, %b, %s : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      continue %d : tile<128x128xf32>
    }
    %u = store_view_tko weak %sum, %cv[%x, %y] token = %t
      : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<1024x1024xf32, strides=[1024,1]>>,
        tile<i32> -> token
    return
  }
}
// -----
// leaves_a_kernel_whose_warps_all_do_the_same
// CHECK: nv_tileaa.func
// CHECK-NOT: roles
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
// lets_all_warps_leave_before_they_have_roles
// CHECK: nv_tileaa.cmpi
// CHECK: roles = #nv_tileas.roles<entry, consumer>
// CHECK: nv_tileaa.if
// CHECK: roles = #nv_tileas.roles<entry>
cuda_tile.module @m {
  entry @gemm_of_some_blocks(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f32>>, %n: tile<i32>) {
    %a0 = assume div_by<16>, %A : tile<ptr<f16>>
    %b0 = assume div_by<16>, %B : tile<ptr<f16>>
    %t = make_token : token
    %at = make_tensor_view %a0, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf16, strides=[1024,1]>
    %bt = make_tensor_view %b0, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf16, strides=[1024,1]>
    %ct = make_tensor_view %C, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf32, strides=[1024,1]>
    %av = make_partition_view %at
      : partition_view<tile=(128x64), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %bv = make_partition_view %bt
      : partition_view<tile=(64x128), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %cv = make_partition_view %ct
      : partition_view<tile=(128x128), tensor_view<1024x1024xf32, strides=[1024,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %past = cmpi greater_than_or_equal %x, %n, signed : tile<i32> -> tile<i1>
    if %past {
      return
    }
    %zero = constant <f32: 0.0> : tile<128x128xf32>
    %sum = for %k in (%c0 to %n, step %c1) : tile<i32>
        iter_values(%s = %zero) -> (tile<128x128xf32>) {
      %a, %ta = load_view_tko weak %av[%x, %k] token = %t
        : partition_view<tile=(128x64), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32>
        -> tile<128x64xf16>, token
      %b, %tb = load_view_tko weak %bv[%k, %y] token = %t
        : partition_view<tile=(64x128), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32>
        -> tile<64x128xf16>, token
      %d = mmaf %a, %b, %s : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      continue %d : tile<128x128xf32>
    }
    %u = store_view_tko weak %sum, %cv[%x, %y] token = %t
      : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<1024x1024xf32, strides=[1024,1]>>,
        tile<i32> -> token
    return
  }
}
// -----
// leaves_a_product_whose_sum_is_read_in_its_loop_to_be_waited_for_later
// CHECK: nv_tileaa.dot
// CHECK-NOT: pending
// CHECK: nv_tileaa.mulf
cuda_tile.module @m {
  entry @gemm(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f32>>, %n: tile<i32>) {
    %a0 = assume div_by<16>, %A : tile<ptr<f16>>
    %b0 = assume div_by<16>, %B : tile<ptr<f16>>
    %t = make_token : token
    %at = make_tensor_view %a0, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf16, strides=[1024,1]>
    %bt = make_tensor_view %b0, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf16, strides=[1024,1]>
    %ct = make_tensor_view %C, shape = [1024, 1024], strides = [1024, 1]
      : tensor_view<1024x1024xf32, strides=[1024,1]>
    %av = make_partition_view %at
      : partition_view<tile=(64x64), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %bv = make_partition_view %bt
      : partition_view<tile=(64x128), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %cv = make_partition_view %ct
      : partition_view<tile=(64x128), tensor_view<1024x1024xf32, strides=[1024,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %zero = constant <f32: 0.0> : tile<64x128xf32>
    %sum = for %k in (%c0 to %n, step %c1) : tile<i32>
        iter_values(%s = %zero) -> (tile<64x128xf32>) {
      %a, %ta = load_view_tko weak %av[%x, %k] token = %t
        : partition_view<tile=(64x64), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32>
        -> tile<64x64xf16>, token
      %b, %tb = load_view_tko weak %bv[%k, %y] token = %t
        : partition_view<tile=(64x128), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32>
        -> tile<64x128xf16>, token
      %p = mmaf %a, %b, %zero : tile<64x64xf16>, tile<64x128xf16>, tile<64x128xf32>
      %e = mulf %s, %s : tile<64x128xf32>
      %d = addf %p, %e : tile<64x128xf32>
      continue %d : tile<64x128xf32>
    }
    %u = store_view_tko weak %sum, %cv[%x, %y] token = %t
      : tile<64x128xf32>, partition_view<tile=(64x128), tensor_view<1024x1024xf32, strides=[1024,1]>>,
        tile<i32> -> token
    return
  }
}

// RUN: ...,join-iterations
// CHECK: nv_tileaa.for
// CHECK: tensor<64x128xf16> -> tensor<128x128xf32>
// CHECK: remainder
// CHECK: tensor<64x64xf16> -> tensor<128x64xf32>
cuda_tile.module @m {
  entry @takes_two_tiles_of_keys_at_a_time(%Q: tile<ptr<f16>>, %K: tile<ptr<f16>>, %V: tile<ptr<f16>>,
                   %O: tile<ptr<f16>>,
                   %heads: tile<i32>, %shared: tile<i32>, %rows: tile<i32>, %length: tile<i32>,
                   %scale: tile<f32>) {
    %q1 = assume div_by<16>, %Q : tile<ptr<f16>>
    %k1 = assume div_by<16>, %K : tile<ptr<f16>>
    %v1 = assume div_by<16>, %V : tile<ptr<f16>>
    %r0 = assume div_by<16>, %rows : tile<i32>
    %l0 = assume div_by<16>, %length : tile<i32>
    %cd = constant <i32: 64> : tile<i32>
    %sq0 = muli %r0, %cd : tile<i32>
    %sk0 = muli %l0, %cd : tile<i32>
    %sq = assume div_by<8>, %sq0 : tile<i32>
    %sk = assume div_by<8>, %sk0 : tile<i32>
    %t0 = make_token : token
    %tq = make_tensor_view %q1, shape = [%heads, %r0, 64], strides = [%sq, 64, 1]
      : tile<i32> -> tensor_view<?x?x64xf16, strides=[?,64,1]>
    %tk = make_tensor_view %k1, shape = [%shared, %l0, 64], strides = [%sk, 64, 1]
      : tile<i32> -> tensor_view<?x?x64xf16, strides=[?,64,1]>
    %tv = make_tensor_view %v1, shape = [%shared, %l0, 64], strides = [%sk, 64, 1]
      : tile<i32> -> tensor_view<?x?x64xf16, strides=[?,64,1]>
    %to = make_tensor_view %O, shape = [%heads, %r0, 64], strides = [%sq, 64, 1]
      : tile<i32> -> tensor_view<?x?x64xf16, strides=[?,64,1]>
    %pq = make_partition_view %tq : partition_view<tile=(1x128x64), padding_value = zero, tensor_view<?x?x64xf16, strides=[?,64,1]>>
    %pk = make_partition_view %tk : partition_view<tile=(1x64x64), padding_value = zero, tensor_view<?x?x64xf16, strides=[?,64,1]>>
    %pv = make_partition_view %tv : partition_view<tile=(1x64x64), padding_value = zero, tensor_view<?x?x64xf16, strides=[?,64,1]>>
    %po = make_partition_view %to : partition_view<tile=(1x128x64), tensor_view<?x?x64xf16, strides=[?,64,1]>>
    %bx, %head, %bz = get_tile_block_id : tile<i32>
    %share = constant <i32: 1> : tile<i32>
    %from = divi %head, %share signed rounding<negative_inf> : tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %cm = constant <i32: 128> : tile<i32>
    %cn = constant <i32: 64> : tile<i32>
    %z = constant <f32: 0.0> : tile<128x64xf32>
    %zo = constant <f32: 0.0> : tile<128x64xf32>
    %zr = constant <f32: 0.0> : tile<128x1xf32>
    %low = constant <f32: 0xFF800000> : tile<128x1xf32>
    %none = constant <f32: 0xFF800000> : tile<128x64xf32>
    %first = muli %bx, %cm : tile<i32>
    %i0 = iota : tile<128xi32>
    %i1 = reshape %i0 : tile<128xi32> -> tile<128x1xi32>
    %i2 = reshape %first : tile<i32> -> tile<1x1xi32>
    %i3 = broadcast %i2 : tile<1x1xi32> -> tile<128x1xi32>
    %i4 = addi %i3, %i1 : tile<128x1xi32>
    %i5 = broadcast %i4 : tile<128x1xi32> -> tile<128x64xi32>
    %s1 = reshape %scale : tile<f32> -> tile<1x1xf32>
    %s2 = broadcast %s1 : tile<1x1xf32> -> tile<128x1xf32>
    %s3 = broadcast %s1 : tile<1x1xf32> -> tile<128x64xf32>
    %q3, %uq = load_view_tko weak %pq[%head, %bx, %c0] token = %t0
      : partition_view<tile=(1x128x64), padding_value = zero, tensor_view<?x?x64xf16, strides=[?,64,1]>>, tile<i32>
      -> tile<1x128x64xf16>, token
    %q = reshape %q3 : tile<1x128x64xf16> -> tile<128x64xf16>
    %blocks = divi %l0, %cn signed rounding<positive_inf> : tile<i32>
    %reach0 = addi %first, %cm : tile<i32>
    %reach = mini %reach0, %l0 signed : tile<i32>
    %seen = divi %reach, %cn signed rounding<positive_inf> : tile<i32>
    %whole0 = divi %first, %cn signed rounding<negative_inf> : tile<i32>
    %whole = mini %whole0, %seen signed : tile<i32>

    %sums_0, %top_0, %acc_0 = for %j_0 in (%c0 to %blocks, step %c1) : tile<i32>
        iter_values(%l_0 = %zr, %m_0 = %low, %a_0 = %zo)
        -> (tile<128x1xf32>, tile<128x1xf32>, tile<128x64xf32>) {
      %k3_0, %uk_0 = load_view_tko weak %pk[%from, %j_0, %c0] token = %t0
        : partition_view<tile=(1x64x64), padding_value = zero, tensor_view<?x?x64xf16, strides=[?,64,1]>>, tile<i32>
        -> tile<1x64x64xf16>, token
      %k_0 = reshape %k3_0 : tile<1x64x64xf16> -> tile<64x64xf16>
      %kt_0 = permute %k_0 [1, 0] : tile<64x64xf16> -> tile<64x64xf16>
      %p_0 = mmaf %q, %kt_0, %z
        : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      
      %x_0 = reduce %p_0 dim=1 identities=[0xFF800000 : f32]
        : tile<128x64xf32> -> tile<128xf32>
      (%xa_0: tile<f32>, %xb_0: tile<f32>) {
        %xc_0 = maxf %xa_0, %xb_0 : tile<f32>
        yield %xc_0 : tile<f32>
      }
      %x1_0 = reshape %x_0 : tile<128xf32> -> tile<128x1xf32>
      %x2_0 = mulf %x1_0, %s2 : tile<128x1xf32>
      %n_0 = maxf %m_0, %x2_0 : tile<128x1xf32>
      %n1_0 = broadcast %n_0 : tile<128x1xf32> -> tile<128x64xf32>
      %n2_0 = negf %n1_0 : tile<128x64xf32>
      %e_0 = fma %p_0, %s3, %n2_0 : tile<128x64xf32>
      %w_0 = exp2 %e_0 flush_to_zero : tile<128x64xf32>
      %d_0 = subf %m_0, %n_0 : tile<128x1xf32>
      %f_0 = exp2 %d_0 flush_to_zero : tile<128x1xf32>
      %y_0 = reduce %w_0 dim=1 identities=[0.0 : f32] : tile<128x64xf32> -> tile<128xf32>
      (%ya_0: tile<f32>, %yb_0: tile<f32>) {
        %yc_0 = addf %ya_0, %yb_0 : tile<f32>
        yield %yc_0 : tile<f32>
      }
      %y1_0 = reshape %y_0 : tile<128xf32> -> tile<128x1xf32>
      %lo_0 = fma %l_0, %f_0, %y1_0 : tile<128x1xf32>
      %h_0 = ftof %w_0 : tile<128x64xf32> -> tile<128x64xf16>
      %v3_0, %uv_0 = load_view_tko weak %pv[%from, %j_0, %c0] token = %t0
        : partition_view<tile=(1x64x64), padding_value = zero, tensor_view<?x?x64xf16, strides=[?,64,1]>>, tile<i32>
        -> tile<1x64x64xf16>, token
      %v_0 = reshape %v3_0 : tile<1x64x64xf16> -> tile<64x64xf16>
      %fb_0 = broadcast %f_0 : tile<128x1xf32> -> tile<128x64xf32>
      %b_0 = mulf %a_0, %fb_0 : tile<128x64xf32>
      %o_0 = mmaf %h_0, %v_0, %b_0
        : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      continue %lo_0, %n_0, %o_0 : tile<128x1xf32>, tile<128x1xf32>, tile<128x64xf32>
    }

    %ob = broadcast %sums_0 : tile<128x1xf32> -> tile<128x64xf32>
    %od = divf %acc_0, %ob : tile<128x64xf32>
    %oh = ftof %od : tile<128x64xf32> -> tile<128x64xf16>
    %o3 = reshape %oh : tile<128x64xf16> -> tile<1x128x64xf16>
    %st = store_view_tko weak %o3, %po[%head, %bx, %c0] token = %t0
      : tile<1x128x64xf16>, partition_view<tile=(1x128x64), tensor_view<?x?x64xf16, strides=[?,64,1]>>, tile<i32> -> token
    return
  }
}
// -----
// CHECK-NOT: remainder
// CHECK: nv_tileaa.dot
// CHECK: nv_tileaa.dot
// CHECK-NOT: nv_tileaa.dot
cuda_tile.module @m {
  entry @leaves_tiles_of_128_keys(%Q: tile<ptr<f16>>, %K: tile<ptr<f16>>, %V: tile<ptr<f16>>,
                   %O: tile<ptr<f16>>,
                   %heads: tile<i32>, %shared: tile<i32>, %rows: tile<i32>, %length: tile<i32>,
                   %scale: tile<f32>) {
    %q1 = assume div_by<16>, %Q : tile<ptr<f16>>
    %k1 = assume div_by<16>, %K : tile<ptr<f16>>
    %v1 = assume div_by<16>, %V : tile<ptr<f16>>
    %r0 = assume div_by<16>, %rows : tile<i32>
    %l0 = assume div_by<16>, %length : tile<i32>
    %cd = constant <i32: 64> : tile<i32>
    %sq0 = muli %r0, %cd : tile<i32>
    %sk0 = muli %l0, %cd : tile<i32>
    %sq = assume div_by<8>, %sq0 : tile<i32>
    %sk = assume div_by<8>, %sk0 : tile<i32>
    %t0 = make_token : token
    %tq = make_tensor_view %q1, shape = [%heads, %r0, 64], strides = [%sq, 64, 1]
      : tile<i32> -> tensor_view<?x?x64xf16, strides=[?,64,1]>
    %tk = make_tensor_view %k1, shape = [%shared, %l0, 64], strides = [%sk, 64, 1]
      : tile<i32> -> tensor_view<?x?x64xf16, strides=[?,64,1]>
    %tv = make_tensor_view %v1, shape = [%shared, %l0, 64], strides = [%sk, 64, 1]
      : tile<i32> -> tensor_view<?x?x64xf16, strides=[?,64,1]>
    %to = make_tensor_view %O, shape = [%heads, %r0, 64], strides = [%sq, 64, 1]
      : tile<i32> -> tensor_view<?x?x64xf16, strides=[?,64,1]>
    %pq = make_partition_view %tq : partition_view<tile=(1x128x64), padding_value = zero, tensor_view<?x?x64xf16, strides=[?,64,1]>>
    %pk = make_partition_view %tk : partition_view<tile=(1x128x64), padding_value = zero, tensor_view<?x?x64xf16, strides=[?,64,1]>>
    %pv = make_partition_view %tv : partition_view<tile=(1x128x64), padding_value = zero, tensor_view<?x?x64xf16, strides=[?,64,1]>>
    %po = make_partition_view %to : partition_view<tile=(1x128x64), tensor_view<?x?x64xf16, strides=[?,64,1]>>
    %bx, %head, %bz = get_tile_block_id : tile<i32>
    %share = constant <i32: 1> : tile<i32>
    %from = divi %head, %share signed rounding<negative_inf> : tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %cm = constant <i32: 128> : tile<i32>
    %cn = constant <i32: 128> : tile<i32>
    %z = constant <f32: 0.0> : tile<128x128xf32>
    %zo = constant <f32: 0.0> : tile<128x64xf32>
    %zr = constant <f32: 0.0> : tile<128x1xf32>
    %low = constant <f32: 0xFF800000> : tile<128x1xf32>
    %none = constant <f32: 0xFF800000> : tile<128x128xf32>
    %first = muli %bx, %cm : tile<i32>
    %i0 = iota : tile<128xi32>
    %i1 = reshape %i0 : tile<128xi32> -> tile<128x1xi32>
    %i2 = reshape %first : tile<i32> -> tile<1x1xi32>
    %i3 = broadcast %i2 : tile<1x1xi32> -> tile<128x1xi32>
    %i4 = addi %i3, %i1 : tile<128x1xi32>
    %i5 = broadcast %i4 : tile<128x1xi32> -> tile<128x128xi32>
    %s1 = reshape %scale : tile<f32> -> tile<1x1xf32>
    %s2 = broadcast %s1 : tile<1x1xf32> -> tile<128x1xf32>
    %s3 = broadcast %s1 : tile<1x1xf32> -> tile<128x128xf32>
    %q3, %uq = load_view_tko weak %pq[%head, %bx, %c0] token = %t0
      : partition_view<tile=(1x128x64), padding_value = zero, tensor_view<?x?x64xf16, strides=[?,64,1]>>, tile<i32>
      -> tile<1x128x64xf16>, token
    %q = reshape %q3 : tile<1x128x64xf16> -> tile<128x64xf16>
    %blocks = divi %l0, %cn signed rounding<positive_inf> : tile<i32>
    %reach0 = addi %first, %cm : tile<i32>
    %reach = mini %reach0, %l0 signed : tile<i32>
    %seen = divi %reach, %cn signed rounding<positive_inf> : tile<i32>
    %whole0 = divi %first, %cn signed rounding<negative_inf> : tile<i32>
    %whole = mini %whole0, %seen signed : tile<i32>

    %sums_0, %top_0, %acc_0 = for %j_0 in (%c0 to %blocks, step %c1) : tile<i32>
        iter_values(%l_0 = %zr, %m_0 = %low, %a_0 = %zo)
        -> (tile<128x1xf32>, tile<128x1xf32>, tile<128x64xf32>) {
      %k3_0, %uk_0 = load_view_tko weak %pk[%from, %j_0, %c0] token = %t0
        : partition_view<tile=(1x128x64), padding_value = zero, tensor_view<?x?x64xf16, strides=[?,64,1]>>, tile<i32>
        -> tile<1x128x64xf16>, token
      %k_0 = reshape %k3_0 : tile<1x128x64xf16> -> tile<128x64xf16>
      %kt_0 = permute %k_0 [1, 0] : tile<128x64xf16> -> tile<64x128xf16>
      %p_0 = mmaf %q, %kt_0, %z
        : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      
      %x_0 = reduce %p_0 dim=1 identities=[0xFF800000 : f32]
        : tile<128x128xf32> -> tile<128xf32>
      (%xa_0: tile<f32>, %xb_0: tile<f32>) {
        %xc_0 = maxf %xa_0, %xb_0 : tile<f32>
        yield %xc_0 : tile<f32>
      }
      %x1_0 = reshape %x_0 : tile<128xf32> -> tile<128x1xf32>
      %x2_0 = mulf %x1_0, %s2 : tile<128x1xf32>
      %n_0 = maxf %m_0, %x2_0 : tile<128x1xf32>
      %n1_0 = broadcast %n_0 : tile<128x1xf32> -> tile<128x128xf32>
      %n2_0 = negf %n1_0 : tile<128x128xf32>
      %e_0 = fma %p_0, %s3, %n2_0 : tile<128x128xf32>
      %w_0 = exp2 %e_0 flush_to_zero : tile<128x128xf32>
      %d_0 = subf %m_0, %n_0 : tile<128x1xf32>
      %f_0 = exp2 %d_0 flush_to_zero : tile<128x1xf32>
      %y_0 = reduce %w_0 dim=1 identities=[0.0 : f32] : tile<128x128xf32> -> tile<128xf32>
      (%ya_0: tile<f32>, %yb_0: tile<f32>) {
        %yc_0 = addf %ya_0, %yb_0 : tile<f32>
        yield %yc_0 : tile<f32>
      }
      %y1_0 = reshape %y_0 : tile<128xf32> -> tile<128x1xf32>
      %lo_0 = fma %l_0, %f_0, %y1_0 : tile<128x1xf32>
      %h_0 = ftof %w_0 : tile<128x128xf32> -> tile<128x128xf16>
      %v3_0, %uv_0 = load_view_tko weak %pv[%from, %j_0, %c0] token = %t0
        : partition_view<tile=(1x128x64), padding_value = zero, tensor_view<?x?x64xf16, strides=[?,64,1]>>, tile<i32>
        -> tile<1x128x64xf16>, token
      %v_0 = reshape %v3_0 : tile<1x128x64xf16> -> tile<128x64xf16>
      %fb_0 = broadcast %f_0 : tile<128x1xf32> -> tile<128x64xf32>
      %b_0 = mulf %a_0, %fb_0 : tile<128x64xf32>
      %o_0 = mmaf %h_0, %v_0, %b_0
        : tile<128x128xf16>, tile<128x64xf16>, tile<128x64xf32>
      continue %lo_0, %n_0, %o_0 : tile<128x1xf32>, tile<128x1xf32>, tile<128x64xf32>
    }

    %ob = broadcast %sums_0 : tile<128x1xf32> -> tile<128x64xf32>
    %od = divf %acc_0, %ob : tile<128x64xf32>
    %oh = ftof %od : tile<128x64xf32> -> tile<128x64xf16>
    %o3 = reshape %oh : tile<128x64xf16> -> tile<1x128x64xf16>
    %st = store_view_tko weak %o3, %po[%head, %bx, %c0] token = %t0
      : tile<1x128x64xf16>, partition_view<tile=(1x128x64), tensor_view<?x?x64xf16, strides=[?,64,1]>>, tile<i32> -> token
    return
  }
}
// -----
// CHECK: nv_tileaa.for
// CHECK: (tensor<1x16x8xf32>) -> tensor<1x16xf32>
// CHECK: nv_tileaa.maxf %arg5, %3 : tensor<1x16xf32>
// CHECK: (tensor<1x16x8xf32>) -> tensor<1x16xf32>
// CHECK: nv_tileaa.fma %arg6, %7, %14 : tensor<1x16xf32>
// CHECK: (tensor<1x16xf32>) -> tensor<1xf32>
cuda_tile.module @m {
  entry @keeps_a_maximum_of_eight_columns(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %rows: tile<i32>,
                 %columns0: tile<i32>, %tiles: tile<i32>) {
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %low = constant <f32: 0xFF800000> : tile<1x128xf32>
    %none = constant <f32: 0.0> : tile<1x128xf32>
    %t = make_token : token
    %columns = assume div_by<16>, %columns0 : tile<i32>
    %p16 = assume div_by<16>, %p : tile<ptr<f16>>
    %r, %b1, %b2 = get_tile_block_id : tile<i32>
    %v = make_tensor_view %p16, shape = [%rows, %columns], strides = [%columns, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %u = make_partition_view %v : partition_view<tile=(1x128), padding_value = neg_inf, tensor_view<?x?xf16, strides=[?,1]>>
    %o = make_tensor_view %q, shape = [%rows, 2], strides = [2, 1] : tile<i32> -> tensor_view<?x2xf32, strides=[2,1]>
    %w = make_partition_view %o : partition_view<tile=(1x1), tensor_view<?x2xf32, strides=[2,1]>>
    %m, %l = for %j in (%c0 to %tiles, step %c1) : tile<i32>
        iter_values(%mi = %low, %li = %none) -> (tile<1x128xf32>, tile<1x128xf32>) {
      %x0, %a = load_view_tko weak %u[%r, %j] token = %t : partition_view<tile=(1x128), padding_value = neg_inf, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<1x128xf16>, token
      %x = ftof %x0 : tile<1x128xf16> -> tile<1x128xf32>
      %n = maxf %mi, %x : tile<1x128xf32>
      
      %d = subf %mi, %n : tile<1x128xf32>
      %f = exp %d : tile<1x128xf32>
      %e = subf %x, %n : tile<1x128xf32>
      %y = exp %e : tile<1x128xf32>
      %s = fma %li, %f, %y : tile<1x128xf32>
      continue %n, %s : tile<1x128xf32>, tile<1x128xf32>
    }
    %top = reduce %m dim=1 identities=[0xFF800000 : f32] : tile<1x128xf32> -> tile<1xf32>
      (%g: tile<f32>, %h: tile<f32>) {
        %i = maxf %g, %h : tile<f32>
        yield %i : tile<f32>
      }
    %top1 = reshape %top : tile<1xf32> -> tile<1x1xf32>
    %high = broadcast %top1 : tile<1x1xf32> -> tile<1x128xf32>
    %below = subf %m, %high : tile<1x128xf32>
    %fade = exp %below : tile<1x128xf32>
    %part = mulf %l, %fade : tile<1x128xf32>
    %all = reduce %part dim=1 identities=[0.0 : f32] : tile<1x128xf32> -> tile<1xf32>
      (%g: tile<f32>, %h: tile<f32>) {
        %i = addf %g, %h : tile<f32>
        yield %i : tile<f32>
      }
    %all1 = reshape %all : tile<1xf32> -> tile<1x1xf32>
    %k0 = store_view_tko weak %all1, %w[%r, %c0] token = %t : tile<1x1xf32>, partition_view<tile=(1x1), tensor_view<?x2xf32, strides=[2,1]>>, tile<i32> -> token
    %k1 = store_view_tko weak %top1, %w[%r, %c1] token = %t : tile<1x1xf32>, partition_view<tile=(1x1), tensor_view<?x2xf32, strides=[2,1]>>, tile<i32> -> token
    return
  }
}
// -----
// CHECK: nv_tileaa.for
// CHECK-NOT: nv_tileaa.reduce
// CHECK: nv_tileaa.maxf {{.*}} : tensor<16x64xf16>
// CHECK: nv_tileaa.cmpf greater_than ordered, {{.*}} : tensor<16x64xf16>
// CHECK: nv_tileaa.select {{.*}} : tensor<16x64xi1>, tensor<16x64xi32>
// CHECK: nv_tileaa.continue
// CHECK: nv_tileaa.reduce
// CHECK: nv_tileaa.reduce
cuda_tile.module @m {
  entry @keeps_an_extreme_and_an_iteration_of_each_element(%x: tile<ptr<f16>>, %out: tile<ptr<f16>>, %places: tile<ptr<i32>>,
                  %rows: tile<i32>, %columns: tile<i32>) {
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %step = constant <i32: 16> : tile<i32>
    %start = constant <f16: 0xFC00> : tile<64xf16>
    %none = constant <i32: -1> : tile<64xi32>
    %t = make_token : token
    %b, %by, %bz = get_tile_block_id : tile<i32>
    %a0 = assume div_by<16>, %x : tile<ptr<f16>>
    %m = assume div_by<16>, %rows : tile<i32>
    %n = assume div_by<16>, %columns : tile<i32>
    %v = make_tensor_view %a0, shape = [%m, %n], strides = [%n, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %p = make_partition_view %v : partition_view<tile=(16x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %count = divi %rows, %step signed rounding<positive_inf>
      : tile<i32>
    %i0 = iota : tile<16xi32>
    %i1 = reshape %i0 : tile<16xi32> -> tile<16x1xi32>
    %i2 = broadcast %i1 : tile<16x1xi32> -> tile<16x64xi32>
    %found:2 = for %i in (%c0 to %count, step %c1) : tile<i32>
      iter_values(%top = %start, %where = %none) -> (tile<64xf16>, tile<64xi32>) {
      %y, %r = load_view_tko weak %p[%i, %b] token = %t
        : partition_view<tile=(16x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<16x64xf16>, token
      %pair:2 = reduce %y, %i2 dim=0 identities=[0xFC00 : f16, 0 : i32]
        : tile<16x64xf16>, tile<16x64xi32> -> tile<64xf16>, tile<64xi32>
      (%a: tile<f16>, %c: tile<f16>, %k: tile<i32>, %l: tile<i32>) {
        %more = cmpf greater_than ordered %a, %c : tile<f16> -> tile<i1>
        %same = cmpf equal ordered %a, %c : tile<f16> -> tile<i1>
        %an = cmpf not_equal unordered %a, %a : tile<f16> -> tile<i1>
        %cn = cmpf not_equal unordered %c, %c : tile<f16> -> tile<i1>
        %is = cmpf equal ordered %a, %a : tile<f16> -> tile<i1>
        %alone = andi %is, %cn : tile<i1>
        %wins = ori %more, %alone : tile<i1>
        %both = andi %an, %cn : tile<i1>
        %like = ori %same, %both : tile<i1>
        %lower = cmpi less_than %k, %l, signed : tile<i32> -> tile<i1>
        %tie = andi %like, %lower : tile<i1>
        %takes = ori %wins, %tie : tile<i1>
        %e = select %takes, %a, %c : tile<i1>, tile<f16>
        %f = select %takes, %k, %l : tile<i1>, tile<i32>
        yield %e, %f : tile<f16>, tile<i32>
      }
      %j = muli %i, %step : tile<i32>
      %j1 = reshape %j : tile<i32> -> tile<1xi32>
      %j2 = broadcast %j1 : tile<1xi32> -> tile<64xi32>
      %here = addi %pair#1, %j2 : tile<64xi32>
      %high = reduce %y dim=0 identities=[0xFC00 : f16]
        : tile<16x64xf16> -> tile<64xf16> (%a: tile<f16>, %c: tile<f16>) {
        %e = maxf %a, %c : tile<f16>
        yield %e : tile<f16>
      }
      %new = cmpf greater_than ordered %high, %top : tile<64xf16> -> tile<64xi1>
      %place = select %new, %here, %where : tile<64xi1>, tile<64xi32>
      %next = maxf %top, %high : tile<64xf16>
      continue %next, %place : tile<64xf16>, tile<64xi32>
    }
    %o = make_tensor_view %out, shape = [%columns], strides = [1]
      : tile<i32> -> tensor_view<?xf16, strides=[1]>
    %op = make_partition_view %o : partition_view<tile=(64), tensor_view<?xf16, strides=[1]>>
    %s = store_view_tko weak %found#0, %op[%b] token = %t : tile<64xf16>,
      partition_view<tile=(64), tensor_view<?xf16, strides=[1]>>, tile<i32> -> token
    %w = make_tensor_view %places, shape = [%columns], strides = [1]
      : tile<i32> -> tensor_view<?xi32, strides=[1]>
    %wp = make_partition_view %w : partition_view<tile=(64), tensor_view<?xi32, strides=[1]>>
    %z = store_view_tko weak %found#1, %wp[%b] token = %t : tile<64xi32>,
      partition_view<tile=(64), tensor_view<?xi32, strides=[1]>>, tile<i32> -> token
    return
  }
}

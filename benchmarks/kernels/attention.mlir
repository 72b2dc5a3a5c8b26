// One head of attention, online softmax: o = softmax(q k^T) v for f16 q, o (n x 64), k, v (n x 64).
// One tile block makes 64 rows; launch with grid = (ceil(n / 64), 1, 1).
cuda_tile.module @kernels {
  entry @attention(%q: tile<ptr<f16>>, %k: tile<ptr<f16>>, %v: tile<ptr<f16>>, %o: tile<ptr<f16>>,
                   %n0: tile<i32>) {
    %t = make_token : token
    %q16 = assume div_by<16>, %q : tile<ptr<f16>>
    %k16 = assume div_by<16>, %k : tile<ptr<f16>>
    %v16 = assume div_by<16>, %v : tile<ptr<f16>>
    %n = assume bounded<0, ?>, %n0 : tile<i32>
    %qv = make_tensor_view %q16, shape = [%n, 64], strides = [64, 1]
        : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %kv = make_tensor_view %k16, shape = [%n, 64], strides = [64, 1]
        : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %vv = make_tensor_view %v16, shape = [%n, 64], strides = [64, 1]
        : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %ov = make_tensor_view %o, shape = [%n, 64], strides = [64, 1]
        : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %qp = make_partition_view %qv
        : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>
    %kp = make_partition_view %kv
        : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>
    %vp = make_partition_view %vv
        : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>
    %op = make_partition_view %ov
        : partition_view<tile=(64x64), tensor_view<?x64xf16, strides=[64,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %first = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %width = constant <i32: 64> : tile<i32>
    %qt, %tq = load_view_tko weak %qp[%x, %first] token = %t
        : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>,
          tile<i32> -> tile<64x64xf16>, token
    %steps, %columns = get_index_space_shape %kp
        : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>
          -> tile<i32>
    %top0 = constant <f32: 0xFF800000> : tile<64x1xf32>
    %sum0 = constant <f32: 0.0> : tile<64x1xf32>
    %zero = constant <f32: 0.0> : tile<64x64xf32>
    %low = constant <f32: 0xFF800000> : tile<64x64xf32>
    %lane = iota : tile<64xi32>
    %lane1 = reshape %lane : tile<64xi32> -> tile<1x64xi32>
    %lanes = broadcast %lane1 : tile<1x64xi32> -> tile<64x64xi32>
    %top, %sum, %acc = for %i in (%first to %steps, step %one) : tile<i32>
        iter_values(%m = %top0, %l = %sum0, %a = %zero)
        -> (tile<64x1xf32>, tile<64x1xf32>, tile<64x64xf32>) {
      %kt, %tk = load_view_tko weak %kp[%i, %first] token = %t
          : partition_view<tile=(64x64), padding_value = zero,
              tensor_view<?x64xf16, strides=[64,1]>>,
            tile<i32> -> tile<64x64xf16>, token
      %kx = permute %kt [1, 0] : tile<64x64xf16> -> tile<64x64xf16>
      %raw = mmaf %qt, %kx, %zero : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      %start = muli %i, %width : tile<i32>
      %left = subi %n, %start : tile<i32>
      %left1 = reshape %left : tile<i32> -> tile<1x1xi32>
      %lefts = broadcast %left1 : tile<1x1xi32> -> tile<64x64xi32>
      %inside = cmpi less_than %lanes, %lefts, signed : tile<64x64xi32> -> tile<64x64xi1>
      %scores = select %inside, %raw, %low : tile<64x64xi1>, tile<64x64xf32>
      %best = reduce %scores dim=1 identities=[0xFF800000 : f32] : tile<64x64xf32> -> tile<64xf32>
        (%p: tile<f32>, %r: tile<f32>) {
          %s = maxf %p, %r : tile<f32>
          yield %s : tile<f32>
        }
      %best1 = reshape %best : tile<64xf32> -> tile<64x1xf32>
      %new = maxf %m, %best1 : tile<64x1xf32>
      %news = broadcast %new : tile<64x1xf32> -> tile<64x64xf32>
      %less = subf %scores, %news : tile<64x64xf32>
      %powers = exp %less : tile<64x64xf32>
      %fall = subf %m, %new : tile<64x1xf32>
      %keep = exp %fall : tile<64x1xf32>
      %keeps = broadcast %keep : tile<64x1xf32> -> tile<64x64xf32>
      %row = reduce %powers dim=1 identities=[0.0 : f32] : tile<64x64xf32> -> tile<64xf32>
        (%p: tile<f32>, %r: tile<f32>) {
          %s = addf %p, %r : tile<f32>
          yield %s : tile<f32>
        }
      %row1 = reshape %row : tile<64xf32> -> tile<64x1xf32>
      %lk = mulf %l, %keep : tile<64x1xf32>
      %ln = addf %lk, %row1 : tile<64x1xf32>
      %ak = mulf %a, %keeps : tile<64x64xf32>
      %half = ftof %powers : tile<64x64xf32> -> tile<64x64xf16>
      %vt, %tv = load_view_tko weak %vp[%i, %first] token = %t
          : partition_view<tile=(64x64), padding_value = zero,
              tensor_view<?x64xf16, strides=[64,1]>>,
            tile<i32> -> tile<64x64xf16>, token
      %an = mmaf %half, %vt, %ak : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      continue %new, %ln, %an : tile<64x1xf32>, tile<64x1xf32>, tile<64x64xf32>
    }
    %sums = broadcast %sum : tile<64x1xf32> -> tile<64x64xf32>
    %mean = divf %acc, %sums : tile<64x64xf32>
    %out = ftof %mean : tile<64x64xf32> -> tile<64x64xf16>
    %done = store_view_tko weak %out, %op[%x, %first] token = %t
        : tile<64x64xf16>, partition_view<tile=(64x64), tensor_view<?x64xf16, strides=[64,1]>>,
          tile<i32> -> token
    return
  }
}

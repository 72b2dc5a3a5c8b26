// c = a * b for row-major f16 matrices a (m x k) and b (k x n), f32 sums, f16 result.
// One tile block makes a 64 x 64 tile of c; launch with grid = (ceil(m / 64), ceil(n / 64), 1)
// and parameters a, b, c (pointers), m, n, k (i32, multiples of 8).
cuda_tile.module @examples {
  entry @matmul(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f16>>,
                %m0: tile<i32>, %n0: tile<i32>, %k0: tile<i32>) {
    %t = make_token : token
    %a16 = assume div_by<16>, %a : tile<ptr<f16>>
    %b16 = assume div_by<16>, %b : tile<ptr<f16>>
    %c16 = assume div_by<16>, %c : tile<ptr<f16>>
    %m1 = assume bounded<0, ?>, %m0 : tile<i32>
    %n1 = assume bounded<0, ?>, %n0 : tile<i32>
    %k1 = assume bounded<0, ?>, %k0 : tile<i32>
    %m = assume div_by<8>, %m1 : tile<i32>
    %n = assume div_by<8>, %n1 : tile<i32>
    %k = assume div_by<8>, %k1 : tile<i32>
    %av = make_tensor_view %a16, shape = [%m, %k], strides = [%k, 1]
        : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %bv = make_tensor_view %b16, shape = [%k, %n], strides = [%n, 1]
        : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %cv = make_tensor_view %c16, shape = [%m, %n], strides = [%n, 1]
        : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %ap = make_partition_view %av
        : partition_view<tile=(64x32), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %bp = make_partition_view %bv
        : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %cp = make_partition_view %cv
        : partition_view<tile=(64x64), tensor_view<?x?xf16, strides=[?,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %rows, %steps = get_index_space_shape %ap
        : partition_view<tile=(64x32), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
          -> tile<i32>
    %zero = constant <f32: 0.0> : tile<64x64xf32>
    %first = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %sum = for %i in (%first to %steps, step %one) : tile<i32>
        iter_values(%acc = %zero) -> (tile<64x64xf32>) {
      %at, %ta = load_view_tko weak %ap[%x, %i] token = %t
          : partition_view<tile=(64x32), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>,
            tile<i32> -> tile<64x32xf16>, token
      %bt, %tb = load_view_tko weak %bp[%i, %y] token = %t
          : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>,
            tile<i32> -> tile<32x64xf16>, token
      %next = mmaf %at, %bt, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
      continue %next : tile<64x64xf32>
    }
    %half = ftof %sum : tile<64x64xf32> -> tile<64x64xf16>
    %done = store_view_tko weak %half, %cp[%x, %y] token = %t
        : tile<64x64xf16>, partition_view<tile=(64x64), tensor_view<?x?xf16, strides=[?,1]>>,
          tile<i32> -> token
    return
  }
}

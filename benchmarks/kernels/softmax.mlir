// Softmax of every row of a (rows x 100) matrix of f32: the row lies in one tile, padded with -inf.
cuda_tile.module @kernels {
  entry @softmax(%source: tile<ptr<f32>>, %result: tile<ptr<f32>>, %rows: tile<i32>) {
    %t = make_token : token
    %sv = make_tensor_view %source, shape = [%rows, 100], strides = [100, 1]
        : tile<i32> -> tensor_view<?x100xf32, strides=[100,1]>
    %rv = make_tensor_view %result, shape = [%rows, 100], strides = [100, 1]
        : tile<i32> -> tensor_view<?x100xf32, strides=[100,1]>
    %sp = make_partition_view %sv
        : partition_view<tile=(4x128), padding_value = neg_inf,
            tensor_view<?x100xf32, strides=[100,1]>>
    %rp = make_partition_view %rv
        : partition_view<tile=(4x128), tensor_view<?x100xf32, strides=[100,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %tile, %t1 = load_view_tko weak %sp[%x, %zero] token = %t
        : partition_view<tile=(4x128), padding_value = neg_inf,
            tensor_view<?x100xf32, strides=[100,1]>>,
          tile<i32> -> tile<4x128xf32>, token
    %top = reduce %tile dim=1 identities=[0xFF800000 : f32] : tile<4x128xf32> -> tile<4xf32>
      (%a: tile<f32>, %b: tile<f32>) {
        %m = maxf %a, %b : tile<f32>
        yield %m : tile<f32>
      }
    %top1 = reshape %top : tile<4xf32> -> tile<4x1xf32>
    %tops = broadcast %top1 : tile<4x1xf32> -> tile<4x128xf32>
    %less = subf %tile, %tops : tile<4x128xf32>
    %powers = exp %less : tile<4x128xf32>
    %sum = reduce %powers dim=1 identities=[0.0 : f32] : tile<4x128xf32> -> tile<4xf32>
      (%a: tile<f32>, %b: tile<f32>) {
        %s = addf %a, %b : tile<f32>
        yield %s : tile<f32>
      }
    %sum1 = reshape %sum : tile<4xf32> -> tile<4x1xf32>
    %sums = broadcast %sum1 : tile<4x1xf32> -> tile<4x128xf32>
    %part = divf %powers, %sums : tile<4x128xf32>
    %done = store_view_tko weak %part, %rp[%x, %zero] token = %t1
        : tile<4x128xf32>, partition_view<tile=(4x128), tensor_view<?x100xf32, strides=[100,1]>>,
          tile<i32> -> token
    return
  }
}

// c[i] = a[i] + b[i] for i < n, 1024 elements a tile block.
// Launch with grid = (ceil(n / 1024), 1, 1) and parameters a, b, c (pointers), n (i32).
cuda_tile.module @examples {
  entry @vector_add(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %c: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %a16 = assume div_by<16>, %a : tile<ptr<f32>>
    %b16 = assume div_by<16>, %b : tile<ptr<f32>>
    %c16 = assume div_by<16>, %c : tile<ptr<f32>>
    %count = assume bounded<0, ?>, %n : tile<i32>
    %av = make_tensor_view %a16, shape = [%count], strides = [1]
        : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %bv = make_tensor_view %b16, shape = [%count], strides = [1]
        : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %cv = make_tensor_view %c16, shape = [%count], strides = [1]
        : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %ap = make_partition_view %av : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>
    %bp = make_partition_view %bv : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>
    %cp = make_partition_view %cv : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %at, %ta = load_view_tko weak %ap[%x] token = %t
        : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32>
          -> tile<1024xf32>, token
    %bt, %tb = load_view_tko weak %bp[%x] token = %t
        : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32>
          -> tile<1024xf32>, token
    %sum = addf %at, %bt : tile<1024xf32>
    %done = store_view_tko weak %sum, %cp[%x] token = %t
        : tile<1024xf32>, partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32>
          -> token
    return
  }
}

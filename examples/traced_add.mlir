// c[i] = a[i] + b[i] for i < n, 256 elements a tile block, as a kernel's Python program writes it:
// with places, scopes, hints, what is known of arguments, and numbers that nothing uses.
// Launch with grid = (ceil(n / 256), 1, 1) and a, n, stride of a, and so on for b and c.
#file = #cuda_tile.di_file<"add.py" in "/kernels">
#unit = #cuda_tile.di_compile_unit<file = #file>
#add = #cuda_tile.di_subprogram<
  file = #file, line = 4, name = "add", linkageName = "add_i32_256", compileUnit = #unit,
  scopeLine = 4>
#top = #cuda_tile.di_loc<loc("/kernels/add.py":4:0) in #add>
#a = #cuda_tile.di_loc<loc("/kernels/add.py":4:8) in #add>
#b = #cuda_tile.di_loc<loc("/kernels/add.py":4:11) in #add>
#c = #cuda_tile.di_loc<loc("/kernels/add.py":4:14) in #add>
#block = #cuda_tile.di_loc<loc("/kernels/add.py":5:10) in #add>
#first = #cuda_tile.di_loc<loc("/kernels/add.py":6:9) in #add>
#second = #cuda_tile.di_loc<loc("/kernels/add.py":7:9) in #add>
#sum = #cuda_tile.di_loc<loc("/kernels/add.py":8:24) in #add>
#store = #cuda_tile.di_loc<loc("/kernels/add.py":8:4) in #add>
cuda_tile.module @examples {
  entry @add_i32_256(
      %a: tile<ptr<i32>>, %an: tile<i32>, %as: tile<i32>,
      %b: tile<ptr<i32>>, %bn: tile<i32>, %bs: tile<i32>,
      %c: tile<ptr<i32>>, %cn: tile<i32>, %cs: tile<i32>) optimization_hints=<default = {}> {
    %t = make_token : token loc(#top)
    %a16 = assume div_by<16>, %a : tile<ptr<i32>> loc(#a)
    %an16 = assume div_by<16>, %an : tile<i32> loc(#a)
    %b16 = assume div_by<16>, %b : tile<ptr<i32>> loc(#b)
    %bn16 = assume div_by<16>, %bn : tile<i32> loc(#b)
    %c16 = assume div_by<16>, %c : tile<ptr<i32>> loc(#c)
    %cn16 = assume div_by<16>, %cn : tile<i32> loc(#c)
    %one = constant <i32: 1> : tile<i32> loc(#top)
    %other = constant <i32: 1> : tile<i32> loc(#top)
    %al = assume bounded<0, ?>, %an16 : tile<i32> loc(#top)
    %av = make_tensor_view %a16, shape = [%al], strides = [1]
        : tile<i32> -> tensor_view<?xi32, strides=[1]> loc(#top)
    %bl = assume bounded<0, ?>, %bn16 : tile<i32> loc(#top)
    %bv = make_tensor_view %b16, shape = [%bl], strides = [1]
        : tile<i32> -> tensor_view<?xi32, strides=[1]> loc(#top)
    %cl = assume bounded<0, ?>, %cn16 : tile<i32> loc(#top)
    %cv = make_tensor_view %c16, shape = [%cl], strides = [1]
        : tile<i32> -> tensor_view<?xi32, strides=[1]> loc(#top)
    %x, %y, %z = get_tile_block_id : tile<i32> loc(#block)
    %ap = make_partition_view %av
        : partition_view<tile=(256), tensor_view<?xi32, strides=[1]>> loc(#first)
    %at, %ta = load_view_tko weak %ap[%x] token = %t
        : partition_view<tile=(256), tensor_view<?xi32, strides=[1]>>, tile<i32>
          -> tile<256xi32>, token loc(#first)
    %bp = make_partition_view %bv
        : partition_view<tile=(256), tensor_view<?xi32, strides=[1]>> loc(#second)
    %bt, %tb = load_view_tko weak %bp[%x] token = %t
        : partition_view<tile=(256), tensor_view<?xi32, strides=[1]>>, tile<i32>
          -> tile<256xi32>, token loc(#second)
    %s = addi %at, %bt : tile<256xi32> loc(#sum)
    %cp = make_partition_view %cv
        : partition_view<tile=(256), tensor_view<?xi32, strides=[1]>> loc(#store)
    %done = store_view_tko weak %s, %cp[%x] token = %t
        : tile<256xi32>, partition_view<tile=(256), tensor_view<?xi32, strides=[1]>>, tile<i32>
          -> token loc(#store)
    return loc(#top)
  } loc(#top)
}

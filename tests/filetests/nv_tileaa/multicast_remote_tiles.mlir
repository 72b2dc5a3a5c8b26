// RUN: ...,multicast-remote-tiles
// CHECK: cluster = 4
// CHECK: in_rows
// CHECK: nv_tileaa.get_cluster_place
// CHECK: nv_tileaa.tiled_load
// CHECK: nv_tileaa.dot
// CHECK: nv_tileaa.if
// CHECK: nv_tileaa.tiled_store
cuda_tile.module @m {
entry @reads_an_operand_in_parts_once(%data: tile<ptr<f16>>, %table: tile<ptr<i64>>, %parts: tile<i32>,
                %tiles: tile<i32>, %b: tile<ptr<f16>>, %c: tile<ptr<f16>>, %m: tile<i32>,
                %n: tile<i32>, %k: tile<i32>) {
  %token = make_token : token
  %start = ptr_to_int %data : tile<ptr<f16>> -> tile<i64>
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %two = constant <i32: 2> : tile<i32>
  %three = constant <i32: 3> : tile<i32>
  %sum0 = constant <f32: 0.0> : tile<64x64xf32>
  %x, %y, %z = get_tile_block_id : tile<i32>
  %list0 = make_tensor_view %table, shape = [%parts, 5], strides = [5, 1]
    : tile<i32> -> tensor_view<?x5xi64, strides=[5,1]>
  %list = make_partition_view %list0
    : partition_view<tile=(1x8), tensor_view<?x5xi64, strides=[5,1]>>
  %stride = assume div_by<8>, %n : tile<i32>
  %part = divi %x, %tiles signed rounding<negative_inf> : tile<i32>
  %first = muli %part, %tiles : tile<i32>
  %i = subi %x, %first : tile<i32>
  %k8 = assume div_by<8>, %k : tile<i32>

  %Arow, %At = load_view_tko weak %list[%part, %zero]
    : partition_view<tile=(1x8), tensor_view<?x5xi64, strides=[5,1]>>, tile<i32>
      -> tile<1x8xi64>, token
  %Ae0 = extract %Arow[%zero, %zero] : tile<1x8xi64> -> tile<1x1xi64>
  %Ae1 = extract %Arow[%zero, %one] : tile<1x8xi64> -> tile<1x1xi64>
  %Ae2 = extract %Arow[%zero, %two] : tile<1x8xi64> -> tile<1x1xi64>
  %Ae3 = extract %Arow[%zero, %three] : tile<1x8xi64> -> tile<1x1xi64>
  %As0 = reshape %Ae0 : tile<1x1xi64> -> tile<i64>
  %As1 = reshape %Ae1 : tile<1x1xi64> -> tile<i64>
  %As2 = reshape %Ae2 : tile<1x1xi64> -> tile<i64>
  %As3 = reshape %Ae3 : tile<1x1xi64> -> tile<i64>
  %Aat = addi %start, %As0 : tile<i64>
  %Ap0 = int_to_ptr %Aat : tile<i64> -> tile<ptr<f16>>
  %Ap = assume div_by<16>, %Ap0 : tile<ptr<f16>>
  %Ad0 = trunci %As1 : tile<i64> -> tile<i32>
  %Ad1 = trunci %As2 : tile<i64> -> tile<i32>
  %Ad2 = trunci %As3 : tile<i64> -> tile<i32>
  %Am = assume bounded<0, ?>, %Ad0 : tile<i32>
  %An = assume bounded<0, ?>, %Ad1 : tile<i32>
  %Aq = assume div_by<8>, %Ad2 : tile<i32>
  %A = make_tensor_view %Ap, shape = [%Am, %An], strides = [%Aq, 1]
    : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>

  %Bp = assume div_by<16>, %b : tile<ptr<f16>>
  %B = make_tensor_view %Bp, shape = [%k, %n], strides = [%stride, 1]
    : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>

  %cp0 = assume div_by<16>, %c : tile<ptr<f16>>
  %cv = make_tensor_view %cp0, shape = [%m, %n], strides = [%stride, 1]
    : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
  %ap = make_partition_view %A
    : partition_view<tile=(64x32), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
  %bp = make_partition_view %B
    : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
  %cp = make_partition_view %cv
    : partition_view<tile=(64x64), tensor_view<?x?xf16, strides=[?,1]>>
  %steps:2 = get_index_space_shape %bp
    : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
      -> tile<i32>
  %sum = for %step in (%zero to %steps#0, step %one) : tile<i32>
      iter_values(%s = %sum0) -> (tile<64x64xf32>) {
    %ta, %tta = load_view_tko weak %ap[%i, %step] token = %token
      : partition_view<tile=(64x32), padding_value = zero,
          tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x32xf16>, token
    %tb, %ttb = load_view_tko weak %bp[%step, %y] token = %token
      : partition_view<tile=(32x64), padding_value = zero,
          tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<32x64xf16>, token
    %more = mmaf %ta, %tb, %s
      : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
    continue %more : tile<64x64xf32>
  }
  %half = ftof %sum rounding<nearest_even> : tile<64x64xf32> -> tile<64x64xf16>
  %done = store_view_tko weak %half, %cp[%x, %y] token = %token
    : tile<64x64xf16>, partition_view<tile=(64x64),
        tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> token
  return
}
}
// -----
// leaves_operands_that_are_both_looked_up
// CHECK-NOT: cluster =
// CHECK: nv_tileaa.dot
// CHECK-NOT: get_cluster_place
cuda_tile.module @m {
entry @leaves_operands_that_are_both_looked_up(%data: tile<ptr<f16>>, %table: tile<ptr<i64>>, %parts: tile<i32>,
                %tiles: tile<i32>, %b: tile<ptr<f16>>, %c: tile<ptr<f16>>, %m: tile<i32>,
                %n: tile<i32>, %k: tile<i32>) {
  %token = make_token : token
  %start = ptr_to_int %data : tile<ptr<f16>> -> tile<i64>
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %two = constant <i32: 2> : tile<i32>
  %three = constant <i32: 3> : tile<i32>
  %sum0 = constant <f32: 0.0> : tile<64x64xf32>
  %x, %y, %z = get_tile_block_id : tile<i32>
  %list0 = make_tensor_view %table, shape = [%parts, 5], strides = [5, 1]
    : tile<i32> -> tensor_view<?x5xi64, strides=[5,1]>
  %list = make_partition_view %list0
    : partition_view<tile=(1x8), tensor_view<?x5xi64, strides=[5,1]>>
  %stride = assume div_by<8>, %n : tile<i32>
  %part = divi %x, %tiles signed rounding<negative_inf> : tile<i32>
  %first = muli %part, %tiles : tile<i32>
  %i = subi %x, %first : tile<i32>
  %k8 = assume div_by<8>, %k : tile<i32>

  %Arow, %At = load_view_tko weak %list[%part, %zero]
    : partition_view<tile=(1x8), tensor_view<?x5xi64, strides=[5,1]>>, tile<i32>
      -> tile<1x8xi64>, token
  %Ae0 = extract %Arow[%zero, %zero] : tile<1x8xi64> -> tile<1x1xi64>
  %Ae1 = extract %Arow[%zero, %one] : tile<1x8xi64> -> tile<1x1xi64>
  %Ae2 = extract %Arow[%zero, %two] : tile<1x8xi64> -> tile<1x1xi64>
  %Ae3 = extract %Arow[%zero, %three] : tile<1x8xi64> -> tile<1x1xi64>
  %As0 = reshape %Ae0 : tile<1x1xi64> -> tile<i64>
  %As1 = reshape %Ae1 : tile<1x1xi64> -> tile<i64>
  %As2 = reshape %Ae2 : tile<1x1xi64> -> tile<i64>
  %As3 = reshape %Ae3 : tile<1x1xi64> -> tile<i64>
  %Aat = addi %start, %As0 : tile<i64>
  %Ap0 = int_to_ptr %Aat : tile<i64> -> tile<ptr<f16>>
  %Ap = assume div_by<16>, %Ap0 : tile<ptr<f16>>
  %Ad0 = trunci %As1 : tile<i64> -> tile<i32>
  %Ad1 = trunci %As2 : tile<i64> -> tile<i32>
  %Ad2 = trunci %As3 : tile<i64> -> tile<i32>
  %Am = assume bounded<0, ?>, %Ad0 : tile<i32>
  %An = assume bounded<0, ?>, %Ad1 : tile<i32>
  %Aq = assume div_by<8>, %Ad2 : tile<i32>
  %A = make_tensor_view %Ap, shape = [%Am, %An], strides = [%Aq, 1]
    : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>

  %Brow, %Bt = load_view_tko weak %list[%part, %zero]
    : partition_view<tile=(1x8), tensor_view<?x5xi64, strides=[5,1]>>, tile<i32>
      -> tile<1x8xi64>, token
  %Be0 = extract %Brow[%zero, %zero] : tile<1x8xi64> -> tile<1x1xi64>
  %Be1 = extract %Brow[%zero, %one] : tile<1x8xi64> -> tile<1x1xi64>
  %Be2 = extract %Brow[%zero, %two] : tile<1x8xi64> -> tile<1x1xi64>
  %Be3 = extract %Brow[%zero, %three] : tile<1x8xi64> -> tile<1x1xi64>
  %Bs0 = reshape %Be0 : tile<1x1xi64> -> tile<i64>
  %Bs1 = reshape %Be1 : tile<1x1xi64> -> tile<i64>
  %Bs2 = reshape %Be2 : tile<1x1xi64> -> tile<i64>
  %Bs3 = reshape %Be3 : tile<1x1xi64> -> tile<i64>
  %Bat = addi %start, %Bs0 : tile<i64>
  %Bp0 = int_to_ptr %Bat : tile<i64> -> tile<ptr<f16>>
  %Bp = assume div_by<16>, %Bp0 : tile<ptr<f16>>
  %Bd0 = trunci %Bs1 : tile<i64> -> tile<i32>
  %Bd1 = trunci %Bs2 : tile<i64> -> tile<i32>
  %Bd2 = trunci %Bs3 : tile<i64> -> tile<i32>
  %Bm = assume bounded<0, ?>, %Bd0 : tile<i32>
  %Bn = assume bounded<0, ?>, %Bd1 : tile<i32>
  %Bq = assume div_by<8>, %Bd2 : tile<i32>
  %B = make_tensor_view %Bp, shape = [%Bm, %Bn], strides = [%Bq, 1]
    : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>

  %cp0 = assume div_by<16>, %c : tile<ptr<f16>>
  %cv = make_tensor_view %cp0, shape = [%m, %n], strides = [%stride, 1]
    : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
  %ap = make_partition_view %A
    : partition_view<tile=(64x32), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
  %bp = make_partition_view %B
    : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
  %cp = make_partition_view %cv
    : partition_view<tile=(64x64), tensor_view<?x?xf16, strides=[?,1]>>
  %steps:2 = get_index_space_shape %bp
    : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
      -> tile<i32>
  %sum = for %step in (%zero to %steps#0, step %one) : tile<i32>
      iter_values(%s = %sum0) -> (tile<64x64xf32>) {
    %ta, %tta = load_view_tko weak %ap[%i, %step] token = %token
      : partition_view<tile=(64x32), padding_value = zero,
          tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x32xf16>, token
    %tb, %ttb = load_view_tko weak %bp[%step, %y] token = %token
      : partition_view<tile=(32x64), padding_value = zero,
          tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<32x64xf16>, token
    %more = mmaf %ta, %tb, %s
      : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
    continue %more : tile<64x64xf32>
  }
  %half = ftof %sum rounding<nearest_even> : tile<64x64xf32> -> tile<64x64xf16>
  %done = store_view_tko weak %half, %cp[%x, %y] token = %token
    : tile<64x64xf16>, partition_view<tile=(64x64),
        tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> token
  return
}
}

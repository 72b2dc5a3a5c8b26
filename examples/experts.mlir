// Experts of a mixture-of-experts layer: out = tokens[chosen] * weights[expert].
// A tile block computes 128 tokens of one expert (%bx) and 128 columns (%by). %S lists the rows of
// %T that belong together, %E the expert of each 128 of them; a row that is none (a number not less
// than %rows) gives zeros.
cuda_tile.module @moe {
  entry @experts(%T: tile<ptr<f16>>, %W: tile<ptr<f16>>, %O: tile<ptr<f32>>, %S: tile<ptr<i32>>,
                 %E: tile<ptr<i32>>, %rows: tile<i32>, %depth: tile<i32>, %columns: tile<i32>,
                 %experts: tile<i32>, %total: tile<i32>) {
    %T1 = assume div_by<16>, %T : tile<ptr<f16>>
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
    %places = addi %f2, %ri : tile<128xi32>
    %sp1 = reshape %S : tile<ptr<i32>> -> tile<1xptr<i32>>
    %sp2 = broadcast %sp1 : tile<1xptr<i32>> -> tile<128xptr<i32>>
    %sp = offset %sp2, %places : tile<128xptr<i32>>, tile<128xi32> -> tile<128xptr<i32>>
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

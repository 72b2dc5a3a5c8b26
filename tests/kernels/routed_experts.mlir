// A layer of experts on gathered tokens, slots sorted by expert, 8 tiles of rows at a time: `routed_gemm` of benchmarks/gpu.
cuda_tile.module @m {
entry @routed(%arg0: tile<ptr<f16>>, %arg1: tile<i32>, %arg2: tile<i32>, %arg3: tile<i32>, %arg4: tile<i32>, %arg5: tile<ptr<f16>>, %arg6: tile<i32>, %arg7: tile<i32>, %arg8: tile<i32>, %arg9: tile<i32>, %arg10: tile<i32>, %arg11: tile<i32>, %arg12: tile<ptr<f16>>, %arg13: tile<i32>, %arg14: tile<i32>, %arg15: tile<i32>, %arg16: tile<i32>, %arg17: tile<ptr<i32>>, %arg18: tile<i32>, %arg19: tile<i32>, %arg20: tile<ptr<i32>>, %arg21: tile<i32>, %arg22: tile<i32>) optimization_hints=<sm_90 = {}> {
  %0 = make_token : token
  %assume = assume div_by<16>, %arg0 : tile<ptr<f16>>
  %assume_0 = assume div_by<16>, %arg1 : tile<i32>
  %assume_1 = assume div_by<16>, %arg2 : tile<i32>
  %assume_2 = assume div_by<8>, %arg3 : tile<i32>
  %assume_3 = assume div_by<16>, %arg5 : tile<ptr<f16>>
  %assume_4 = assume div_by<16>, %arg6 : tile<i32>
  %assume_5 = assume div_by<16>, %arg7 : tile<i32>
  %assume_6 = assume div_by<16>, %arg8 : tile<i32>
  %assume_7 = assume div_by<8>, %arg9 : tile<i32>
  %assume_8 = assume div_by<8>, %arg10 : tile<i32>
  %assume_9 = assume div_by<16>, %arg12 : tile<ptr<f16>>
  %assume_10 = assume div_by<16>, %arg13 : tile<i32>
  %assume_11 = assume div_by<16>, %arg14 : tile<i32>
  %assume_12 = assume div_by<8>, %arg15 : tile<i32>
  %assume_13 = assume div_by<16>, %arg17 : tile<ptr<i32>>
  %assume_14 = assume div_by<16>, %arg18 : tile<i32>
  %assume_15 = assume div_by<16>, %arg20 : tile<ptr<i32>>
  %cst_0_i32 = constant <i32: 0> : tile<128xi32>
  %cst_6_i32 = constant <i32: 6> : tile<128xi32>
  %assume_assume = assume bounded<0, ?>, %assume_0 : tile<i32>
  %assume_assume_16 = assume bounded<0, ?>, %assume_1 : tile<i32>
  %assume_assume_17 = assume bounded<0, ?>, %assume_2 : tile<i32>
  %assume_assume_18 = assume bounded<0, ?>, %assume_4 : tile<i32>
  %assume_assume_19 = assume bounded<0, ?>, %assume_5 : tile<i32>
  %assume_assume_20 = assume bounded<0, ?>, %assume_6 : tile<i32>
  %assume_assume_21 = assume bounded<0, ?>, %assume_7 : tile<i32>
  %assume_assume_22 = assume bounded<0, ?>, %assume_8 : tile<i32>
  %tview = make_tensor_view %assume_3, shape = [%assume_assume_18, %assume_assume_19, %assume_assume_20], strides = [%assume_assume_21, %assume_assume_22, 1] : tile<i32> -> tensor_view<?x?x?xf16, strides=[?,?,1]>
  %assume_assume_23 = assume bounded<0, ?>, %assume_10 : tile<i32>
  %assume_assume_24 = assume bounded<0, ?>, %assume_11 : tile<i32>
  %assume_assume_25 = assume bounded<0, ?>, %assume_12 : tile<i32>
  %assume_assume_26 = assume bounded<0, ?>, %assume_14 : tile<i32>
  %assume_27 = assume bounded<0, ?>, %arg21 : tile<i32>
  %tview_28 = make_tensor_view %assume_15, shape = [%assume_27], strides = [1] : tile<i32> -> tensor_view<?xi32, strides=[1]>
  %cst_128_i32 = constant <i32: 128> : tile<i32>
  %cst_64_i32 = constant <i32: 64> : tile<i32>
  %1 = divi %assume_assume_26, %cst_128_i32 signed rounding<positive_inf> : tile<i32>
  %2 = divi %assume_assume_19, %cst_128_i32 signed rounding<positive_inf> : tile<i32>
  %blockId_x, %blockId_y, %blockId_z = get_tile_block_id : tile<i32>
  %cst_8_i32 = constant <i32: 8> : tile<i32>
  %3 = muli %2, %cst_8_i32 : tile<i32>
  %4 = divi %blockId_x, %3 signed rounding<negative_inf> : tile<i32>
  %5 = muli %4, %cst_8_i32 : tile<i32>
  %6 = subi %1, %5 : tile<i32>
  %7 = mini %6, %cst_8_i32 signed : tile<i32>
  %8 = remi %blockId_x, %7 signed : tile<i32>
  %cst_0_i32_29 = constant <i32: 0> : tile<i32>
  %9 = cmpi less_than %8, %cst_0_i32_29, signed : tile<i32> -> tile<i1>
  %10 = cmpi less_than %7, %cst_0_i32_29, signed : tile<i32> -> tile<i1>
  %11 = xori %9, %10 : tile<i1>
  %12 = cmpi not_equal %8, %cst_0_i32_29, signed : tile<i32> -> tile<i1>
  %13 = andi %11, %12 : tile<i1>
  %14 = addi %8, %7 : tile<i32>
  %15 = select %13, %14, %8 : tile<i1>, tile<i32>
  %16 = addi %5, %15 : tile<i32>
  %17 = remi %blockId_x, %3 signed : tile<i32>
  %18 = cmpi less_than %17, %cst_0_i32_29, signed : tile<i32> -> tile<i1>
  %19 = cmpi less_than %3, %cst_0_i32_29, signed : tile<i32> -> tile<i1>
  %20 = xori %18, %19 : tile<i1>
  %21 = cmpi not_equal %17, %cst_0_i32_29, signed : tile<i32> -> tile<i1>
  %22 = andi %20, %21 : tile<i1>
  %23 = addi %17, %3 : tile<i32>
  %24 = select %22, %23, %17 : tile<i1>, tile<i32>
  %25 = divi %24, %7 signed rounding<negative_inf> : tile<i32>
  %26 = muli %16, %cst_128_i32 : tile<i32>
  %27 = iota : tile<128xi32>
  %reshape = reshape %26 : tile<i32> -> tile<1xi32>
  %bcast = broadcast %reshape : tile<1xi32> -> tile<128xi32>
  %28 = addi %bcast, %27 : tile<128xi32>
  %29 = exti %28 signed : tile<128xi32> -> tile<128xi64>
  %30 = exti %assume_assume_26 signed : tile<i32> -> tile<i64>
  %reshape_30 = reshape %30 : tile<i64> -> tile<1xi64>
  %bcast_31 = broadcast %reshape_30 : tile<1xi64> -> tile<128xi64>
  %31 = cmpi less_than %29, %bcast_31, unsigned : tile<128xi64> -> tile<128xi1>
  %reshape_32 = reshape %assume_13 : tile<ptr<i32>> -> tile<1xptr<i32>>
  %bcast_33 = broadcast %reshape_32 : tile<1xptr<i32>> -> tile<128xptr<i32>>
  %32 = offset %bcast_33, %29 : tile<128xptr<i32>>, tile<128xi64> -> tile<128xptr<i32>>
  %result, %result_token = load_ptr_tko weak %32, %31, %cst_0_i32 token=%0 : tile<128xptr<i32>>, tile<128xi1>, tile<128xi32> -> tile<128xi32>, token
  %33 = divi %result, %cst_6_i32 signed rounding<negative_inf> : tile<128xi32>
  %pview = make_partition_view %tview_28 : partition_view<tile=(1), tensor_view<?xi32, strides=[1]>>
  %tile, %result_token_34 = load_view_tko weak %pview[%16] token = %0 : partition_view<tile=(1), tensor_view<?xi32, strides=[1]>>, tile<i32> -> tile<1xi32>, token
  %reshape_35 = reshape %tile : tile<1xi32> -> tile<i32>
  %cst_0_f32 = constant <f32: 0.000000e+00> : tile<128x128xf32>
  %34 = divi %assume_assume_20, %cst_64_i32 signed rounding<positive_inf> : tile<i32>
  %cst_1_i32 = constant <i32: 1> : tile<i32>
  %35 = iota : tile<64xi32>
  %reshape_36 = reshape %33 : tile<128xi32> -> tile<128x1xi32>
  %36 = exti %reshape_36 signed : tile<128x1xi32> -> tile<128x1xi64>
  %bcast_37 = broadcast %36 : tile<128x1xi64> -> tile<128x64xi64>
  %37 = exti %assume_assume signed : tile<i32> -> tile<i64>
  %reshape_38 = reshape %37 : tile<i64> -> tile<1x1xi64>
  %bcast_39 = broadcast %reshape_38 : tile<1x1xi64> -> tile<128x64xi64>
  %38 = cmpi less_than %bcast_37, %bcast_39, unsigned : tile<128x64xi64> -> tile<128x64xi1>
  %39 = exti %assume_assume_17 signed : tile<i32> -> tile<i64>
  %reshape_40 = reshape %39 : tile<i64> -> tile<1x1xi64>
  %bcast_41 = broadcast %reshape_40 : tile<1x1xi64> -> tile<128x64xi64>
  %40 = muli %bcast_37, %bcast_41 : tile<128x64xi64>
  %41 = exti %assume_assume_16 signed : tile<i32> -> tile<i64>
  %reshape_42 = reshape %41 : tile<i64> -> tile<1x1xi64>
  %bcast_43 = broadcast %reshape_42 : tile<1x1xi64> -> tile<128x64xi64>
  %reshape_44 = reshape %assume : tile<ptr<f16>> -> tile<1x1xptr<f16>>
  %bcast_45 = broadcast %reshape_44 : tile<1x1xptr<f16>> -> tile<128x64xptr<f16>>
  %cst_0_f16 = constant <f16: 0.000000e+00> : tile<128x64xf16>
  %pview_46 = make_partition_view %tview : partition_view<tile=(1x64x128), padding_value = zero, tensor_view<?x?x?xf16, strides=[?,?,1]>, dim_map=[0, 2, 1]>
  %for = for %loopIdx in (%cst_0_i32_29 to %34, step %cst_1_i32) : tile<i32> iter_values(%iterArg0 = %cst_0_f32) -> (tile<128x128xf32>) {
    %57 = muli %loopIdx, %cst_64_i32 : tile<i32>
    %reshape_61 = reshape %57 : tile<i32> -> tile<1xi32>
    %bcast_62 = broadcast %reshape_61 : tile<1xi32> -> tile<64xi32>
    %58 = addi %bcast_62, %35 : tile<64xi32>
    %reshape_63 = reshape %58 : tile<64xi32> -> tile<1x64xi32>
    %59 = exti %reshape_63 signed : tile<1x64xi32> -> tile<1x64xi64>
    %bcast_64 = broadcast %59 : tile<1x64xi64> -> tile<128x64xi64>
    %60 = cmpi less_than %bcast_64, %bcast_43, unsigned : tile<128x64xi64> -> tile<128x64xi1>
    %61 = andi %38, %60 : tile<128x64xi1>
    %62 = addi %40, %bcast_64 : tile<128x64xi64>
    %63 = offset %bcast_45, %62 : tile<128x64xptr<f16>>, tile<128x64xi64> -> tile<128x64xptr<f16>>
    %result_65, %result_token_66 = load_ptr_tko weak %63, %61, %cst_0_f16 token=%0 : tile<128x64xptr<f16>>, tile<128x64xi1>, tile<128x64xf16> -> tile<128x64xf16>, token
    %tile_67, %result_token_68 = load_view_tko weak %pview_46[%reshape_35, %loopIdx, %25] token = %0 : partition_view<tile=(1x64x128), padding_value = zero, tensor_view<?x?x?xf16, strides=[?,?,1]>, dim_map=[0, 2, 1]>, tile<i32> -> tile<1x64x128xf16>, token
    %reshape_69 = reshape %tile_67 : tile<1x64x128xf16> -> tile<64x128xf16>
    %64 = mmaf %result_65, %reshape_69, %iterArg0 : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
    continue %64 : tile<128x128xf32>
  }
  %42 = muli %25, %cst_128_i32 : tile<i32>
  %reshape_47 = reshape %42 : tile<i32> -> tile<1xi32>
  %bcast_48 = broadcast %reshape_47 : tile<1xi32> -> tile<128xi32>
  %43 = addi %bcast_48, %27 : tile<128xi32>
  %reshape_49 = reshape %result : tile<128xi32> -> tile<128x1xi32>
  %reshape_50 = reshape %43 : tile<128xi32> -> tile<1x128xi32>
  %44 = ftof %for  : tile<128x128xf32> -> tile<128x128xf16>
  %45 = exti %reshape_49 signed : tile<128x1xi32> -> tile<128x1xi64>
  %bcast_51 = broadcast %45 : tile<128x1xi64> -> tile<128x128xi64>
  %46 = exti %assume_assume_23 signed : tile<i32> -> tile<i64>
  %reshape_52 = reshape %46 : tile<i64> -> tile<1x1xi64>
  %bcast_53 = broadcast %reshape_52 : tile<1x1xi64> -> tile<128x128xi64>
  %47 = cmpi less_than %bcast_51, %bcast_53, unsigned : tile<128x128xi64> -> tile<128x128xi1>
  %48 = exti %assume_assume_25 signed : tile<i32> -> tile<i64>
  %reshape_54 = reshape %48 : tile<i64> -> tile<1x1xi64>
  %bcast_55 = broadcast %reshape_54 : tile<1x1xi64> -> tile<128x128xi64>
  %49 = muli %bcast_51, %bcast_55 : tile<128x128xi64>
  %50 = exti %reshape_50 signed : tile<1x128xi32> -> tile<1x128xi64>
  %bcast_56 = broadcast %50 : tile<1x128xi64> -> tile<128x128xi64>
  %51 = exti %assume_assume_24 signed : tile<i32> -> tile<i64>
  %reshape_57 = reshape %51 : tile<i64> -> tile<1x1xi64>
  %bcast_58 = broadcast %reshape_57 : tile<1x1xi64> -> tile<128x128xi64>
  %52 = cmpi less_than %bcast_56, %bcast_58, unsigned : tile<128x128xi64> -> tile<128x128xi1>
  %53 = andi %47, %52 : tile<128x128xi1>
  %54 = addi %49, %bcast_56 : tile<128x128xi64>
  %reshape_59 = reshape %assume_9 : tile<ptr<f16>> -> tile<1x1xptr<f16>>
  %bcast_60 = broadcast %reshape_59 : tile<1x1xptr<f16>> -> tile<128x128xptr<f16>>
  %55 = offset %bcast_60, %54 : tile<128x128xptr<f16>>, tile<128x128xi64> -> tile<128x128xptr<f16>>
  %56 = store_ptr_tko weak %55, %44, %53 token=%0 : tile<128x128xptr<f16>>, tile<128x128xf16>, tile<128x128xi1> -> token
  return
}
}

entry @scale_rows_Kt1_A2f32_1v4l0_2t1_p16_A1f32_1t1_p16_Si32_Sf32_I64(%arg0: tile<ptr<f32>>, %arg1: tile<i32>, %arg2: tile<i32>, %arg3: tile<i32>, %arg4: tile<i32>, %arg5: tile<ptr<f32>>, %arg6: tile<i32>, %arg7: tile<i32>, %arg8: tile<i32>, %arg9: tile<f32>) optimization_hints=<sm_90 = {}> {
  %0 = make_token : token loc(#loc20)
  %assume = assume div_by<16>, %arg0 : tile<ptr<f32>> loc(#loc21)
  %assume_0 = assume div_by<4>, %arg3 : tile<i32> loc(#loc21)
  %assume_1 = assume div_by<16>, %arg5 : tile<ptr<f32>> loc(#loc22)
  %cst_1_i32 = constant <i32: 1> : tile<i32> loc(#loc20)
  %cst_1_i32_2 = constant <i32: 1> : tile<i32> loc(#loc20)
  %assume_3 = assume bounded<0, ?>, %arg1 : tile<i32> loc(#loc20)
  %assume_4 = assume bounded<0, ?>, %arg2 : tile<i32> loc(#loc20)
  %assume_assume = assume bounded<0, ?>, %assume_0 : tile<i32> loc(#loc20)
  %assume_assume_assume = assume div_by<4>, %assume_assume : tile<i32> loc(#loc20)
  %tview = make_tensor_view %assume, shape = [%assume_3, %assume_4], strides = [%assume_assume_assume, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]> loc(#loc20)
  %assume_5 = assume bounded<0, ?>, %arg6 : tile<i32> loc(#loc20)
  %tview_6 = make_tensor_view %assume_1, shape = [%assume_5], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]> loc(#loc20)
  %cst_64_i32 = constant <i32: 64> : tile<i32> loc(#loc20)
  %blockId_x, %blockId_y, %blockId_z = get_tile_block_id : tile<i32> loc(#loc23)
  %1 = muli %blockId_x, %cst_64_i32 : tile<i32> loc(#loc24)
  %2 = subi %arg8, %1 : tile<i32> loc(#loc25)
  %cst_0_f32 = constant <f32: 0.000000e+00> : tile<64xf32> loc(#loc26)
  %cst_0_i32 = constant <i32: 0> : tile<i32> loc(#loc27)
  %cst_1_i32_7 = constant <i32: 1> : tile<i32> loc(#loc27)
  %for = for %loopIdx in (%cst_0_i32 to %arg8, step %cst_1_i32_7) : tile<i32> iter_values(%iterArg0 = %cst_0_f32) -> (tile<64xf32>) {
    %pview = make_partition_view %tview : partition_view<tile=(1x64), tensor_view<?x?xf32, strides=[?,1]>> loc(#loc29)
    %tile, %result_token = load_view_tko weak %pview[%loopIdx, %blockId_x] token = %0 : partition_view<tile=(1x64), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> tile<1x64xf32>, token loc(#loc29)
    %reshape_9 = reshape %tile : tile<1x64xf32> -> tile<64xf32> loc(#loc30)
    %6 = addf %iterArg0, %reshape_9  : tile<64xf32> loc(#loc31)
    continue %6 : tile<64xf32> loc(#loc28)
  } loc(#loc28)
  %cst_2_f32 = constant <f32: 2.000000e+00> : tile<f32> loc(#loc32)
  %3 = mulf %arg9, %cst_2_f32  : tile<f32> loc(#loc33)
  %reshape = reshape %3 : tile<f32> -> tile<1xf32> loc(#loc34)
  %bcast = broadcast %reshape : tile<1xf32> -> tile<64xf32> loc(#loc34)
  %4 = mulf %for, %bcast  : tile<64xf32> loc(#loc34)
  %cst_0_i32_8 = constant <i32: 0> : tile<i32> loc(#loc35)
  %5 = cmpi greater_than %2, %cst_0_i32_8, signed : tile<i32> -> tile<i1> loc(#loc36)
  if %5 {
    %pview = make_partition_view %tview_6 : partition_view<tile=(64), tensor_view<?xf32, strides=[1]>> loc(#loc38)
    %6 = store_view_tko weak %4, %pview[%blockId_x] token = %0 : tile<64xf32>, partition_view<tile=(64), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token loc(#loc38)
  } else {
  } loc(#loc37)
  return loc(#loc19)
} loc(#loc20)
#di_file = #cuda_tile.di_file<"scale_rows.py" in "@FOLDER@">
#loc = loc("@FOLDER@/scale_rows.py":5:0)
#loc1 = loc("@FOLDER@/scale_rows.py":5:15)
#loc2 = loc("@FOLDER@/scale_rows.py":5:18)
#loc3 = loc("@FOLDER@/scale_rows.py":6:12)
#loc4 = loc("@FOLDER@/scale_rows.py":7:15)
#loc5 = loc("@FOLDER@/scale_rows.py":7:11)
#loc6 = loc("@FOLDER@/scale_rows.py":8:12)
#loc7 = loc("@FOLDER@/scale_rows.py":9:16)
#loc8 = loc("@FOLDER@/scale_rows.py":9:4)
#loc9 = loc("@FOLDER@/scale_rows.py":10:15)
#loc10 = loc("@FOLDER@/scale_rows.py":11:24)
#loc11 = loc("@FOLDER@/scale_rows.py":11:16)
#loc12 = loc("@FOLDER@/scale_rows.py":12:21)
#loc13 = loc("@FOLDER@/scale_rows.py":12:12)
#loc14 = loc("@FOLDER@/scale_rows.py":13:13)
#loc15 = loc("@FOLDER@/scale_rows.py":14:14)
#loc16 = loc("@FOLDER@/scale_rows.py":14:7)
#loc17 = loc("@FOLDER@/scale_rows.py":14:4)
#loc18 = loc("@FOLDER@/scale_rows.py":15:8)
#loc19 = loc(unknown)
#di_compile_unit = #cuda_tile.di_compile_unit<file = #di_file>
#di_subprogram = #cuda_tile.di_subprogram<file = #di_file, line = 4, name = "scale_rows", linkageName = "scale_rows_Kt1_A2f32_1v4l0_2t1_p16_A1f32_1t1_p16_Si32_Sf32_I64", compileUnit = #di_compile_unit, scopeLine = 4>
#loc20 = #cuda_tile.di_loc<#loc in #di_subprogram>
#loc21 = #cuda_tile.di_loc<#loc1 in #di_subprogram>
#loc22 = #cuda_tile.di_loc<#loc2 in #di_subprogram>
#loc23 = #cuda_tile.di_loc<#loc3 in #di_subprogram>
#loc24 = #cuda_tile.di_loc<#loc4 in #di_subprogram>
#loc25 = #cuda_tile.di_loc<#loc5 in #di_subprogram>
#loc26 = #cuda_tile.di_loc<#loc6 in #di_subprogram>
#loc27 = #cuda_tile.di_loc<#loc7 in #di_subprogram>
#loc28 = #cuda_tile.di_loc<#loc8 in #di_subprogram>
#loc29 = #cuda_tile.di_loc<#loc9 in #di_subprogram>
#loc30 = #cuda_tile.di_loc<#loc10 in #di_subprogram>
#loc31 = #cuda_tile.di_loc<#loc11 in #di_subprogram>
#loc32 = #cuda_tile.di_loc<#loc12 in #di_subprogram>
#loc33 = #cuda_tile.di_loc<#loc13 in #di_subprogram>
#loc34 = #cuda_tile.di_loc<#loc14 in #di_subprogram>
#loc35 = #cuda_tile.di_loc<#loc15 in #di_subprogram>
#loc36 = #cuda_tile.di_loc<#loc16 in #di_subprogram>
#loc37 = #cuda_tile.di_loc<#loc17 in #di_subprogram>
#loc38 = #cuda_tile.di_loc<#loc18 in #di_subprogram>

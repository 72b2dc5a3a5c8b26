"""Text of operations with regions and branches."""

# ruff: noqa: E501 (text as it is printed)
from __future__ import annotations

STRUCTURED = """\
#blocked0 = #nv_tileas.layout<{register = [], lane = [[1], [2], [4], [0], [0]], warp = []} -> 8>
builtin.module {
  nv_tileaa.func @all(%arg0: i32, %arg1: f32, %arg2: i1) attributes {num_warps = 4, clustered} {
    %cst = nv_tileaa.constant dense<-5.000000e-01> : tensor<8xf32, #blocked0>
    %cst_1 = nv_tileaa.constant dense<[1, -2, 3, 4, 5, 6, 7, 8]> : tensor<8xi8>
    %cst_2 = nv_tileaa.constant 0x7FC00001 : f32
    %true = nv_tileaa.constant true : i1
    %0:2 = nv_tileaa.for %i = %arg0 to %arg0 step %arg0 iter_args(%a = %true, %b = %arg1) -> (i1, f32) : i32 {
      nv_tileaa.continue %a, %b : i1, f32
    }
    nv_tileaa.for unsigned %iv = %arg0 to %arg0 step %arg0 : i32 attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 2>} {
      nv_tileaa.loop attributes {schedule = #nv_tileaa.op_schedule<stage = 0, order = 1>} {
        nv_tileaa.break
      }
      nv_tileaa.if %arg2 attributes {schedule = #nv_tileaa.op_schedule<stage = 1, order = 0>} {
        nv_tileaa.yield
      }
      nv_tileaa.continue
    }
    %1 = nv_tileaa.loop iter_args(%arg3 = %arg1) : (f32) -> (f32) {
      nv_tileaa.break %arg3 : f32
    }
    nv_tileaa.loop {
      nv_tileaa.continue
    }
    %2 = nv_tileaa.if %0#0 -> (f32) {
      nv_tileaa.yield %1 : f32
    } else {
      nv_tileaa.yield %0#1 : f32
    }
    %3:2 = nv_tileaa.reduce (%cst, %cst_1) dim 0 identities [0xFF800000 : f32, -128 : i8] (%x: f32, %y: f32, %z: i8, %w: i8) {
      nv_tileaa.yield %y, %w : f32, i8
    } : (tensor<8xf32, #blocked0>, tensor<8xi8>) -> (f32, i8)
    nv_tileaa.if %arg2 {
      nv_tileaa.return
    }
    nv_tileaa.return
  }
}
"""


BRANCHES = """\
builtin.module {
  llvm.func @threads(%arg0: i1, %arg1: i32) attributes {kernel, reqntid = [128], min_ctas = 2} {
    %cst = llvm.constant dense<[0, -1]> : vector<2xi32>
    %c7_i64 = llvm.constant 7 : i64
    %cst_1 = llvm.constant 0x7FC00001 : f32
    llvm.br ^bb1(%arg1, %arg0 : i32, i1)
  ^bb1(%arg2: i32, %arg3: i1):
    llvm.cond_br %arg3, ^bb2, ^bb1(%arg2, %arg0 : i32, i1) {no_unroll}
  ^bb2:
    llvm.br ^bb3 {no_unroll}
  ^bb3:
    llvm.cond_br %arg0, ^bb4, ^bb5 {is_rare}
  ^bb4:
    llvm.cond_br %arg0, ^bb3, ^bb5 {no_unroll} {is_rare}
  ^bb5:
    llvm.return
  }
}
"""

"""What verifies and what does not: control flow, entries, globals, whole modules."""

from __future__ import annotations

LOOP = "for %i in (%v_i32 to %v_i32, step %v_i32) : tile<i32>"

ACCEPTED: dict[str, tuple[str, ...]] = {
    "for": (
        f"{LOOP} {{\n}}",
        f"%r:2 = {LOOP} iter_values(%a = %v_8_f32, %t = %tok) -> (tile<8xf32>, token) {{\n"
        "continue %a, %t : tile<8xf32>, token\n}",
        "for unsigned %i in (%v_i64 to %v_i64, step %v_i64) : tile<i64> {\n}",
    ),
    "if": (
        "if %v_i1 {\n}",
        "%r = if %v_i1 -> (tile<f32>) {\nyield %v_f32 : tile<f32>\n} else {\n"
        "yield %v_f32 : tile<f32>\n}",
        "if %v_i1 {\nreturn\n} else {\nyield\n}",
    ),
    "loop": (
        "%r = loop iter_values(%a = %v_f32) : tile<f32> -> tile<i32> {\n"
        "if %v_i1 {\nbreak %v_i32 : tile<i32>\n}\ncontinue %a : tile<f32>\n}",
        "loop {\nbreak\n}",
        "%r = loop : tile<i32> {\nbreak %v_i32 : tile<i32>\n}",
    ),
    "break": ("loop {\nif %v_i1 {\nif %v_i1 {\nbreak\n}\n}\n}",),
    "continue": (f"{LOOP} {{\nif %v_i1 {{\ncontinue\n}}\n}}",),
    "yield": ("if %v_i1 {\nyield\n}",),
    "return": (
        "if %v_i1 {\nreturn\n}\nreturn",
        "loop {\nif %v_i1 {\nreturn\n}\nbreak\n}",
    ),
}

REJECTED: tuple[tuple[str, str, str], ...] = (
    (
        "for",
        "for %i in (%v_8_i32 to %v_8_i32, step %v_8_i32) : tile<8xi32> {\n}",
        "operand #0 must be 0D tile of i1 or i8 or i16 or i32 or i64 values",
    ),
    (
        "for",
        f"%r = {LOOP} iter_values(%a = %tv) -> (tensor_view<?x?xf32, strides=[?,1]>) {{\n"
        "continue %a : tensor_view<?x?xf32, strides=[?,1]>\n}",
        "initial value 0 has type tensor_view<?x?xf32, strides=[?,1]>, expected a tile or a token",
    ),
    (
        "for",
        f"%r = {LOOP} iter_values(%a = %v_f32) -> (tile<f32>) {{\n}}",
        "body is empty, expected continue",
    ),
    ("if", "if %v_8_i1 {\n}", "operand #0 must be 0D tile of i1 values"),
    (
        "if",
        "%r = if %v_i1 -> (tile<f32>) {\nyield %v_f32 : tile<f32>\n}",
        "has 1 results and no else region, expected one",
    ),
    (
        "yield",
        "%r = if %v_i1 -> (tile<f32>) {\nyield %v_i32 : tile<i32>\n} else {\n"
        "yield %v_f32 : tile<f32>\n}",
        "operand 0 has type tile<i32>, expected tile<f32> (the results of the if)",
    ),
    ("yield", f"{LOOP} {{\nyield\n}}", "body ends in 'yield', expected continue"),
    (
        "loop",
        "%r = loop iter_values(%a = %tv) : tensor_view<?x?xf32, strides=[?,1]> -> tile<i32> {\n"
        "break %v_i32 : tile<i32>\n}",
        "initial value 0 has type tensor_view<?x?xf32, strides=[?,1]>, expected a tile or a token",
    ),
    (
        "break",
        "%r = loop : tile<i32> {\nbreak\n}",
        "has 0 operands, expected 1 (the results of the loop)",
    ),
    ("break", f"{LOOP} {{\nif %v_i1 {{\nbreak\n}}\n}}", "leaves 'for', expected 'loop'"),
    ("continue", "if %v_i1 {\ncontinue\n}", "continues no loop, expected 'for' or 'loop'"),
    (
        "continue",
        "loop iter_values(%a = %v_f32) : tile<f32> {\ncontinue %v_i32 : tile<i32>\n}",
        "operand 0 has type tile<i32>, expected tile<f32> (the initial values of the loop)",
    ),
    ("return", f"{LOOP} {{\nif %v_i1 {{\nreturn\n}}\n}}", "is in 'for', expected 'entry'"),
    (
        "return",
        "return %v_i32 : tile<i32>",
        "has 1 operands, expected 0 (an entry returns nothing)",
    ),
    (
        "return",
        'return\nassert %v_i1, "late" : tile<i1>\nreturn',
        "is followed by 'assert', expected the end of the block",
    ),
)

GLOBAL = "global @g <f32: [1.0, 2.0]> : tile<2xf32>\n"

ACCEPTED_MODULES: tuple[str, ...] = (
    "entry @k() {\n}",
    'cuda_tile.module @m attributes {producer = "me"} {\n  entry @k(%a: tile<i32>) {\n  }\n}',
    "entry @a() {\n}\nentry @b() optimization_hints=<default = {occupancy = 2}> {\n}",
    GLOBAL + "entry @k() {\n%0 = get_global @g : tile<ptr<f32>>\n}",
    "global private constant @g alignment = 16 <i32: 1> : tile<4xi32>\nentry @k() {\n}",
)

REJECTED_MODULES: tuple[tuple[str, str, str], ...] = (
    ("entry", "entry @k() {\n}\nentry @k() {\n}", "defines symbol 'k' again"),
    (
        "entry",
        "entry @k(%a: tile<4xi32>) {\n}",
        "argument 0 has type tile<4xi32>, expected a scalar tile",
    ),
    ("entry", "entry @k(%a: token) {\n}", "argument 0 has type token, expected a scalar tile"),
    (
        "global",
        "global @g <f32: 1.0> : tile<f32>\nentry @k() {\n}",
        "value has rank 0, expected 1",
    ),
    (
        "global",
        "global @g alignment = 3 <f32: 1.0> : tile<2xf32>\nentry @k() {\n}",
        "has alignment 3, expected 0 or a power of two",
    ),
    (
        "get_global",
        GLOBAL + "entry @k() {\n%0 = get_global @h : tile<ptr<f32>>\n}",
        "refers to 'h', expected a global of the module",
    ),
    (
        "get_global",
        GLOBAL + "entry @k() {\n%0 = get_global @g : tile<ptr<i32>>\n}",
        "result points to i32, expected f32",
    ),
)

REJECTED_TYPES: tuple[tuple[str, str], ...] = (
    ("tile<3xi32>", "tile has size 3 in dim 0, expected a power of two"),
    ("tile<16777216x2xi8>", "tile has 33554432 elements, expected at most 16777216"),
    ("tile<f4E2M1FN>", "tile of f4E2M1FN has no dim of even size, expected one"),
    ("tile<i7>", "tile has element type i7, expected a number or pointer type"),
    ("tile<token>", "tile has element type"),
    ("ptr<i4>", "ptr has pointee i4, expected a number type"),
    ("tensor_view<4xf32, strides=[1,1]>", "tensor_view has 2 strides, expected 1"),
    ("tensor_view<0xf32, strides=[1]>", "tensor_view has size 0 in dim 0"),
    (
        "partition_view<tile=(3), tensor_view<8xf32, strides=[1]>>",
        "partition_view tile has size 3 in dim 0, expected a power of two",
    ),
    (
        "partition_view<tile=(4x4), tensor_view<8xf32, strides=[1]>>",
        "partition_view has a tile of rank 2, expected 1 (the rank of the tensor_view)",
    ),
    (
        "partition_view<tile=(4), tensor_view<8xf32, strides=[1]>, dim_map=[1]>",
        "partition_view has dim_map [1], expected a permutation of 0 to 0",
    ),
    (
        "partition_view<tile=(4), padding_value = nan, tensor_view<8xi32, strides=[1]>>",
        "partition_view has padding value nan with element type i32, expected zero",
    ),
    (
        "strided_view<tile=(4), traversal_strides=[0], tensor_view<8xf32, strides=[1]>>",
        "strided_view has traversal stride 0 in dim 0, expected at least 1",
    ),
    (
        "gather_scatter_view<tile=(4), tensor_view<8xf32, strides=[1]>, sparse_dim=1>",
        "gather_scatter_view has sparse_dim 1, expected 0 <= sparse_dim < 1",
    ),
)
"""A type and the message; used as the type of an argument."""

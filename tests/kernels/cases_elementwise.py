"""What verifies and what does not: elementwise operations and conversions."""

from __future__ import annotations

F, H, D, N, B = "tile<8xf32>", "tile<8xf16>", "tile<8xf64>", "tile<8xi32>", "tile<8xi1>"

ACCEPTED: dict[str, tuple[str, ...]] = {
    "absf": (f"%0 = absf %v_8_f32 : {F}", "%0 = absf %v_bf16 : tile<bf16>"),
    "absi": (f"%0 = absi %v_8_i32 : {N}", "%0 = absi %v_i1 : tile<i1>"),
    "addf": (
        f"%0 = addf %v_8_f32, %v_8_f32 rounding<zero> flush_to_zero : {F}",
        f"%0 = addf %v_8_f16, %v_8_f16 rounding<negative_inf> : {H}",
    ),
    "addi": (f"%0 = addi %v_8_i32, %v_8_i32 overflow<no_wrap> : {N}",),
    "ceil": (f"%0 = ceil %v_8_f64 : {D}",),
    "cmpf": (f"%0 = cmpf less_than unordered %v_8_f32, %v_8_f32 : {F} -> {B}",),
    "cmpi": (f"%0 = cmpi equal %v_8_i32, %v_8_i32, signed : {N} -> {B}",),
    "divf": (
        f"%0 = divf %v_8_f32, %v_8_f32 rounding<approx> flush_to_zero : {F}",
        f"%0 = divf %v_8_f32, %v_8_f32 rounding<full> : {F}",
        f"%0 = divf %v_8_f64, %v_8_f64 rounding<positive_inf> : {D}",
    ),
    "divi": (
        f"%0 = divi %v_8_i32, %v_8_i32 signed rounding<negative_inf> : {N}",
        f"%0 = divi %v_8_i32, %v_8_i32 unsigned rounding<positive_inf> : {N}",
    ),
    "floor": (f"%0 = floor %v_8_f16 : {H}",),
    "fma": (f"%0 = fma %v_8_f32, %v_8_f32, %v_8_f32 rounding<zero> flush_to_zero : {F}",),
    "maxf": (f"%0 = maxf %v_8_f32, %v_8_f32 flush_to_zero propagate_nan : {F}",),
    "maxi": (f"%0 = maxi %v_8_i32, %v_8_i32 unsigned : {N}",),
    "minf": (f"%0 = minf %v_8_f16, %v_8_f16 propagate_nan : {H}",),
    "mini": (f"%0 = mini %v_8_i32, %v_8_i32 signed : {N}",),
    "mulf": (f"%0 = mulf %v_8_f32, %v_8_f32 : {F}",),
    "mulhii": (f"%0 = mulhii %v_8_i32, %v_8_i32 : {N}",),
    "muli": (f"%0 = muli %v_8_i32, %v_8_i32 overflow<no_signed_wrap> : {N}",),
    "negf": (f"%0 = negf %v_8_f32 : {F}",),
    "negi": (f"%0 = negi %v_8_i32 overflow<no_signed_wrap> : {N}",),
    "remf": (f"%0 = remf %v_8_f64, %v_8_f64 : {D}",),
    "remi": (f"%0 = remi %v_8_i32, %v_8_i32 signed : {N}",),
    "select": (
        f"%0 = select %v_8_i1, %v_8_f32, %v_8_f32 : {B}, {F}",
        f"%0 = select %v_8_i1, %p_8_f32, %p_8_f32 : {B}, tile<8xptr<f32>>",
    ),
    "subf": (f"%0 = subf %v_8_f32, %v_8_f32 : {F}",),
    "subi": (f"%0 = subi %v_8_i32, %v_8_i32 : {N}",),
    "andi": (f"%0 = andi %v_8_i1, %v_8_i1 : {B}",),
    "ori": (f"%0 = ori %v_8_i32, %v_8_i32 : {N}",),
    "xori": (f"%0 = xori %v_8_i32, %v_8_i32 : {N}",),
    "shli": (f"%0 = shli %v_8_i32, %v_8_i32 overflow<no_unsigned_wrap> : {N}",),
    "shri": (f"%0 = shri %v_8_i32, %v_8_i32 unsigned : {N}",),
    "cos": (f"%0 = cos %v_8_f32 : {F}",),
    "cosh": (f"%0 = cosh %v_8_f32 : {F}",),
    "exp": (
        f"%0 = exp %v_8_f32 rounding<approx> : {F}",
        f"%0 = exp %v_8_f16 : {H}",
    ),
    "exp2": (f"%0 = exp2 %v_8_f32 flush_to_zero : {F}",),
    "log": (f"%0 = log %v_8_f32 : {F}",),
    "log2": (f"%0 = log2 %v_8_f32 : {F}",),
    "pow": (f"%0 = fpowf %v_8_f32, %v_8_f32 : {F}", f"%0 = pow %v_8_f16, %v_8_f16 : {H}"),
    "rsqrt": (f"%0 = rsqrt %v_8_f32 flush_to_zero : {F}",),
    "sin": (f"%0 = sin %v_8_f32 : {F}",),
    "sinh": (f"%0 = sinh %v_8_f32 : {F}",),
    "sqrt": (
        f"%0 = sqrt %v_8_f32 rounding<approx> flush_to_zero : {F}",
        f"%0 = sqrt %v_8_f64 rounding<negative_inf> : {D}",
    ),
    "tan": (f"%0 = tan %v_8_f32 : {F}",),
    "tanh": (f"%0 = tanh %v_8_f32 rounding<approx> : {F}", f"%0 = tanh %v_8_f64 : {D}"),
    "atan2": (f"%0 = atan2 %v_8_f32, %v_8_f32 : {F}",),
    "fpowi": (f"%0 = fpowi %v_8_f32, %v_8_i16 : {F}, tile<8xi16>",),
    "bitcast": (
        f"%0 = bitcast %v_8_f32 : {F} -> {N}",
        "%0 = bitcast %v_8_f8E5M2 : tile<8xf8E5M2> -> tile<8xi8>",
    ),
    "exti": (
        f"%0 = exti %v_8_i1 unsigned : {B} -> {N}",
        "%0 = trunci %v_8_i8 : tile<8xi8> -> tile<8xi4>\n"
        "%1 = exti %0 signed : tile<8xi4> -> tile<8xi32>",
    ),
    "ftof": (
        f"%0 = ftof %v_8_f32 rounding<zero> : {F} -> {H}",
        f"%0 = ftof %v_8_f16 : {H} -> {F}",
        f"%0 = ftof %v_8_f32 rounding<nearest_away> : {F} -> tile<8xtf32>",
    ),
    "ftoi": (f"%0 = ftoi %v_8_f32 signed saturating : {F} -> {N}",),
    "int_to_ptr": ("%0 = int_to_ptr %v_8_i64 : tile<8xi64> -> tile<8xptr<f32>>",),
    "itof": (f"%0 = itof %v_8_i32 unsigned : {N} -> {F}",),
    "ptr_to_int": ("%0 = ptr_to_int %p_8_f32 : tile<8xptr<f32>> -> tile<8xi64>",),
    "ptr_to_ptr": ("%0 = ptr_to_ptr %p_8_f32 : tile<8xptr<f32>> -> tile<8xptr<i8>>",),
    "trunci": (f"%0 = trunci %v_8_i32 overflow<no_wrap> : {N} -> tile<8xi8>",),
    "pack": (
        f"%0 = pack %v_8_f32 : {F} -> tile<32xi8>",
        "%0 = trunci %v_8_i8 : tile<8xi8> -> tile<8xi4>\n%1 = pack %0 : tile<8xi4> -> tile<4xi8>",
    ),
    "unpack": ("%0 = unpack %v_32_i8 : tile<32xi8> -> tile<8xf32>",),
}
"""Operation -> bodies that verify."""

BASE = "must be tile of f16 or bf16 or f32 or f64 values, but got"
INTEGERS = "must be tile of i1 or i8 or i16 or i32 or i64 values, but got"

REJECTED: tuple[tuple[str, str, str], ...] = (
    *(
        (op, f"%0 = {op} %v_8_i32 : {N}", f"operand #0 {BASE} '!cuda_tile.tile<8xi32>'")
        for op in [
            "absf",
            "ceil",
            "cos",
            "cosh",
            "exp",
            "exp2",
            "floor",
            "log",
            "log2",
            "negf",
            "rsqrt",
            "sin",
            "sinh",
            "sqrt",
            "tan",
            "tanh",
        ]
    ),
    *(
        (op, f"%0 = {op} %v_8_i32, %v_8_i32 : {N}", f"operand #0 {BASE} '!cuda_tile.tile<8xi32>'")
        for op in ["addf", "atan2", "divf", "maxf", "minf", "mulf", "pow", "remf", "subf"]
    ),
    *(
        (op, f"%0 = {op} %v_8_f32 : {F}", f"operand #0 {INTEGERS} '!cuda_tile.tile<8xf32>'")
        for op in ("absi", "negi")
    ),
    *(
        (
            op,
            f"%0 = {op} %v_8_f32, %v_8_f32 : {F}",
            f"operand #0 {INTEGERS} '!cuda_tile.tile<8xf32>'",
        )
        for op in ["addi", "andi", "mulhii", "muli", "ori", "shli", "subi", "xori"]
    ),
    *(
        (
            op,
            f"%0 = {op} %v_8_f32, %v_8_f32 signed : {F}",
            f"operand #0 {INTEGERS} '!cuda_tile.tile<8xf32>'",
        )
        for op in ["divi", "maxi", "mini", "remi", "shri"]
    ),
    (
        "addf",
        f"%0 = addf %v_8_f32, %v_8_f32 rounding<approx> : {F}",
        "invalid rounding mode specified, expect one of [nearest_even, zero, negative_inf, "
        "positive_inf]",
    ),
    (
        "mulf",
        f"%0 = mulf %v_8_f16, %v_8_f16 flush_to_zero : {H}",
        "flush_to_zero modifier only supported for f32 data type, but got: 'f16'",
    ),
    (
        "divf",
        f"%0 = divf %v_8_f64, %v_8_f64 rounding<full> : {D}",
        "full modifier only supported for f32 data type, but got: 'f64'",
    ),
    (
        "divi",
        f"%0 = divi %v_8_i32, %v_8_i32 unsigned rounding<negative_inf> : {N}",
        "has rounding mode negative_inf with unsigned, expected signed",
    ),
    (
        "divi",
        f"%0 = divi %v_8_i32, %v_8_i32 signed rounding<nearest_even> : {N}",
        "invalid rounding mode specified, expect one of [zero, negative_inf, positive_inf]",
    ),
    (
        "fma",
        f"%0 = fma %v_8_f32, %v_8_f32, %v_8_f32 rounding<full> : {F}",
        "invalid rounding mode specified, expect one of [nearest_even, zero, negative_inf, "
        "positive_inf]",
    ),
    (
        "negi",
        f"%0 = negi %v_8_i32 overflow<no_unsigned_wrap> : {N}",
        "has overflow no_unsigned_wrap, expected none",
    ),
    (
        "cmpf",
        f"%0 = cmpf equal ordered %v_8_i32, %v_8_i32 : {N} -> {B}",
        f"operand #0 {BASE} '!cuda_tile.tile<8xi32>'",
    ),
    (
        "cmpi",
        f"%0 = cmpi equal %v_8_i32, %v_8_i32, signed : {N} -> {N}",
        "result #0 must be tile of i1 values, but got '!cuda_tile.tile<8xi32>'",
    ),
    (
        "cmpi",
        f"%0 = cmpi equal %v_8_i32, %v_8_i32, signed : {N} -> tile<4xi1>",
        "failed to verify that all of {lhs, result} have same shape, but got [8] and [4]",
    ),
    (
        "select",
        f"%0 = select %v_8_i32, %v_8_f32, %v_8_f32 : {N}, {F}",
        "operand #0 must be tile of i1 values, but got '!cuda_tile.tile<8xi32>'",
    ),
    (
        "select",
        "%0 = select %v_8_i1, %v_8_f4E2M1FN, %v_8_f4E2M1FN : tile<8xi1>, tile<8xf4E2M1FN>",
        "has element type f4E2M1FN",
    ),
    (
        "exp",
        f"%0 = exp %v_8_f16 rounding<approx> : {H}",
        "approx modifier only supported for f32 data type, but got: 'f16'",
    ),
    (
        "tanh",
        f"%0 = tanh %v_8_f32 rounding<zero> : {F}",
        "invalid rounding mode specified, expect one of [approx, full], but got: 'zero'",
    ),
    (
        "sqrt",
        f"%0 = sqrt %v_8_f32 rounding<full> : {F}",
        "invalid rounding mode specified, expect one of [nearest_even, zero, negative_inf, "
        "positive_inf, approx]",
    ),
    (
        "fpowi",
        f"%0 = fpowi %v_8_f32, %v_8_i64 : {F}, tile<8xi64>",
        "operand #1 must be tile of i1 or i8 or i16 or i32 values",
    ),
    (
        "bitcast",
        f"%0 = bitcast %v_8_f32 : {F} -> {H}",
        "result has 16-bit elements, expected 32 (as the source)",
    ),
    (
        "exti",
        f"%0 = exti %v_8_i32 signed : {N} -> {N}",
        "result has 32-bit elements, expected more than 32",
    ),
    (
        "trunci",
        "%0 = trunci %v_8_i8 : tile<8xi8> -> tile<8xi32>",
        "result has 32-bit elements, expected fewer than 8",
    ),
    (
        "ftof",
        f"%0 = ftof %v_8_f32 : {F} -> {F}",
        "converts f32 to itself, expected two different element types",
    ),
    (
        "ftof",
        f"%0 = ftof %v_8_f32 rounding<positive_inf> : {F} -> {H}",
        "invalid rounding mode specified, expect one of [nearest_even, zero]",
    ),
    (
        "ftoi",
        f"%0 = ftoi %v_8_f32 signed rounding<zero> : {F} -> {N}",
        "invalid rounding mode specified, expect one of [nearest_int_to_zero], but got: 'zero'",
    ),
    (
        "int_to_ptr",
        f"%0 = int_to_ptr %v_8_i32 : {N} -> tile<8xptr<f32>>",
        "operand #0 must be tile of i64 values, but got '!cuda_tile.tile<8xi32>'",
    ),
    (
        "itof",
        f"%0 = itof %v_8_i32 signed rounding<zero> : {N} -> {F}",
        "invalid rounding mode specified, expect one of [nearest_even], but got: 'zero'",
    ),
    (
        "itof",
        f"%0 = itof %v_8_i32 signed : {N} -> tile<8xf8E8M0FNU>",
        "result has element type f8E8M0FNU, expected a float type with a zero",
    ),
    (
        "ptr_to_int",
        f"%0 = ptr_to_int %p_8_f32 : tile<8xptr<f32>> -> {N}",
        "result #0 must be tile of i64 values, but got '!cuda_tile.tile<8xi32>'",
    ),
    (
        "ptr_to_ptr",
        "%0 = ptr_to_ptr %p_8_f32 : tile<8xptr<f32>> -> tile<4xptr<i8>>",
        "failed to verify that all of {source, result} have same shape, but got [8] and [4]",
    ),
    (
        "pack",
        f"%0 = pack %v_8_f32 : {F} -> tile<16xi8>",
        "result has 128 bits, expected 256 (as the source)",
    ),
    (
        "pack",
        "%0 = pack %v_8_i8 : tile<8xi8> -> tile<8xi8>",
        "source and result have 8-bit elements, expected different widths",
    ),
    (
        "unpack",
        "%0 = unpack %v_4x8_i8 : tile<4x8xi8> -> tile<8xf32>",
        "source has rank 2, expected 1",
    ),
)
"""Operation, body, and a part of the message."""

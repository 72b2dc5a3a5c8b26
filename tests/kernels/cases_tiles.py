"""What verifies and what does not: tiles, matrices, reductions, assumptions."""

from __future__ import annotations

IDENTITY = "(%x: tile<f32>, %y: tile<f32>) {\n%s = addf %x, %y : tile<f32>\nyield %s : tile<f32>\n}"

ACCEPTED: dict[str, tuple[str, ...]] = {
    "broadcast": ("%0 = broadcast %v_1x8_f32 : tile<1x8xf32> -> tile<4x8xf32>",),
    "cat": (
        "%0 = cat %v_4x8_f32, %v_4x8_f32 dim = 0 : tile<4x8xf32>, tile<4x8xf32> -> tile<8x8xf32>",
    ),
    "constant": (
        "%0 = constant <i32: [[1, 2], [3, -4]]> : tile<2x2xi32>",
        "%0 = constant <f8E4M3FN: 0x7F> : tile<4xf8E4M3FN>",
        "%0 = constant <i1: true> : tile<i1>",
    ),
    "extract": (
        "%0 = extract %v_8x8_f32[%v_i32, %v_i32] : tile<8x8xf32> -> tile<4x2xf32>",
        "%0 = extract %v_f32[] : tile<f32> -> tile<f32>",
    ),
    "insert": ("%0 = insert %v_4_f32, %v_8_f32[%v_i32] : tile<4xf32>, tile<8xf32>",),
    "iota": ("%0 = iota : tile<256xi8>", "%0 = iota : tile<2xi1>"),
    "offset": (
        "%0 = offset %p_8_f32, %v_8_i16 : tile<8xptr<f32>>, tile<8xi16> -> tile<8xptr<f32>>",
    ),
    "permute": ("%0 = permute %v_2x4x8_f32 [2, 0, 1] : tile<2x4x8xf32> -> tile<8x2x4xf32>",),
    "reshape": ("%0 = reshape %v_4x8_f32 : tile<4x8xf32> -> tile<2x16xf32>",),
    "assume": (
        "%0 = assume div_by<16>, %v_i32 : tile<i32>",
        "%0 = assume div_by<4, every 2 along 0>, %v_8_i32 : tile<8xi32>",
        "%0 = assume div_by<1>, %p_8_f32 : tile<8xptr<f32>>",
        "%0 = assume same_elements<[2, 8]>, %v_4x8_i32 : tile<4x8xi32>",
        "%0 = assume bounded<-3, 7>, %v_8_i8 : tile<8xi8>",
        "%0 = assume #cuda_tile.bounded<?, ?>, %v_i64 : tile<i64>",
    ),
    "get_num_tile_blocks": ("%0, %1, %2 = get_num_tile_blocks : tile<i32>",),
    "get_tile_block_id": ("%0:3 = get_tile_block_id : tile<i32>",),
    "mmaf": (
        "%0 = mmaf %v_4x8_f16, %v_8x2_f16, %v_4x2_f16 : "
        "tile<4x8xf16>, tile<8x2xf16>, tile<4x2xf16>",
        "%0 = mmaf %v_2x4x8_bf16, %v_2x8x2_bf16, %v_2x4x2_f32 fast_acc : "
        "tile<2x4x8xbf16>, tile<2x8x2xbf16>, tile<2x4x2xf32>",
    ),
    "mmai": (
        "%0 = mmai %v_4x8_i8, %v_8x2_i8, %v_4x2_i32 signed unsigned : "
        "tile<4x8xi8>, tile<8x2xi8>, tile<4x2xi32>",
    ),
    "mmaf_scaled": (
        "%0 = mmaf_scaled %v_4x64_f8E4M3FN, %v_64x8_f8E4M3FN, %v_4x8_f32, %v_4x2_f8E8M0FNU, "
        "%v_2x8_f8E8M0FNU : tile<4x64xf8E4M3FN>, tile<64x8xf8E4M3FN>, tile<4x8xf32>, "
        "tile<4x2xf8E8M0FNU>, tile<2x8xf8E8M0FNU>",
    ),
    "reduce": (
        "%0 = reduce %v_4x8_f32 dim=1 identities=[0.0 : f32] : tile<4x8xf32> -> "
        f"tile<4xf32> {IDENTITY}",
        "%0:2 = reduce %v_8_f32, %v_8_i32 dim=0 identities=[0.0 : f32, 0 : i32] : "
        "tile<8xf32>, tile<8xi32> -> tile<f32>, tile<i32> "
        "(%a: tile<f32>, %b: tile<f32>, %c: tile<i32>, %d: tile<i32>) {\n"
        "%s = divi %c, %d signed : tile<i32>\nyield %a, %s : tile<f32>, tile<i32>\n}",
    ),
    "scan": (
        f"%0 = scan %v_4x8_f32 dim=0 reverse=true identities=[0.0 : f32] : "
        f"tile<4x8xf32> -> tile<4x8xf32> {IDENTITY}",
    ),
    "alloca": (
        "%0 = alloca num_elem = 4, alignment = 16 : tile<ptr<f32>>",
        "%0 = alloca num_elem = 0, alignment = 8 global : tile<ptr<f64>>",
    ),
}

REJECTED: tuple[tuple[str, str, str], ...] = (
    (
        "broadcast",
        "%0 = broadcast %v_2x8_f32 : tile<2x8xf32> -> tile<4x8xf32>",
        "result has size 4 in dim 0, expected 2 (as the source)",
    ),
    (
        "broadcast",
        "%0 = broadcast %v_8_f32 : tile<8xf32> -> tile<4x8xf32>",
        "result has rank 2, expected 1 (as the source)",
    ),
    (
        "cat",
        "%0 = cat %v_4x8_f32, %v_4x8_f32 dim = 2 : tile<4x8xf32>, tile<4x8xf32> -> tile<8x8xf32>",
        "has dim 2, expected 0 <= dim < 2 (the rank of the operand)",
    ),
    (
        "cat",
        "%0 = cat %v_4x8_f32, %v_4x8_f32 dim = 1 : tile<4x8xf32>, tile<4x8xf32> -> tile<8x8xf32>",
        "result has size 8 in dim 0, expected 4",
    ),
    (
        "constant",
        "%0 = constant <i32: [1, 2]> : tile<4xi32>",
        "constant has shape [2], expected [4]",
    ),
    ("constant", "%0 = constant <i8: 256> : tile<4xi8>", "element 256 does not fit i8"),
    ("constant", "%0 = constant <f16: 1.0> : tile<4xf32>", "elements have type f16, expected f32"),
    ("constant", "%0 = constant <i4: 1> : tile<4xi4>", "constant has element type i4"),
    (
        "extract",
        "%0 = extract %v_8_f32[%v_i64] : tile<8xf32> -> tile<4xf32>",
        "operand #1 must be 0D tile of i32 values, but got '!cuda_tile.tile<i64>'",
    ),
    (
        "extract",
        "%0 = extract %v_4_f32[%v_i32] : tile<4xf32> -> tile<8xf32>",
        "result has size 8 in dim 0, expected a divisor of 4 (as the source)",
    ),
    (
        "insert",
        "%0 = insert %v_4_f32, %v_8x8_f32[%v_i32, %v_i32] : tile<4xf32>, tile<8x8xf32>",
        "source has rank 1, expected 2 (as the destination)",
    ),
    ("iota", "%0 = iota : tile<512xi8>", "result has 512 elements, expected at most 2^8"),
    ("iota", "%0 = iota : tile<2x2xi32>", "result has rank 2, expected 1"),
    (
        "offset",
        "%0 = offset %p_8_f32, %v_4_i32 : tile<8xptr<f32>>, tile<4xi32> -> tile<8xptr<f32>>",
        "failed to verify that all of {ptr, offset} have same shape, but got [8] and [4]",
    ),
    (
        "permute",
        "%0 = permute %v_4x8_f32 [0, 1, 2] : tile<4x8xf32> -> tile<8x4xf32>",
        "permutation has 3 elements, expected 2 (the rank of the source)",
    ),
    (
        "permute",
        "%0 = permute %v_4x8_f32 [1, 1] : tile<4x8xf32> -> tile<8x4xf32>",
        "permutation is [1, 1], expected a permutation of 0 to 1",
    ),
    (
        "permute",
        "%0 = permute %v_8_f32 [0] : tile<8xf32> -> tile<8xf32>",
        "source has rank 1, expected at least 2",
    ),
    (
        "reshape",
        "%0 = reshape %v_4x8_f32 : tile<4x8xf32> -> tile<4x4xf32>",
        "result has 16 elements, expected 32 (as the source)",
    ),
    (
        "assume",
        "%0 = assume div_by<3>, %v_i32 : tile<i32>",
        "has divisor 3, expected a power of two of at most 2^62",
    ),
    (
        "assume",
        "%0 = assume div_by<4, every 2 along 0>, %v_i32 : tile<i32>",
        "div_by of a scalar has every and along, expected neither",
    ),
    (
        "assume",
        "%0 = assume div_by<4, every 16 along 0>, %v_8_i32 : tile<8xi32>",
        "div_by has every 16, expected 0 <= every <= 8 (the size)",
    ),
    (
        "assume",
        "%0 = assume div_by<4>, %v_f32 : tile<f32>",
        "value of div_by has element type f32, expected integer or Pointer type",
    ),
    (
        "assume",
        "%0 = assume same_elements<[2]>, %v_4x8_i32 : tile<4x8xi32>",
        "same_elements has 1 elements, expected 2 (the rank of the value)",
    ),
    (
        "assume",
        "%0 = assume bounded<0, 200>, %v_i8 : tile<i8>",
        "has bound 200, expected -128 to 127 (the range of i8)",
    ),
    (
        "assume",
        "%0 = assume bounded<7, 3>, %v_i8 : tile<i8>",
        "has bounds 7 and 3, expected the lower one first",
    ),
    (
        "get_num_tile_blocks",
        "%0:3 = get_num_tile_blocks : tile<i64>",
        "result #0 must be 0D tile of i32 values, but got '!cuda_tile.tile<i64>'",
    ),
    (
        "get_tile_block_id",
        "%0:3 = get_tile_block_id : tile<4xi32>",
        "result #0 must be 0D tile of i32 values, but got '!cuda_tile.tile<4xi32>'",
    ),
    (
        "mmaf",
        "%0 = mmaf %v_4x8_bf16, %v_8x2_bf16, %v_4x2_f16 : "
        "tile<4x8xbf16>, tile<8x2xbf16>, tile<4x2xf16>",
        "acc has element type f16, expected f32 for operands of bf16",
    ),
    (
        "mmaf",
        "%0 = mmaf %v_4x8_f16, %v_4x2_f16, %v_4x2_f32 : "
        "tile<4x8xf16>, tile<4x2xf16>, tile<4x2xf32>",
        "rhs has shape [4, 2], expected [8, 2] for lhs of [4, 8]",
    ),
    (
        "mmai",
        "%0 = mmai %v_4x8_i16, %v_8x2_i16, %v_4x2_i32 signed signed : "
        "tile<4x8xi16>, tile<8x2xi16>, tile<4x2xi32>",
        "operand #0 must be tile of i8 values, but got '!cuda_tile.tile<4x8xi16>'",
    ),
    (
        "mmaf_scaled",
        "%0 = mmaf_scaled %v_4x64_f8E4M3FN, %v_64x8_f8E4M3FN, %v_4x8_f32, %v_4x4_f8E8M0FNU, "
        "%v_4x8_f8E8M0FNU : tile<4x64xf8E4M3FN>, tile<64x8xf8E4M3FN>, tile<4x8xf32>, "
        "tile<4x4xf8E8M0FNU>, tile<4x8xf8E8M0FNU>",
        "lhs_scale has shape [4, 4], expected [4, 2]",
    ),
    (
        "reduce",
        "%0 = reduce %v_4x8_f32 dim=2 identities=[0.0 : f32] : tile<4x8xf32> -> "
        f"tile<4xf32> {IDENTITY}",
        "has dim 2, expected 0 <= dim < 2 (the rank of the operand)",
    ),
    (
        "reduce",
        "%0 = reduce %v_4x8_f32 dim=0 identities=[0.0 : f32] : tile<4x8xf32> -> "
        f"tile<4xf32> {IDENTITY}",
        "result 0 has type tile<4xf32>, expected tile<8xf32> (the operands without dim)",
    ),
    (
        "reduce",
        f"%0 = reduce %v_8_f32 dim=0 identities=[0 : i32] : tile<8xf32> -> tile<f32> {IDENTITY}",
        "identity 0 has type i32, expected f32 (as the operand)",
    ),
    (
        "reduce",
        "%0 = reduce %v_8_f32 dim=0 identities=[0.0 : f32] : tile<8xf32> -> tile<f32> "
        '(%x: tile<f32>, %y: tile<f32>) {\n%t = print_tko "hello" -> token\n'
        "yield %x : tile<f32>\n}",
        "body has 'print_tko', expected operations without effects",
    ),
    (
        "reduce",
        "%0 = reduce %v_8_i32 dim=0 identities=[0 : i32] : tile<8xi32> -> tile<i32> "
        "(%x: tile<i32>, %y: tile<i32>) {\n%z = assume div_by<2>, %x : tile<i32>\n"
        "yield %z : tile<i32>\n}",
        "body has 'assume', expected operations without effects",
    ),
    (
        "scan",
        "%0 = scan %v_8_f32 dim=0 reverse=false identities=[] : tile<8xf32> -> "
        f"tile<8xf32> {IDENTITY}",
        "has 0 identities, expected 1 (one per operand)",
    ),
    (
        "scan",
        f"%0 = scan %v_8_f32 dim=0 reverse=false identities=[0.0 : f32] : tile<8xf32> -> tile<f32> "
        f"{IDENTITY}",
        "result 0 has type tile<f32>, expected tile<8xf32> (the operands)",
    ),
    (
        "alloca",
        "%0 = alloca num_elem = 4, alignment = 6 : tile<ptr<f32>>",
        "has alignment 6, expected a power of two",
    ),
    (
        "alloca",
        "%0 = alloca num_elem = 4, alignment = 4 : tile<ptr<f64>>",
        "has alignment 4, expected at least 8 (the pointee)",
    ),
    (
        "alloca",
        "%0 = alloca num_elem = -1, alignment = 4 : tile<ptr<f32>>",
        "has num_elem -1, expected 0 or more",
    ),
)

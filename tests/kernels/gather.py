"""Products whose left operand is gathered through pointers, as text, in several forms."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

EXPERTS = """
cuda_tile.module @m {
  entry @experts(%T: tile<ptr<f16>>, %W: tile<ptr<f16>>, %O: tile<ptr<f32>>, %S: tile<ptr<i32>>,
                 %E: tile<ptr<i32>>, %rows: tile<i32>, %depth: tile<i32>, %columns: tile<i32>,
                 %experts: tile<i32>, %total: tile<i32>) {
    %first_element = constant <i32: FIRST> : tile<i32>
    %T0 = offset %T, %first_element : tile<ptr<f16>>, tile<i32> -> tile<ptr<f16>>
    %T1 = assume div_by<ALIGN>, %T0 : tile<ptr<f16>>
    %W1 = assume div_by<16>, %W : tile<ptr<f16>>
    %D1 = assume div_by<16>, %depth : tile<i32>
    %C1 = assume div_by<16>, %columns : tile<i32>
    %ws = muli %D1, %C1 : tile<i32>
    %t0 = make_token : token
    %tw = make_tensor_view %W1, shape = [%experts, %D1, %C1], strides = [%ws, %C1, 1]
      : tile<i32> -> tensor_view<?x?x?xf16, strides=[?,?,1]>
    %to = make_tensor_view %O, shape = [%total, %C1], strides = [%C1, 1]
      : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %pw = make_partition_view %tw : VIEWW
    %po = make_partition_view %to : partition_view<tile=(RxC), tensor_view<?x?xf32, strides=[?,1]>>
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %cd = constant <i32: D> : tile<i32>
    %cr = constant <i32: R> : tile<i32>
    %ep = offset %E, %bx : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %expert, %te = load_ptr_tko weak %ep token=%t0 : tile<ptr<i32>> -> tile<i32>, token
    %first = muli %bx, %cr : tile<i32>
    %ri = iota : tile<Rxi32>
    %f1 = reshape %first : tile<i32> -> tile<1xi32>
    %f2 = broadcast %f1 : tile<1xi32> -> tile<Rxi32>
    %stages = addi %f2, %ri : tile<Rxi32>
    %sp1 = reshape %S : tile<ptr<i32>> -> tile<1xptr<i32>>
    %sp2 = broadcast %sp1 : tile<1xptr<i32>> -> tile<Rxptr<i32>>
    %sp = offset %sp2, %stages : tile<Rxptr<i32>>, tile<Rxi32> -> tile<Rxptr<i32>>
    %source, %ts = load_ptr_tko weak %sp token=%t0 : tile<Rxptr<i32>> -> tile<Rxi32>, token
    %s1 = reshape %source : tile<Rxi32> -> tile<Rx1xi32>
    %rows1 = reshape %rows : tile<i32> -> tile<1x1xi32>
    %rows2 = broadcast %rows1 : tile<1x1xi32> -> tile<Rx1xi32>
    %rm = cmpi less_than %s1, %rows2, unsigned : tile<Rx1xi32> -> tile<Rx1xi1>
    %rm2 = broadcast %rm : tile<Rx1xi1> -> tile<RxDxi1>
    %d1 = reshape %D1 : tile<i32> -> tile<1x1xi32>
    %d2 = broadcast %d1 : tile<1x1xi32> -> tile<Rx1xi32>
    %ro = muli %s1, %d2 : tile<Rx1xi32>
    %ro2 = broadcast %ro : tile<Rx1xi32> -> tile<RxDxi32>
    %tp1 = reshape %T1 : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %tp2 = broadcast %tp1 : tile<1x1xptr<f16>> -> tile<RxDxptr<f16>>
    %tp3 = offset %tp2, %ro2 : tile<RxDxptr<f16>>, tile<RxDxi32> -> tile<RxDxptr<f16>>
    %di = iota : tile<Dxi32>
    %di1 = reshape %di : tile<Dxi32> -> tile<1xDxi32>
    %di2 = broadcast %di1 : tile<1xDxi32> -> tile<RxDxi32>
    %dm = broadcast %d1 : tile<1x1xi32> -> tile<1xDxi32>
    %zh = constant <f16: PADDING> : tile<RxDxf16>
    %z = constant <f32: 0.0> : tile<RxCxf32>
    %steps = divi %D1, %cd signed rounding<positive_inf> : tile<i32>
    LOOP
    %s = store_view_tko weak %acc, %po[%bx, %by] token = %t0
      : tile<RxCxf32>, partition_view<tile=(RxC), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32>
      -> token
    AFTER
    return
  }
}
"""
OVERWRITE = """%new = store_ptr_tko weak %sp, %stages token=%ts
      : tile<Rxptr<i32>>, tile<Rxi32> -> token"""
MASK = """%k0 = muli %k, %cd : tile<i32>
      %k1 = reshape %k0 : tile<i32> -> tile<1x1xi32>
      %k2 = broadcast %k1 : tile<1x1xi32> -> tile<1xDxi32>
      %k3 = addi %k2, %di1 : tile<1xDxi32>
      %km = cmpi less_than %k3, %dm, unsigned : tile<1xDxi32> -> tile<1xDxi1>
      %km2 = broadcast %km : tile<1xDxi1> -> tile<RxDxi1>
      %mask = andi %rm2, %km2 : tile<RxDxi1>"""
PRODUCT = """%a, %ta = load_ptr_tko weak %p, %mask, %zh token=ORDER
        : tile<RxDxptr<f16>>, tile<RxDxi1>, tile<RxDxf16> -> tile<RxDxf16>, token
      %w, %tb = load_view_tko weak %pw[%expert, %k, %by] token = %t0
        : VIEWW, tile<i32> -> tile<1xDxCxf16>, token
      %w2 = reshape %w : tile<1xDxCxf16> -> tile<DxCxf16>
      %d = mmaf %a, %w2, %a0 : tile<RxDxf16>, tile<DxCxf16>, tile<RxCxf32>"""
COMPUTED = """%acc = for %k in (%c0 to %steps, step %c1) : tile<i32>
        iter_values(%a0 = %z) -> (tile<RxCxf32>) {
      MASK
      %k4 = broadcast %k3 : tile<1xDxi32> -> tile<RxDxi32>
      %p = offset %tp3, %k4 : tile<RxDxptr<f16>>, tile<RxDxi32> -> tile<RxDxptr<f16>>
      PRODUCT
      continue %d : tile<RxCxf32>
    }"""
CARRIED = """%start = offset %tp3, %di2 : tile<RxDxptr<f16>>, tile<RxDxi32> -> tile<RxDxptr<f16>>
    %by_step = constant <i32: D> : tile<RxDxi32>
    %acc, %last = for %k in (%c0 to %steps, step %c1) : tile<i32>
        iter_values(%a0 = %z, %p = %start) -> (tile<RxCxf32>, tile<RxDxptr<f16>>) {
      MASK
      PRODUCT
      %next = offset %p, %by_step : tile<RxDxptr<f16>>, tile<RxDxi32> -> tile<RxDxptr<f16>>
      continue %d, %next : tile<RxCxf32>, tile<RxDxptr<f16>>
    }"""
STORING = """%acc, %last = for %k in (%c0 to %steps, step %c1) : tile<i32>
        iter_values(%a0 = %z, %t = %t0) -> (tile<RxCxf32>, token) {
      MASK
      %k4 = broadcast %k3 : tile<1xDxi32> -> tile<RxDxi32>
      %p = offset %tp3, %k4 : tile<RxDxptr<f16>>, tile<RxDxi32> -> tile<RxDxptr<f16>>
      PRODUCT
      %ti = store_view_tko weak %d, %po[%bx, %by] token = %t
        : tile<RxCxf32>, partition_view<tile=(RxC), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32>
        -> token
      continue %d, %ti : tile<RxCxf32>, token
    }"""
LOOPS = {"computed": COMPUTED, "carried": CARRIED, "storing": STORING}
VIEW = "partition_view<tile=(1xDxC), padding_value = zero, tensor_view<?x?x?xf16, strides=[?,?,1]>>"


def experts(
    rows: int = 128,
    columns: int = 128,
    depth: int = 64,
    loop: str = "computed",
    align: int = 16,
    padding: str = "0.0",
    ordered: bool = False,
    overwrites: bool = False,
) -> bytes:
    """out[i] = tokens[sources[i]] @ weights[expert of i's tile], zero where a source has no row.

    Pointers are "computed" in every iteration or "carried" by the loop, which may also be
    "storing"; with `ordered` the gather comes after those stores. A kernel that `overwrites` leaves
    other sources behind, once it has read its own.
    """
    text = EXPERTS.replace("LOOP", LOOPS[loop]).replace("AFTER", OVERWRITE if overwrites else "")
    text = text.replace("MASK", MASK).replace("PRODUCT", PRODUCT).replace("VIEWW", VIEW)
    text = text.replace("ALIGN", str(align)).replace("PADDING", padding)
    text = text.replace("FIRST", str(first_token(align)))
    text = text.replace("ORDER", "%t" if ordered else "%t0")
    for letter, size in (("R", rows), ("D", depth), ("C", columns)):
        text = re.sub(rf"(?<=[<x(:\s]){letter}(?=[x>)])", str(size), text)
    return text.encode()


RIGHT = """
cuda_tile.module @m {
  entry @right(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %O: tile<ptr<f32>>, %S: tile<ptr<i32>>,
               %depth: tile<i32>) {
    %A1 = assume div_by<16>, %A : tile<ptr<f16>>
    %B1 = assume div_by<16>, %B : tile<ptr<f16>>
    %D1 = assume div_by<16>, %depth : tile<i32>
    %t0 = make_token : token
    %ta = make_tensor_view %A1, shape = [128, %D1], strides = [%D1, 1]
      : tile<i32> -> tensor_view<128x?xf16, strides=[?,1]>
    %pa = make_partition_view %ta
      : partition_view<tile=(128x64), padding_value = zero, tensor_view<128x?xf16, strides=[?,1]>>
    %to = make_tensor_view %O, shape = [128, 64], strides = [64, 1]
      : tensor_view<128x64xf32, strides=[64,1]>
    %po = make_partition_view %to
      : partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %cd = constant <i32: 64> : tile<i32>
    %w = constant <i32: 64> : tile<64x1xi32>
    %i = iota : tile<64xi32>
    %i1 = reshape %i : tile<64xi32> -> tile<1x64xi32>
    %i2 = broadcast %i1 : tile<1x64xi32> -> tile<64x64xi32>
    %sp1 = reshape %S : tile<ptr<i32>> -> tile<1xptr<i32>>
    %sp2 = broadcast %sp1 : tile<1xptr<i32>> -> tile<64xptr<i32>>
    %bp1 = reshape %B1 : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %bp2 = broadcast %bp1 : tile<1x1xptr<f16>> -> tile<64x64xptr<f16>>
    %z = constant <f32: 0.0> : tile<128x64xf32>
    %steps = divi %D1, %cd signed rounding<positive_inf> : tile<i32>
    %acc = for %k in (%c0 to %steps, step %c1) : tile<i32>
        iter_values(%a0 = %z) -> (tile<128x64xf32>) {
      %k0 = muli %k, %cd : tile<i32>
      %k1 = reshape %k0 : tile<i32> -> tile<1xi32>
      %k2 = broadcast %k1 : tile<1xi32> -> tile<64xi32>
      %k3 = addi %k2, %i : tile<64xi32>
      %sp = offset %sp2, %k3 : tile<64xptr<i32>>, tile<64xi32> -> tile<64xptr<i32>>
      %s, %ts = load_ptr_tko weak %sp token=%t0 : tile<64xptr<i32>> -> tile<64xi32>, token
      %s1 = reshape %s : tile<64xi32> -> tile<64x1xi32>
      %s2 = muli %s1, %w : tile<64x1xi32>
      %s3 = broadcast %s2 : tile<64x1xi32> -> tile<64x64xi32>
      %bo = addi %s3, %i2 : tile<64x64xi32>
      %bp = offset %bp2, %bo : tile<64x64xptr<f16>>, tile<64x64xi32> -> tile<64x64xptr<f16>>
      %b, %tb = load_ptr_tko weak %bp token=%t0 : tile<64x64xptr<f16>> -> tile<64x64xf16>, token
      %a, %ka = load_view_tko weak %pa[%c0, %k] token = %t0
        : partition_view<tile=(128x64), padding_value = zero, tensor_view<128x?xf16, strides=[?,1]>>
        , tile<i32> -> tile<128x64xf16>, token
      TURN
      %d = mmaf %a, %right, %a0 : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      continue %d : tile<128x64xf32>
    }
    %st = store_view_tko weak %acc, %po[%c0, %c0] token = %t0
      : tile<128x64xf32>, partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>,
        tile<i32> -> token
    return
  }
}
"""


def gathered_right(is_transposed: bool) -> bytes:
    """A product whose right operand is gathered, 64 rows of 64 at a time, transposed or as it is.

    The numbers of the rows are loaded in every iteration.
    """
    turn = "permute %b [1, 0]" if is_transposed else "reshape %b"
    text = RIGHT.replace("TURN", f"%right = {turn} : tile<64x64xf16> -> tile<64x64xf16>")
    return text.encode()


@dataclass(frozen=True)
class Case:
    """Arguments of a kernel, its grid, and what must become of argument `output`."""

    arguments: list[Any]
    grid: tuple[int, int, int]
    wanted: Any
    output: int = 2


def quarters(rng: np.random.Generator, *shape: int) -> Any:
    """Numbers whose products and sums are exact."""
    return (rng.integers(-8, 8, shape) / 4).astype(np.float16)


def first_token(align: int) -> int:
    """The element of the first argument with which tokens start, aligned to so many bytes."""
    return align // 2 if align < 16 else 0


def experts_case(
    rows: int,
    columns: int,
    depth: int,
    width: int,
    blocks: int = 2,
    tokens: int = 40,
    align: int = 16,
) -> Case:
    """Three experts, ragged sizes, and rows that are masked off: their addresses are out of reach.

    `rows` by `columns` is the tile, `depth` and `width` the size of an expert's weights.
    """
    rng = np.random.default_rng(rows + depth)
    source, weights = quarters(rng, tokens, depth), quarters(rng, 3, depth, width)
    stages = rng.integers(0, tokens + 8, rows * blocks).astype(np.int32)
    stages[::7] = 2**30 // depth
    chosen = (2 - np.arange(blocks) % 3).astype(np.int32)
    wanted = np.zeros((rows * blocks, width), np.float32)
    for row, stage in enumerate(stages):
        if stage < tokens:
            expert = weights[chosen[row // rows]].astype(np.float32)
            wanted[row] = source[stage].astype(np.float32) @ expert
    scalars = [np.int32(n) for n in (tokens, depth, width, 3, rows * blocks)]
    memory = np.concatenate([np.full(first_token(align), np.nan, np.float16), source.ravel()])
    arguments = [memory, weights, np.full_like(wanted, 7), stages, chosen, *scalars]
    return Case(arguments, (blocks, -(-width // columns), 1), wanted)


def right_case(is_transposed: bool) -> Case:
    """Rows of the right operand in any order."""
    rng = np.random.default_rng(2)
    left, right = quarters(rng, 128, 128), quarters(rng, 200, 64)
    rows = rng.permutation(200)[:128].astype(np.int32)
    first, second = left.astype(np.float32)[:, :64], left.astype(np.float32)[:, 64:]
    above, below = right[rows].astype(np.float32)[:64], right[rows].astype(np.float32)[64:]
    wanted = first @ above.T + second @ below.T if is_transposed else first @ above + second @ below
    return Case([left, right, np.zeros_like(wanted), rows, np.int32(128)], (1, 1, 1), wanted)


def routed_case(tiles: int, hidden: int, wide: int) -> Case:
    """For `routed_experts.mlir`: slots in any order, the last 48 of them padding.

    Of three tiles the second one has the first one's expert.
    """
    rng = np.random.default_rng(tiles)
    slots = 128 * tiles - 48
    tokens = quarters(rng, slots // 96 * 16 + 16, hidden)
    weights = quarters(rng, 16, wide, hidden)
    order = np.full(128 * tiles, slots, np.int32)
    order[:slots] = rng.permutation(slots)
    chosen = rng.integers(0, 4, tiles).astype(np.int32)
    chosen[1::3] = chosen[0::3][: len(chosen[1::3])]
    out, wanted = np.zeros((slots, wide), np.float16), np.zeros((slots, wide), np.float16)
    for row, slot in enumerate(order):
        if slot < slots:
            source = tokens[slot // 6].astype(np.float32)
            wanted[slot] = weights[chosen[row // 128]].astype(np.float32) @ source
    arguments: list[Any] = []
    for array in (tokens, weights, out, order, chosen):
        steps = [step // array.itemsize for step in array.strides]
        arguments += [array, *array.shape, *steps]
    return Case(arguments, (tiles * -(-wide // 128), 1, 1), wanted, 12)

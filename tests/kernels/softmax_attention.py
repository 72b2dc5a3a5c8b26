"""Attention with softmax as text: queries of several heads, keys shared by `share` heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tileiras.interpreter import run_entry

_HEAD = """
cuda_tile.module @m {
  entry @attention(%Q: tile<ptr<ELEM>>, %K: tile<ptr<ELEM>>, %V: tile<ptr<ELEM>>,
                   %O: tile<ptr<f16>>,
                   %heads: tile<i32>, %shared: tile<i32>, %rows: tile<i32>, %length: tile<i32>,
                   %scale: tile<f32>) {
    %q1 = assume div_by<16>, %Q : tile<ptr<ELEM>>
    %k1 = assume div_by<16>, %K : tile<ptr<ELEM>>
    %v1 = assume div_by<16>, %V : tile<ptr<ELEM>>
    %r0 = assume div_by<16>, %rows : tile<i32>
    %l0 = assume div_by<16>, %length : tile<i32>
    %cd = constant <i32: DEPTH> : tile<i32>
    %sq0 = muli %r0, %cd : tile<i32>
    %sk0 = muli %l0, %cd : tile<i32>
    %sq = assume div_by<8>, %sq0 : tile<i32>
    %sk = assume div_by<8>, %sk0 : tile<i32>
    %t0 = make_token : token
    %tq = make_tensor_view %q1, shape = [%heads, %r0, DEPTH], strides = [%sq, DEPTH, 1]
      : tile<i32> -> VIEW
    %tk = make_tensor_view %k1, shape = [%shared, %l0, DEPTH], strides = [%sk, DEPTH, 1]
      : tile<i32> -> VIEW
    %tv = make_tensor_view %v1, shape = [%shared, %l0, DEPTH], strides = [%sk, DEPTH, 1]
      : tile<i32> -> VIEW
    %to = make_tensor_view %O, shape = [%heads, %r0, DEPTH], strides = [%sq, DEPTH, 1]
      : tile<i32> -> WRITTEN
    %pq = make_partition_view %tq : partition_view<tile=(1xROWSxDEPTH), padding_value = zero, VIEW>
    %pk = make_partition_view %tk : partition_view<tile=(1xCOLSxDEPTH), padding_value = zero, VIEW>
    %pv = make_partition_view %tv : partition_view<tile=(1xCOLSxDEPTH), padding_value = zero, VIEW>
    %po = make_partition_view %to : partition_view<tile=(1xROWSxDEPTH), WRITTEN>
    %bx, %head, %bz = get_tile_block_id : tile<i32>
    %share = constant <i32: SHARE> : tile<i32>
    %from = divi %head, %share signed rounding<negative_inf> : tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %cm = constant <i32: ROWS> : tile<i32>
    %cn = constant <i32: COLS> : tile<i32>
    %z = constant <f32: 0.0> : tile<ROWSxCOLSxf32>
    %zo = constant <f32: 0.0> : tile<ROWSxDEPTHxf32>
    %zr = constant <f32: 0.0> : tile<ROWSx1xf32>
    %low = constant <f32: 0xFF800000> : tile<ROWSx1xf32>
    %none = constant <f32: 0xFF800000> : tile<ROWSxCOLSxf32>
    %first = muli %bx, %cm : tile<i32>
    %i0 = iota : tile<ROWSxi32>
    %i1 = reshape %i0 : tile<ROWSxi32> -> tile<ROWSx1xi32>
    %i2 = reshape %first : tile<i32> -> tile<1x1xi32>
    %i3 = broadcast %i2 : tile<1x1xi32> -> tile<ROWSx1xi32>
    %i4 = addi %i3, %i1 : tile<ROWSx1xi32>
    %i5 = broadcast %i4 : tile<ROWSx1xi32> -> tile<ROWSxCOLSxi32>
    %s1 = reshape %scale : tile<f32> -> tile<1x1xf32>
    %s2 = broadcast %s1 : tile<1x1xf32> -> tile<ROWSx1xf32>
    %s3 = broadcast %s1 : tile<1x1xf32> -> tile<ROWSxCOLSxf32>
    %q3, %uq = load_view_tko weak %pq[%head, %bx, %c0] token = %t0
      : partition_view<tile=(1xROWSxDEPTH), padding_value = zero, VIEW>, tile<i32>
      -> tile<1xROWSxDEPTHxELEM>, token
    %q = reshape %q3 : tile<1xROWSxDEPTHxELEM> -> tile<ROWSxDEPTHxELEM>
    %blocks = divi %l0, %cn signed rounding<positive_inf> : tile<i32>
    %reach0 = addi %first, %cm : tile<i32>
    %reach = mini %reach0, %l0 signed : tile<i32>
    %seen = divi %reach, %cn signed rounding<positive_inf> : tile<i32>
    %whole0 = divi %first, %cn signed rounding<negative_inf> : tile<i32>
    %whole = mini %whole0, %seen signed : tile<i32>
"""

_LOOP = """
    %sums_N, %top_N, %acc_N = for %j_N in (LOWER to UPPER, step %c1) : tile<i32>
        iter_values(%l_N = SUMS, %m_N = TOP, %a_N = ACC)
        -> (tile<ROWSx1xf32>, tile<ROWSx1xf32>, tile<ROWSxDEPTHxf32>) {
      %k3_N, %uk_N = load_view_tko weak %pk[%from, %j_N, %c0] token = %t0
        : partition_view<tile=(1xCOLSxDEPTH), padding_value = zero, VIEW>, tile<i32>
        -> tile<1xCOLSxDEPTHxELEM>, token
      %k_N = reshape %k3_N : tile<1xCOLSxDEPTHxELEM> -> tile<COLSxDEPTHxELEM>
      %kt_N = permute %k_N [1, 0] : tile<COLSxDEPTHxELEM> -> tile<DEPTHxCOLSxELEM>
      %p_N = mmaf %q, %kt_N, %z
        : tile<ROWSxDEPTHxELEM>, tile<DEPTHxCOLSxELEM>, tile<ROWSxCOLSxf32>
      MASKED
      %x_N = reduce %s_N dim=1 identities=[0xFF800000 : f32]
        : tile<ROWSxCOLSxf32> -> tile<ROWSxf32>
      (%xa_N: tile<f32>, %xb_N: tile<f32>) {
        %xc_N = maxf %xa_N, %xb_N : tile<f32>
        yield %xc_N : tile<f32>
      }
      %x1_N = reshape %x_N : tile<ROWSxf32> -> tile<ROWSx1xf32>
      %x2_N = mulf %x1_N, %s2 : tile<ROWSx1xf32>
      %n_N = maxf %m_N, %x2_N : tile<ROWSx1xf32>
      %n1_N = broadcast %n_N : tile<ROWSx1xf32> -> tile<ROWSxCOLSxf32>
      %n2_N = negf %n1_N : tile<ROWSxCOLSxf32>
      %e_N = fma %s_N, %s3, %n2_N : tile<ROWSxCOLSxf32>
      %w_N = exp2 %e_N flush_to_zero : tile<ROWSxCOLSxf32>
      %d_N = subf %m_N, %n_N : tile<ROWSx1xf32>
      %f_N = exp2 %d_N flush_to_zero : tile<ROWSx1xf32>
      %y_N = reduce %w_N dim=1 identities=[0.0 : f32] : tile<ROWSxCOLSxf32> -> tile<ROWSxf32>
      (%ya_N: tile<f32>, %yb_N: tile<f32>) {
        %yc_N = addf %ya_N, %yb_N : tile<f32>
        yield %yc_N : tile<f32>
      }
      %y1_N = reshape %y_N : tile<ROWSxf32> -> tile<ROWSx1xf32>
      %lo_N = fma %l_N, %f_N, %y1_N : tile<ROWSx1xf32>
      %h_N = ftof %w_N : tile<ROWSxCOLSxf32> -> tile<ROWSxCOLSxELEM>
      %v3_N, %uv_N = load_view_tko weak %pv[%from, %j_N, %c0] token = %t0
        : partition_view<tile=(1xCOLSxDEPTH), padding_value = zero, VIEW>, tile<i32>
        -> tile<1xCOLSxDEPTHxELEM>, token
      %v_N = reshape %v3_N : tile<1xCOLSxDEPTHxELEM> -> tile<COLSxDEPTHxELEM>
      %fb_N = broadcast %f_N : tile<ROWSx1xf32> -> tile<ROWSxDEPTHxf32>
      %b_N = mulf %a_N, %fb_N : tile<ROWSxDEPTHxf32>
      %o_N = mmaf %h_N, %v_N, %b_N
        : tile<ROWSxCOLSxELEM>, tile<COLSxDEPTHxELEM>, tile<ROWSxDEPTHxf32>
      continue %lo_N, %n_N, %o_N : tile<ROWSx1xf32>, tile<ROWSx1xf32>, tile<ROWSxDEPTHxf32>
    }
"""

_MASK = """%u_N = muli %j_N, %cn : tile<i32>
      %g0_N = iota : tile<COLSxi32>
      %g1_N = reshape %g0_N : tile<COLSxi32> -> tile<1xCOLSxi32>
      %g2_N = reshape %u_N : tile<i32> -> tile<1x1xi32>
      %g3_N = broadcast %g2_N : tile<1x1xi32> -> tile<1xCOLSxi32>
      %g4_N = addi %g3_N, %g1_N : tile<1xCOLSxi32>
      %g5_N = broadcast %g4_N : tile<1xCOLSxi32> -> tile<ROWSxCOLSxi32>
      %g6_N = cmpi greater_than_or_equal %i5, %g5_N, signed
        : tile<ROWSxCOLSxi32> -> tile<ROWSxCOLSxi1>
      %g7_N = select %g6_N, %z, %none : tile<ROWSxCOLSxi1>, tile<ROWSxCOLSxf32>
      RESULT = addf %p_N, %g7_N : tile<ROWSxCOLSxf32>"""

_MASK_IN_IF = (
    """%is_N = cmpi greater_than_or_equal %j_N, %whole, signed : tile<i32> -> tile<i1>
      %s_N = if %is_N -> (tile<ROWSxCOLSxf32>) {
      """
    + _MASK.replace("RESULT", "%sm_N")
    + """
        yield %sm_N : tile<ROWSxCOLSxf32>
      } else {
        yield %p_N : tile<ROWSxCOLSxf32>
      }"""
)

_PLAIN = ""
"""Scores as they are."""

_TAIL = """
    %ob = broadcast SUMS : tile<ROWSx1xf32> -> tile<ROWSxDEPTHxf32>
    %od = divf ACC, %ob : tile<ROWSxDEPTHxf32>
    %oh = ftof %od : tile<ROWSxDEPTHxf32> -> tile<ROWSxDEPTHxf16>
    %o3 = reshape %oh : tile<ROWSxDEPTHxf16> -> tile<1xROWSxDEPTHxf16>
    %st = store_view_tko weak %o3, %po[%head, %bx, %c0] token = %t0
      : tile<1xROWSxDEPTHxf16>, partition_view<tile=(1xROWSxDEPTH), WRITTEN>, tile<i32> -> token
    return
  }
}
"""

RESULT = 3
"""The position of the result among the arguments."""
KINDS: dict[str, list[tuple[str, str, str]]] = {
    "full": [("%c0", "%blocks", _PLAIN)],
    "causal": [("%c0", "%whole", _PLAIN), ("%whole", "%seen", _MASK.replace("RESULT", "%s_N"))],
    "masked": [("%c0", "%seen", _MASK_IN_IF)],
}
"""Loops of each kind: bounds, and how scores are masked."""


def softmax_attention(
    kind: str, rows: int, columns: int, depth: int, share: int = 1, element: str = "f16"
) -> bytes:
    """The text: all keys; those up to the diagonal in two loops, or in one with an if.

    Queries, keys and values have elements of a type, the result is f16.
    """
    text, sums, top, acc = _HEAD, "%zr", "%low", "%zo"
    for number, (lower, upper, mask) in enumerate(KINDS[kind]):
        loop = _LOOP.replace("MASKED", mask).replace("LOWER", lower).replace("UPPER", upper)
        loop = loop if mask else loop.replace("%s_N", "%p_N")
        loop = loop.replace("SUMS", sums).replace("TOP", top).replace("ACC", acc)
        text += loop.replace("_N", f"_{number}")
        sums, top, acc = f"%sums_{number}", f"%top_{number}", f"%acc_{number}"
    text += _TAIL.replace("SUMS", sums).replace("ACC", acc)
    text = text.replace("VIEW", f"tensor_view<?x?x{depth}xELEM, strides=[?,{depth},1]>")
    text = text.replace("WRITTEN", f"tensor_view<?x?x{depth}xf16, strides=[?,{depth},1]>")
    text = text.replace("ELEM", element)
    sizes = {"ROWS": rows, "COLS": columns, "DEPTH": depth, "SHARE": share}
    for name, size in sizes.items():
        text = text.replace(name, str(size))
    return text.encode()


def run_attention(
    module: ModuleOp,
    rows: int,
    length: int,
    depth: int,
    share: int = 1,
    blocks: Sequence[int] = (),
    dtype: Any = np.float16,
) -> np.ndarray:
    """The bits that a kernel leaves for random queries and `length` keys, two heads."""
    arguments, grid = attention_arguments(rows, length, depth, share, blocks, dtype)
    with np.errstate(all="ignore"):
        run_entry(module, "attention", arguments, grid)
    return arguments[RESULT]


def attention_arguments(
    rows: int,
    length: int,
    depth: int,
    share: int = 1,
    blocks: Sequence[int] = (),
    dtype: Any = np.float16,
) -> tuple[list[Any], tuple[int, int, int]]:
    """Random queries and `length` keys of two heads, the rest, and the grid."""
    rng = np.random.default_rng(length)
    heads, total = 2, rows * (blocks[0] if blocks else 1)
    queries = rng.standard_normal((heads, total, depth)).astype(dtype)
    keys, values = rng.standard_normal((2, heads // share, max(length, 8), depth))
    arrays = [queries, keys.astype(dtype), values.astype(dtype)]
    unsigned = np.uint16 if queries.itemsize == 2 else np.uint8
    bits = [array.view(unsigned).ravel() for array in arrays]
    result = np.zeros(queries.size, np.uint16)
    arguments = [*bits, result, heads, heads // share, total, length, np.float32(0.125)]
    return arguments, (total // rows, heads, 1)

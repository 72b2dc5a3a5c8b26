"""A matrix product as text, in any tile shape, also with what keeps it from being specialised."""

from __future__ import annotations

import re

GEMM = """
cuda_tile.module @m {
  entry @gemm(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f16>>,
              %M: tile<i32>, %N: tile<i32>, %K: tile<i32>) {
    %A1 = assume div_by<ALIGN>, %A : tile<ptr<f16>>
    %B1 = assume div_by<16>, %B : tile<ptr<f16>>
    %N1 = assume div_by<16>, %N : tile<i32>
    %K1 = assume div_by<16>, %K : tile<i32>
    %t0 = make_token : token
    %ta = make_tensor_view %A1, shape = [%M, %K1], strides = [%K1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tb = make_tensor_view %B1, shape = [%K1, %N1], strides = [%N1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %tc = make_tensor_view %C, shape = [%M, %N1], strides = [%N1, 1]
      : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %pa = make_partition_view %ta : VIEWA
    %pb = make_partition_view %tb : VIEWB
    %pc = make_partition_view %tc : VIEWC
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %is:2 = get_index_space_shape %pa : VIEWA -> tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %z = constant <f32: 0.0> : tile<RxCxf32>
    %acc, %tl = for %k in (%c0 to %is#1, step %c1) : tile<i32>
        iter_values(%a0 = %z, %t = %t0) -> (tile<RxCxf32>, token) {
      %a, %ka = load_view_tko weak %pa[%bx, %k] token = ORDER
        : VIEWA, tile<i32> -> tile<RxDxf16>, token
      %b, %kb = load_view_tko weak %pb[%k, %by] token = %t0
        : VIEWB, tile<i32> -> tile<DxCxf16>, token
      %d = mmaf %a, %b, %a0 : tile<RxDxf16>, tile<DxCxf16>, tile<RxCxf32>
      STORE
      continue %d, NEXT : tile<RxCxf32>, token
    }
    %h = ftof %acc : tile<RxCxf32> -> tile<RxCxf16>
    %s = store_view_tko weak %h, %pc[%bx, %by] token = %tl
      : tile<RxCxf16>, VIEWC, tile<i32> -> token
    return
  }
}
"""
IN_LOOP = """%h0 = ftof %d : tile<RxCxf32> -> tile<RxCxf16>
      %ts = store_view_tko weak %h0, %pc[%bx, %by] token = %t
        : tile<RxCxf16>, VIEWC, tile<i32> -> token"""


def gemm(rows: int, columns: int, depth: int, align: int = 16, stores: bool = False) -> bytes:
    """A product of f16; with `stores` the loop also stores, and A is loaded after that."""
    text = GEMM.replace("STORE", IN_LOOP if stores else "").replace("ALIGN", str(align))
    text = text.replace("NEXT", "%ts" if stores else "%t")
    text = text.replace("ORDER", "%t" if stores else "%t0")
    view = "partition_view<tile=(%s), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>"
    for name, tile in (("VIEWA", "RxD"), ("VIEWB", "DxC"), ("VIEWC", "RxC")):
        text = text.replace(name, view % tile)
    text = re.sub(r"\bRxD", f"{rows}x{depth}", text)
    text = re.sub(r"\bDxC", f"{depth}x{columns}", text)
    return re.sub(r"\bRxC", f"{rows}x{columns}", text).encode()


def with_ctas(source: bytes, ctas: int) -> bytes:
    """A kernel that asks for so many CTAs per SM."""
    return with_hint(source, "occupancy", ctas)


def with_hint(source: bytes, name: str, value: int) -> bytes:
    """A kernel with a hint."""
    hints = b" optimization_hints=<sm_90 = {%s = %d}> {" % (name.encode(), value)
    changed, count = re.subn(rb"(?<=\)) \{\n", hints + b"\n", source, count=1)
    if not count:
        raise ValueError("there is no entry to hint at")
    return changed


def aligned(source: bytes) -> bytes:
    """The product with its result known to be aligned, so that it is stored 16 bytes at a time."""
    assumed = b"%C1 = assume div_by<16>, %C : tile<ptr<f16>>\n    %t0 = make_token"
    changed = source.replace(b"%t0 = make_token", assumed)
    return changed.replace(b"make_tensor_view %C,", b"make_tensor_view %C1,")


def persistent(rows: int, columns: int, depth: int) -> bytes:
    """An aligned product whose tile blocks make every other row of tiles of a column each."""
    text = aligned(gemm(rows, columns, depth)).decode()
    start, end = text.index("%acc, %tl = for"), text.index("return")
    text = text.replace("%bx, %by, %bz = get_tile_block_id", "%px, %by, %bz = get_tile_block_id")
    start, end = text.index("%acc, %tl = for"), text.index("return")
    body = text[start:end].replace("token = %tl", "token = %to")
    outer = f"""%c2 = constant <i32: 2> : tile<i32>
    %te = for %bx in (%px to %is#0, step %c2) : tile<i32> iter_values(%to = %t0) -> (token) {{
    {body}continue %s : token
    }}
    """
    return (text[:start] + outer + text[end:]).encode()


def with_result(source: bytes, element: str, mode: str = "", scope: str = "device") -> bytes:
    """The product with a result of another type; with `mode` combined with what is in memory."""
    text = source.decode()
    store = re.search(r"store_view_tko weak (%\w+), (%pc\[.*\]) (token = %\w+)\s+: .*", text)
    view = re.search(r"%pc = make_partition_view %tc : (.*)", text)
    shape = re.search(r"%d = mmaf .*, tile<(\w+)xf32>", text)
    if store is None or view is None or shape is None:
        raise ValueError("the source is no product of f16 with one result")
    tile, typed = f"tile<{shape[1]}x{element}>", view[1].replace("f16", element)
    value = "%acc" if element == "f32" else store[1]
    if mode:  # such views have no padding
        typed = typed.replace("padding_value = zero, ", "")
        change = f"atomic_red_view_tko relaxed {scope} {store[2]}, {mode}, {value} {store[3]}"
    else:
        change = f"store_view_tko weak {value}, {store[2]} {store[3]}"
    text = text.replace(store[0], f"{change} : {tile}, {typed}, tile<i32> -> token")
    text = text.replace(f"%tc : {view[1]}", f"%tc : {typed}")
    text = re.sub(r"(%C ?: )tile<ptr<f16>>", rf"\1tile<ptr<{element}>>", text)
    return re.sub(r"(%tc = .*\n.*)\?x\?xf16", rf"\1?x?x{element}", text).encode()

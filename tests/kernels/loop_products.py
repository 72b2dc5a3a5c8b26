"""Kernels with products as text: arrays of 56x40 and 40x56 f32, tiles of 32x32, products over 16.

The pieces of a kernel: how the left tile is made, what the loop over K does, what follows it.
"""

from __future__ import annotations

ROWS, COLUMNS, DEPTH = 56, 56, 40

_KERNEL = """
cuda_tile.module @m {
  entry @kernel(%A: tile<ptr<f32>>, %B: tile<ptr<f32>>, %C: tile<ptr<f32>>, %E: tile<ptr<f32>>) {
    %t0 = make_token : token
    %ta = make_tensor_view %A, shape = [56, 40], strides = [40, 1]
        : tensor_view<56x40xf32, strides=[40,1]>
    %tat = make_tensor_view %A, shape = [40, 56], strides = [1, 40]
        : tensor_view<40x56xf32, strides=[1,40]>
    %tb = make_tensor_view %B, shape = [40, 56], strides = [56, 1]
        : tensor_view<40x56xf32, strides=[56,1]>
    %tc = make_tensor_view %C, shape = [56, 56], strides = [56, 1]
        : tensor_view<56x56xf32, strides=[56,1]>
    %te = make_tensor_view %E, shape = [56, 56], strides = [56, 1]
        : tensor_view<56x56xf32, strides=[56,1]>
    %pa = make_partition_view %ta : VIEWA
    %pat = make_partition_view %tat : VIEWT
    %pb = make_partition_view %tb : VIEWB
    %pc = make_partition_view %tc : VIEWC
    %pe = make_partition_view %te : VIEWC
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %c2 = constant <i32: 2> : tile<i32>
    %c3 = constant <i32: 3> : tile<i32>
    %c32 = constant <i32: 32> : tile<i32>
    %z = constant <f32: 0.0> : tile<32x32xf32>
    BODY
    return
  }
}
"""

LEFT = """%a, %ka = load_view_tko weak %pa[%x, %k] token = %t0
          : VIEWA, tile<i32> -> tile<32x16xf32>, token"""

RIGHT = """%b, %kb = load_view_tko weak %pb[%k, %y] token = %t0
          : VIEWB, tile<i32> -> tile<16x32xf32>, token"""

LOOP = f"""%acc = for %k in (%c0 to %c3, step %c1) : tile<i32>
          iter_values(%s = %z) -> (tile<32x32xf32>) {{
        {LEFT}
        {RIGHT}
        %d = mmaf %a, %b, %s : tile<32x16xf32>, tile<16x32xf32>, tile<32x32xf32>
        continue %d : tile<32x32xf32>
      }}"""

STORE = """%u = store_view_tko weak %acc, %pc[%x, %y] token = %t0
          : tile<32x32xf32>, VIEWC, tile<i32> -> token"""

BLOCK = """%x = addi %bx, %c0 : tile<i32>
    %y = addi %by, %c0 : tile<i32>
    """


def kernel(body: str, is_block: bool = True) -> str:
    """The kernel of a body; with `is_block`, %x and %y are the place of the block's tile."""
    views = {
        "VIEWA": ("32x16", "56x40", "40,1"),
        "VIEWT": ("16x32", "40x56", "1,40"),
        "VIEWB": ("16x32", "40x56", "56,1"),
        "VIEWC": ("32x32", "56x56", "56,1"),
    }
    text = _KERNEL.replace("BODY", (BLOCK if is_block else "") + body)
    for name, (tile, shape, strides) in views.items():
        view = f"tensor_view<{shape}xf32, strides=[{strides}]>"
        text = text.replace(name, f"partition_view<tile=({tile}), padding_value = zero, {view}>")
    return text

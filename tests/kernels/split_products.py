"""Products that are split, with all kinds of surroundings."""

from __future__ import annotations

import numpy as np

from tests.kernels.loop_products import LEFT, LOOP, RIGHT, STORE


def arrays(sizes: tuple[int, ...] = (56 * 40, 40 * 56, 56 * 56, 56 * 56)) -> list[np.ndarray]:
    """Small whole numbers, whose sums are exact."""
    random = np.random.default_rng(5)
    return [random.integers(-4, 5, size).astype(np.float32) for size in sizes]


PERMUTED = LOOP.replace(
    LEFT,
    """%at, %ka = load_view_tko weak %pat[%k, %x] token = %t0
          : VIEWT, tile<i32> -> tile<16x32xf32>, token
        %a = permute %at [1, 0] : tile<16x32xf32> -> tile<32x16xf32>""",
)


EPILOGUE = """%i = iota : tile<32xi32>
    %i1 = reshape %i : tile<32xi32> -> tile<32x1xi32>
    %i2 = reshape %i : tile<32xi32> -> tile<1x32xi32>
    %rows = broadcast %i1 : tile<32x1xi32> -> tile<32x32xi32>
    %columns = broadcast %i2 : tile<1x32xi32> -> tile<32x32xi32>
    %m = cmpi greater_than %rows, %columns, signed : tile<32x32xi32> -> tile<32x32xi1>
    %lower = select %m, %acc, %z : tile<32x32xi1>, tile<32x32xf32>
    %most = maxf %acc, %z : tile<32x32xf32>
    %u = store_view_tko weak %lower, %pc[%x, %y] token = %t0
        : tile<32x32xf32>, VIEWC, tile<i32> -> token
    %v = store_view_tko weak %most, %pe[%x, %y] token = %t0
        : tile<32x32xf32>, VIEWC, tile<i32> -> token"""


IN_PLACE = """%old, %k0 = load_view_tko weak %pc[%x, %y] token = %t0
        : VIEWC, tile<i32> -> tile<32x32xf32>, token
    %new = addf %old, %acc : tile<32x32xf32>
    %u = store_view_tko weak %new, %pc[%x, %y] token = %k0
        : tile<32x32xf32>, VIEWC, tile<i32> -> token"""


PERSISTENT = f"""%n = constant <i32: 4> : tile<i32>
    %step = constant <i32: 3> : tile<i32>
    %end = for %tile in (%bx to %n, step %step) : tile<i32> iter_values(%w = %t0) -> (token) {{
      %x = divi %tile, %c2 signed : tile<i32>
      %y = remi %tile, %c2 signed : tile<i32>
      {LOOP}
      %u = store_view_tko weak %acc, %pc[%x, %y] token = %w
          : tile<32x32xf32>, VIEWC, tile<i32> -> token
      continue %u : token
    }}"""


GATHERED = LOOP.replace(
    LEFT,
    """%i = iota : tile<32xi32>
        %j = iota : tile<16xi32>
        %c40 = constant <i32: 40> : tile<32x16xi32>
        %c16 = constant <i32: 16> : tile<i32>
        %depth = muli %k, %c16 : tile<i32>
        %r1 = reshape %i : tile<32xi32> -> tile<32x1xi32>
        %r2 = broadcast %r1 : tile<32x1xi32> -> tile<32x16xi32>
        %r3 = muli %r2, %c40 : tile<32x16xi32>
        %d1 = reshape %depth : tile<i32> -> tile<1x1xi32>
        %d2 = broadcast %d1 : tile<1x1xi32> -> tile<32x16xi32>
        %j1 = reshape %j : tile<16xi32> -> tile<1x16xi32>
        %j2 = broadcast %j1 : tile<1x16xi32> -> tile<32x16xi32>
        %o1 = addi %d2, %j2 : tile<32x16xi32>
        %in = cmpi less_than %o1, %c40, signed : tile<32x16xi32> -> tile<32x16xi1>
        %o2 = addi %o1, %r3 : tile<32x16xi32>
        %p1 = reshape %A : tile<ptr<f32>> -> tile<1x1xptr<f32>>
        %p2 = broadcast %p1 : tile<1x1xptr<f32>> -> tile<32x16xptr<f32>>
        %p3 = offset %p2, %o2 : tile<32x16xptr<f32>>, tile<32x16xi32> -> tile<32x16xptr<f32>>
        %za = constant <f32: 0.0> : tile<32x16xf32>
        %a, %ka = load_ptr_tko weak %p3, %in, %za token = %t0
            : tile<32x16xptr<f32>>, tile<32x16xi1>, tile<32x16xf32> -> tile<32x16xf32>, token""",
)


SQUARE = """%at = permute %a [1, 0] : tile<32x16xf32> -> tile<16x32xf32>
        %d = mmaf %a, %at, SUM : tile<32x16xf32>, tile<16x32xf32>, tile<32x32xf32>"""


SQUARES = f"""%acc = for %k in (%c0 to %c3, step %c1) : tile<i32>
          iter_values(%s = %z) -> (tile<32x32xf32>) {{
        {LEFT}
        {SQUARE.replace("SUM", "%s")}
        continue %d : tile<32x32xf32>
      }}
    {STORE}"""


BRANCH = f"""{LOOP}
    %is = cmpi equal %x, %c0, signed : tile<i32> -> tile<i1>
    if %is {{
      %u = store_view_tko weak %acc, %pc[%x, %y] token = %t0
          : tile<32x32xf32>, VIEWC, tile<i32> -> token
      yield
    }} else {{
      %most = maxf %acc, %z : tile<32x32xf32>
      %v = store_view_tko weak %most, %pe[%x, %y] token = %t0
          : tile<32x32xf32>, VIEWC, tile<i32> -> token
      yield
    }}"""


AFTER_LOADS = f"""%acc, %last = for %k in (%c0 to %c3, step %c1) : tile<i32>
          iter_values(%s = %z, %t = %t0) -> (tile<32x32xf32>, token) {{
        {LEFT.replace("%t0", "%t")}
        {RIGHT}
        %d = mmaf %a, %b, %s : tile<32x16xf32>, tile<16x32xf32>, tile<32x32xf32>
        continue %d, %ka : tile<32x32xf32>, token
      }}
    {STORE.replace("%t0", "%last")}"""


NORMALISED = f"""{LOOP}
    %flat = reshape %acc : tile<32x32xf32> -> tile<1024xf32>
    %sum = reduce %flat dim=0 identities=[0.0 : f32] : tile<1024xf32> -> tile<f32>
      (%e: tile<f32>, %f: tile<f32>) {{
        %g = addf %e, %f : tile<f32>
        yield %g : tile<f32>
      }}
    %s1 = reshape %sum : tile<f32> -> tile<1x1xf32>
    %s2 = broadcast %s1 : tile<1x1xf32> -> tile<32x32xf32>
    %n = addf %acc, %s2 : tile<32x32xf32>
    {STORE.replace("%acc", "%n")}"""


READ_BACK = f"""{LOOP}
    {STORE}
    %old, %ko = load_view_tko weak %pc[%y, %x] token = %u
        : VIEWC, tile<i32> -> tile<32x32xf32>, token
    %new = addf %old, %acc : tile<32x32xf32>
    %v = store_view_tko weak %new, %pe[%x, %y] token = %t0
        : tile<32x32xf32>, VIEWC, tile<i32> -> token"""

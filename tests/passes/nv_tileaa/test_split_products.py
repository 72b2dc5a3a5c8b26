"""Products computed part by part: the same results as whole, with limits made small."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType, f32

from tests.kernels.gemm import gemm
from tests.kernels.loop_products import LEFT, LOOP, RIGHT, STORE, kernel
from tests.kernels.split_products import (
    AFTER_LOADS,
    BRANCH,
    EPILOGUE,
    GATHERED,
    IN_PLACE,
    NORMALISED,
    PERMUTED,
    PERSISTENT,
    READ_BACK,
    SQUARE,
    SQUARES,
    arrays,
)
from tests.kernels.stage_comparison import passes
from tests.kernels.unchanged import Changes
from tileiras.dialects import nv_tileaa as aa
from tileiras.driver import read_source
from tileiras.interpreter import run_entry
from tileiras.ir_text import parse_text
from tileiras.passes.nv_tileaa import (
    divide_products,
    slicing,
    split_loop_carried,
    split_products,
)


@pytest.fixture
def small_limits(monkeypatch):
    """A product of 32x32 f32 is computed in parts of 16 rows, or of 16 columns."""
    monkeypatch.setattr(split_products, "PRODUCT_WORDS", 512)
    monkeypatch.setattr(split_products, "THREADS", 4)
    monkeypatch.setattr(divide_products, "ROWS", 16)


def parts_of(text: str, grid: tuple[int, int, int] = (2, 2, 1)) -> list[tuple[int, ...]]:
    """Shapes of the products after the split; memory is the same before and after it."""
    module = parse_text(text, "kernel.mlir")
    wanted = arrays()
    run_entry(module, "kernel", wanted, grid)
    shapes: list[tuple[int, ...]] = []
    changes = Changes(module)
    for name, stage in passes(module, (), "sm_90"):
        if name == "tileas-slicing":
            shapes = product_shapes(module)
        if not changes.any():
            continue
        found = arrays()
        run_entry(module, "kernel", found, grid)
        for index, (one, other) in enumerate(zip(wanted, found, strict=True)):
            np.testing.assert_array_equal(
                one, other, err_msg=f"array {index} after {name}, {stage}"
            )
    assert any((one != two).any() for one, two in zip(wanted, arrays(), strict=True))
    return shapes


def product_shapes(module: ModuleOp) -> list[tuple[int, ...]]:
    """Shapes of the results of all products."""
    types = [op.result.type for op in module.walk() if isinstance(op, aa.DotOp)]
    return [type_.get_shape() for type_ in types if isinstance(type_, TensorType)]


SUMS = """%sums = reduce %acc dim=0 identities=[0.0 : f32] : tile<32x32xf32> -> tile<32xf32>
      (%e: tile<f32>, %f: tile<f32>) {
        %g = addf %e, %f : tile<f32>
        yield %g : tile<f32>
      }
    %line = reshape %sums : tile<32xf32> -> tile<1x32xf32>
    %pl = make_partition_view %te
        : partition_view<tile=(1x32), tensor_view<56x56xf32, strides=[56,1]>>
    %w = store_view_tko weak %line, %pl[%x, %y] token = %t0
        : tile<1x32xf32>, partition_view<tile=(1x32), tensor_view<56x56xf32, strides=[56,1]>>,
          tile<i32> -> token"""


ONE_SQUARE = f"""{LEFT.replace("%k]", "%c1]")}
    {SQUARE.replace("SUM", "%z").replace("%d", "%acc")}
    {STORE}"""

TWO = """%acc, %other = for %k in (%c0 to %c3, step %c1) : tile<i32>
          iter_values(%s = %z, %r = %z) -> (tile<32x32xf32>, tile<32x32xf32>) {
        LEFT
        RIGHT
        %d = mmaf %a, %b, %s : tile<32x16xf32>, tile<16x32xf32>, tile<32x32xf32>
        %b2 = addf %b, %b : tile<16x32xf32>
        %f = mmaf %a, %b2, %r : tile<32x16xf32>, tile<16x32xf32>, tile<32x32xf32>
        continue %d, %f : tile<32x32xf32>, tile<32x32xf32>
      }
    %u = store_view_tko weak %acc, %pc[%x, %y] token = %t0
        : tile<32x32xf32>, VIEWC, tile<i32> -> token
    %v = store_view_tko weak %other, %pe[%x, %y] token = %t0
        : tile<32x32xf32>, VIEWC, tile<i32> -> token""".replace("LEFT", LEFT).replace(
    "RIGHT", RIGHT
)


CUT = {
    "plain": kernel(LOOP + "\n" + STORE),
    "transposed operand": kernel(PERMUTED + "\n" + STORE),
    "two stores, a range used both ways": kernel(LOOP + "\n" + EPILOGUE),
    "in place": kernel(LOOP + "\n" + IN_PLACE),
    "persistent": kernel(PERSISTENT, is_block=False),
    "sums over the parts": kernel(LOOP + "\n" + SUMS + "\n" + STORE),
    "gathered rows": kernel(GATHERED + "\n" + STORE),
    "stores in branches": kernel(BRANCH),
    "one tile on both sides": kernel(SQUARES),
}


@pytest.mark.parametrize("text", CUT.values(), ids=CUT)
def test_product_is_computed_once_in_parts_of_rows(small_limits, text):
    assert parts_of(text) == [(16, 32)]


def test_tile_that_is_also_read_whole_is_loaded_both_ways(small_limits):
    assert parts_of(kernel(ONE_SQUARE)) == [(32, 16)]


def test_products_of_one_loop_share_a_loop_over_parts(small_limits):
    assert parts_of(kernel(TWO)) == [(32, 8)] * 2


ATTENTION = """%low = constant <f32: -100.0> : tile<32x1xf32>
    %none = constant <f32: 0.0> : tile<32x1xf32>
    %zo = constant <f32: 0.0> : tile<32x16xf32>
    %q, %kq = load_view_tko weak %pa[%x, %c0] token = %t0
        : VIEWA, tile<i32> -> tile<32x16xf32>, token
    %tops, %sums, %out = for %j in (%c0 to %c2, step %c1) : tile<i32>
        iter_values(%m = %low, %l = %none, %o = %zo)
        -> (tile<32x1xf32>, tile<32x1xf32>, tile<32x16xf32>) {
      %b, %kb = load_view_tko weak %pb[%c0, %j] token = %t0
          : VIEWB, tile<i32> -> tile<16x32xf32>, token
      %s = mmaf %q, %b, %z : tile<32x16xf32>, tile<16x32xf32>, tile<32x32xf32>
      %r = reduce %s dim=1 identities=[-100.0 : f32] : tile<32x32xf32> -> tile<32xf32>
        (%e: tile<f32>, %f: tile<f32>) {
          %g = maxf %e, %f : tile<f32>
          yield %g : tile<f32>
        }
      %r1 = reshape %r : tile<32xf32> -> tile<32x1xf32>
      %top = maxf %m, %r1 : tile<32x1xf32>
      %wide = broadcast %top : tile<32x1xf32> -> tile<32x32xf32>
      %d = subf %s, %wide : tile<32x32xf32>
      %p = exp2 %d : tile<32x32xf32>
      %c = subf %m, %top : tile<32x1xf32>
      %fade = exp2 %c : tile<32x1xf32>
      %t = reduce %p dim=1 identities=[0.0 : f32] : tile<32x32xf32> -> tile<32xf32>
        (%e: tile<f32>, %f: tile<f32>) {
          %g = addf %e, %f : tile<f32>
          yield %g : tile<f32>
        }
      %t1 = reshape %t : tile<32xf32> -> tile<32x1xf32>
      %l1 = mulf %l, %fade : tile<32x1xf32>
      %l2 = addf %l1, %t1 : tile<32x1xf32>
      %v, %kv = load_view_tko weak %pa[%j, %c0] token = %t0
          : VIEWA, tile<i32> -> tile<32x16xf32>, token
      %fades = broadcast %fade : tile<32x1xf32> -> tile<32x16xf32>
      %o1 = mulf %o, %fades : tile<32x16xf32>
      %o2 = mmaf %p, %v, %o1 : tile<32x32xf32>, tile<32x16xf32>, tile<32x16xf32>
      continue %top, %l2, %o2 : tile<32x1xf32>, tile<32x1xf32>, tile<32x16xf32>
    }
    %total = broadcast %sums : tile<32x1xf32> -> tile<32x16xf32>
    %mean = divf %out, %total : tile<32x16xf32>
    %po = make_partition_view %te
        : partition_view<tile=(32x16), tensor_view<56x56xf32, strides=[56,1]>>
    %u = store_view_tko weak %mean, %po[%x, %y] token = %t0
        : tile<32x16xf32>, partition_view<tile=(32x16), tensor_view<56x56xf32, strides=[56,1]>>,
          tile<i32> -> token"""


def test_attention_carries_parts_of_its_maxima_and_sums(small_limits, monkeypatch):
    monkeypatch.setattr(split_products, "THREADS", 6)
    assert parts_of(kernel(ATTENTION)) == [(16, 32), (16, 16)]


SQUARE_IN_PLACE = """%old, %k0 = load_view_tko weak %pc[%x, %y] token = %t0
        : VIEWC, tile<i32> -> tile<32x32xf32>, token
    %d = mmaf %old, %old, %z : tile<32x32xf32>, tile<32x32xf32>, tile<32x32xf32>
    %u = store_view_tko weak %d, %pc[%x, %y] token = %k0
        : tile<32x32xf32>, VIEWC, tile<i32> -> token"""


WITHIN = LOOP.replace(
    "continue %d",
    """%u = store_view_tko weak %d, %pc[%x, %y] token = %t0
            : tile<32x32xf32>, VIEWC, tile<i32> -> token
        continue %d""",
)


LEAVES = f"""{LOOP}
    {STORE}
    %is = cmpi equal %x, %c0, signed : tile<i32> -> tile<i1>
    if %is {{
      return
    }}
    %v = store_view_tko weak %acc, %pe[%x, %y] token = %t0
        : tile<32x32xf32>, VIEWC, tile<i32> -> token"""

WHOLE = {
    "stores behind the loop's loads": kernel(AFTER_LOADS),
    "stores in the loop": kernel(WITHIN),
    "may end between stores": kernel(LEAVES),
    "stores over an operand": kernel(SQUARE_IN_PLACE),
    "a sum that the parts need": kernel(NORMALISED),
    "reads what another part stores": kernel(READ_BACK),
}


@pytest.mark.parametrize("text", WHOLE.values(), ids=WHOLE)
def test_product_stays_whole(small_limits, text):
    assert parts_of(text, (1, 1, 1)) == [(32, 32)]


@pytest.mark.parametrize(
    ("tile", "part", "loops"),
    [
        ((256, 256, 64), (128, 256), 0),  # by a cluster of two
        ((128, 512, 64), (128, 256), 1),
        ((512, 128, 64), (256, 128), 1),
        ((512, 512, 32), (256, 128), 2),
        ((128, 256, 64), (128, 256), 0),
        ((256, 128, 64), (256, 128), 0),
        ((64, 512, 64), (64, 256), 1),
    ],
)
def test_parts_are_what_two_warpgroups_hold(tile, part, loops):
    module = read_source(gemm(*tile))
    for name, _ in passes(module, (), "sm_90"):
        if name == "tileas-slicing":
            break
    assert product_shapes(module) == [part]
    assert sum(isinstance(op, aa.ForOp) for op in module.walk()) == 1 + loops


CARRIED = """%first, %second = for %k in (%c0 to %c2, step %c1) : tile<i32>
        iter_values(%s = %z, %r = %z) -> (tile<32x32xf32>, tile<32x32xf32>) {
      %e, %ke = load_view_tko weak %pe[%k, %y] token = %t0
          : VIEWC, tile<i32> -> tile<32x32xf32>, token
      %d = addf %s, %e : tile<32x32xf32>
      %f = maxf %r, %e : tile<32x32xf32>
      continue %d, %f : tile<32x32xf32>, tile<32x32xf32>
    }
    %both = addf %first, %second : tile<32x32xf32>
    %sums = reduce %both dim=0 identities=[0.0 : f32] : tile<32x32xf32> -> tile<32xf32>
      (%g: tile<f32>, %h: tile<f32>) {
        %i = addf %g, %h : tile<f32>
        yield %i : tile<f32>
      }
    %line = reshape %sums : tile<32xf32> -> tile<1x32xf32>
    %pl = make_partition_view %tc
        : partition_view<tile=(1x32), tensor_view<56x56xf32, strides=[56,1]>>
    %w = store_view_tko weak %line, %pl[%x, %y] token = %t0
        : tile<1x32xf32>, partition_view<tile=(1x32), tensor_view<56x56xf32, strides=[56,1]>>,
          tile<i32> -> token"""


def test_loop_that_carries_much_runs_in_parts_that_share_no_sum(monkeypatch):
    monkeypatch.setattr(slicing, "MAX_WORDS", 1024)
    monkeypatch.setattr(split_loop_carried, "MAX_CARRIED_WORDS", 1024)
    monkeypatch.setattr(split_loop_carried, "PART_WORDS", 1024)
    text = kernel(CARRIED)
    assert parts_of(text) == []
    module = parse_text(text, "kernel.mlir")
    for name, _ in passes(module, (), "sm_90"):
        if name == "tileas-slicing":
            break
    loops = [op for op in module.walk() if isinstance(op, aa.ForOp)]
    carried = [[result.type for result in loop.results] for loop in loops]
    assert carried == [[], [TensorType(f32, (32, 8))] * 2]

"""Steps of K cut into parts: the same results as whole, with limits made small or real tiles."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.gemm import gemm, with_ctas
from tests.kernels.loop_products import LEFT, LOOP, RIGHT, STORE, kernel
from tests.kernels.split_products import (
    AFTER_LOADS,
    GATHERED,
    PERMUTED,
    PERSISTENT,
    SQUARES,
    arrays,
)
from tests.kernels.stage_comparison import passes
from tests.kernels.unchanged import Changes
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.driver import read_source
from tileiras.interpreter import run_entry
from tileiras.ir_text import parse_text
from tileiras.passes.nv_tileaa import split_steps

Shape = tuple[list[int], int]
"""Depths of the products of a kernel, and how many loops it has."""


@pytest.fixture
def small_limits(monkeypatch):
    """Products of 32x32x16 f32 are cut to steps of 4."""
    monkeypatch.setattr(split_steps, "ROW_BYTES", 16)
    monkeypatch.setattr(split_steps, "THREADS", 4)


def cut(text: str, grid: tuple[int, int, int] = (2, 2, 1)) -> Shape:
    """What the cut leaves; memory is the same before and after every pass."""
    module = parse_text(text, "kernel.mlir")
    wanted = arrays()
    run_entry(module, "kernel", wanted, grid)
    shape: Shape = ([], 0)
    changes = Changes(module)
    for name, stage in passes(module, (), "sm_90"):
        if name == "split-k":
            shape = shape_after(module)
        if not changes.any():
            continue
        found = arrays()
        run_entry(module, "kernel", found, grid)
        for one, other in zip(wanted, found, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=f"after {name}, {stage}")
    assert any((one != two).any() for one, two in zip(wanted, arrays(), strict=True))
    return shape


def shape_after(module) -> Shape:
    """Depths of products, and loops."""
    depths = [shape_of(op.lhs)[-1] for op in module.walk() if isinstance(op, aa.DotOp)]
    return depths, sum(isinstance(op, aa.ForOp) for op in module.walk())


EVERY_OTHER = LOOP.replace("(%c0 to %c3, step %c1)", "(%bx to %c3, step %c2)")

SCALED = LOOP.replace(
    "continue %d",
    """%e, %ke = load_view_tko weak %pe[%x, %y] token = %t0
          : VIEWC, tile<i32> -> tile<32x32xf32>, token
        %f = addf %d, %e : tile<32x32xf32>
        continue %f""",
)

BOTH = f"""%acc, %other = for %k in (%c0 to %c3, step %c1) : tile<i32>
          iter_values(%s = %z, %r = %z) -> (tile<32x32xf32>, tile<32x32xf32>) {{
        {LEFT}
        {RIGHT}
        {RIGHT.replace("%b, %kb", "%v, %kv").replace("[%k, %y]", "[%k, %x]")}
        %d = mmaf %a, %b, %s : tile<32x16xf32>, tile<16x32xf32>, tile<32x32xf32>
        %f = mmaf %a, %v, %r : tile<32x16xf32>, tile<16x32xf32>, tile<32x32xf32>
        continue %d, %f : tile<32x32xf32>, tile<32x32xf32>
      }}
    {STORE}
    {
    STORE.replace("%u,", "%w,")
    .replace("%u =", "%w =")
    .replace("%pc", "%pe")
    .replace("%acc", "%other")
}"""

CHAIN = f"""%acc = for %k in (%c0 to %c3, step %c1) : tile<i32>
          iter_values(%s = %z) -> (tile<32x32xf32>) {{
        {LEFT}
        {RIGHT}
        {LEFT.replace("%a, %ka", "%g, %kg")}
        {RIGHT.replace("%b, %kb", "%v, %kv").replace("[%k, %y]", "[%k, %x]")}
        %d = mmaf %a, %b, %s : tile<32x16xf32>, tile<16x32xf32>, tile<32x32xf32>
        %f = mmaf %g, %v, %d : tile<32x16xf32>, tile<16x32xf32>, tile<32x32xf32>
        continue %f : tile<32x32xf32>
      }}
    {STORE}"""

TWO_TILES = AFTER_LOADS.replace(
    "%d = mmaf",
    """%j = join_tokens %ka, %kb : token
        %d = mmaf""",
).replace("continue %d, %ka", "continue %d, %j")

CUT = {
    "plain": (kernel(f"{LOOP}\n{STORE}"), ([4], 1)),
    "from a block's number in steps": (kernel(f"{EVERY_OTHER}\n{STORE}"), ([4], 1)),
    "persistent": (kernel(PERSISTENT, is_block=False), ([4], 2)),
    "transposed operand": (kernel(f"{PERMUTED}\n{STORE}"), ([4], 1)),
    "gathered operand": (kernel(f"{GATHERED}\n{STORE}"), ([4], 1)),
    "stores behind the loop's loads": (kernel(AFTER_LOADS), ([4], 1)),
    "tokens joined before the product": (kernel(TWO_TILES), ([4], 1)),
    "a tile times itself": (kernel(SQUARES), ([4], 1)),
    "more in the loop": (kernel(f"{SCALED}\n{STORE}"), ([4], 2)),
    "two products that share an operand": (kernel(BOTH), ([4, 4], 1)),
    "two products into one sum": (kernel(CHAIN), ([4, 4], 3)),
}


@pytest.mark.parametrize(("text", "shape"), CUT.values(), ids=CUT)
def test_steps_in_parts_compute_the_same(small_limits, text, shape):
    assert cut(text) == shape


MANY = EVERY_OTHER.replace("%bx to %c3", "%c0 to %many")
UNKNOWN = f"""%many = muli %bx, %c3 : tile<i32>
    {MANY}
    {STORE}"""


def test_loops_of_unknown_length_stay_around_the_parts(small_limits):
    assert cut(kernel(UNKNOWN)) == ([4], 2)


ACQUIRE = LOOP.replace("load_view_tko weak %pa", "load_view_tko acquire device %pa")

STORED_BEFORE = LOOP.replace(
    "%d = mmaf",
    """%u = store_view_tko weak %s, %pc[%x, %y] token = %ka
            : tile<32x32xf32>, VIEWC, tile<i32> -> token
        %d = mmaf""",
)

READ_TWICE = LOOP.replace(
    "continue %d",
    """%n = constant <f32: 1.0> : tile<32x16xf32>
        %o = addf %a, %n : tile<32x16xf32>
        %u = store_view_tko weak %o, %pa[%k, %c3] token = %t0
            : tile<32x16xf32>, VIEWA, tile<i32> -> token
        continue %d""",
)

WHOLE = {
    "loads that others wait for": kernel(f"{ACQUIRE}\n{STORE}"),
    "stores between load and product": kernel(f"{STORED_BEFORE}\n{STORE}"),
    "tiles that are needed whole": kernel(f"{READ_TWICE}\n{STORE}"),
}


@pytest.mark.parametrize("text", WHOLE.values(), ids=WHOLE)
def test_steps_stay_whole(small_limits, text):
    assert cut(text, (1, 1, 1))[0] == [16]


@pytest.mark.parametrize(
    ("source", "depth"),
    [
        (gemm(128, 256, 256), 64),
        (gemm(256, 256, 256), 64),
        (gemm(256, 128, 128), 64),
        (gemm(64, 64, 512), 128),
        (gemm(64, 128, 128), 128),
        (with_ctas(gemm(64, 128, 128), 2), 64),
        (gemm(128, 256, 256, align=8), 64),
        (gemm(128, 128, 128, align=8), 128),  # gathered: three stages of 64 KB, one to spare
    ],
)
def test_steps_are_what_stages_or_registers_hold(source, depth):
    module = read_source(source)
    for name, _ in passes(module, (), "sm_90"):
        if name == "split-k":
            break
    assert shape_after(module)[0] == [depth]

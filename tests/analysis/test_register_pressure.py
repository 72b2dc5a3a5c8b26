"""What tensors take of the register file, and how many warps that makes."""

from __future__ import annotations

import pytest

from tileiras.analysis.register_pressure import block_pressure, live_at_products, words_behind
from tileiras.codegen.target import get_target
from tileiras.dialects import nv_tileaa as aa
from tileiras.errors import CompileError
from tileiras.ir_pass import CompileContext
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions
from tileiras.planning.resources.warps import plan_cta
from tileiras.registry import load_pass
from tileiras.remarks import RemarkCollector

KERNEL = """
cuda_tile.module @m {{
  entry @kernel(%p: tile<ptr<f32>>) {{
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %n = constant <i32: 8> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %zero = constant <f32: 0.0> : tile<{shape}xf32>
    %tv = make_tensor_view %p, shape = [1048576], strides = [1]
        : tensor_view<1048576xf32, strides=[1]>
    %v = make_partition_view %tv
        : partition_view<tile=({shape}), tensor_view<1048576xf32, strides=[1]>>
    {body}
    return
  }}
}}
"""
LOAD = """%{name}, %t{name} = load_view_tko weak %v[{index}] token = %t
        : partition_view<tile=({shape}), tensor_view<1048576xf32, strides=[1]>>, tile<i32>
          -> tile<{shape}xf32>, token
"""
STORE = """%s{value} = store_view_tko weak %{value}, %v[%i] token = %t
        : tile<{shape}xf32>, partition_view<tile=({shape}), tensor_view<1048576xf32, strides=[1]>>,
          tile<i32> -> token
"""


def load(name: str, shape: int, index: str = "%i") -> str:
    """A load of a tile."""
    return LOAD.format(name=name, shape=shape, index=index)


def add(result: str, lhs: str, rhs: str, shape: int) -> str:
    """An addition of tiles."""
    return f"%{result} = addf %{lhs}, %{rhs} : tile<{shape}xf32>\n"


def function(body: str, shape: int) -> aa.FuncOp:
    """The kernel on nv_tileaa."""
    module = parse_text(KERNEL.format(body=body, shape=shape), "kernel.mlir")
    context = CompileContext(
        target=get_target("sm_90"),
        options=CompileOptions(gpu_name="sm_90"),
        remarks=RemarkCollector(),
    )
    load_pass("convert-cudatile-to-tileaa")().apply(context, module)
    (func,) = [op for op in module.body.ops if isinstance(op, aa.FuncOp)]
    return func


def pressure(body: str, shape: int = 1024) -> int:
    """Words that are live at once."""
    return block_pressure(function(body, shape).body.block)


def test_operand_gives_its_registers_to_the_result():
    body = load("a", 1024) + add("b", "a", "zero", 1024) + STORE.format(value="b", shape=1024)
    assert pressure(body) == 1024


def test_values_used_later_stay():
    body = load("a", 1024) + load("b", 1024) + load("c", 1024)
    body += add("d", "a", "b", 1024) + add("e", "d", "c", 1024)
    assert pressure(body + STORE.format(value="e", shape=1024)) == 3 * 1024


def test_value_from_outside_is_live_throughout_a_loop():
    inner = load("b", 1024, "%k") + add("c", "acc", "b", 1024) + add("d", "c", "a", 1024)
    body = load("a", 1024) + (
        "%r = for %k in (%i to %n, step %one) : tile<i32> iter_values(%acc = %zero)"
        " -> (tile<1024xf32>) {\n" + inner + "continue %d : tile<1024xf32>\n}\n"
    )
    assert pressure(body + STORE.format(value="r", shape=1024)) == 3 * 1024


LOOP = "%r = for %k in (%i to %n, step %one) : tile<i32> iter_values(%acc = %zero) -> "
LOOP += "(tile<1024xf32>) {{\n{inner}continue %d : tile<1024xf32>\n}}\n"


@pytest.mark.parametrize(
    ("before", "behind", "tiles"),
    [
        ("", STORE.format(value="r", shape=1024), 1),
        ("", add("e", "r", "zero", 1024) + STORE.format(value="e", shape=1024), 1),
        ("", load("x", 1024) + add("e", "r", "x", 1024) + STORE.format(value="e", shape=1024), 2),
        ("", add("e", "r", "r", 1024) + add("f", "e", "r", 1024), 2),
        (load("x", 1024), add("e", "r", "x", 1024), 2),
    ],
    ids=["stored", "computed of", "added to", "used again", "loaded before"],
)
def test_what_is_behind_a_loop_counts_without_what_is_in_it(before: str, behind: str, tiles: int):
    inner = load("b", 1024, "%k") + load("c", 1024, "%k") + add("d", "b", "c", 1024)
    if "%e" in behind and "%s" not in behind:
        behind += STORE.format(value="f" if "%f" in behind else "e", shape=1024)
    func = function(before + LOOP.format(inner=inner) + behind, 1024)
    [loop] = [op for op in func.walk() if isinstance(op, aa.ForOp)]
    assert words_behind(loop) == tiles * 1024


PRODUCT = """
cuda_tile.module @m {
  entry @kernel(%p: tile<ptr<f32>>) {
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %zero = constant <f32: 0.0> : tile<32x32xf32>
    %tv = make_tensor_view %p, shape = [64, 64], strides = [64, 1]
        : tensor_view<64x64xf32, strides=[64,1]>
    %v = make_partition_view %tv
        : partition_view<tile=(32x32), tensor_view<64x64xf32, strides=[64,1]>>
    %n = iota : tile<1024xi32>
    %m = reshape %n : tile<1024xi32> -> tile<32x32xi32>
    %o = addi %m, %m : tile<32x32xi32>
    %q = constant <i32: 7> : tile<32x32xi32>
    %is = cmpi less_than %o, %q, signed : tile<32x32xi32> -> tile<32x32xi1>
    %a, %ta = load_view_tko weak %v[%i, %i] token = %t
        : partition_view<tile=(32x32), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32>
          -> tile<32x32xf32>, token
    %b, %tb = load_view_tko weak %v[%i, %i] token = %t
        : partition_view<tile=(32x32), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32>
          -> tile<32x32xf32>, token
    %d = mmaf %a, %a, %zero : tile<32x32xf32>, tile<32x32xf32>, tile<32x32xf32>
    %e = select %is, %d, %b : tile<32x32xi1>, tile<32x32xf32>
    %s = store_view_tko weak %e, %v[%i, %i] token = %t
        : tile<32x32xf32>, partition_view<tile=(32x32), tensor_view<64x64xf32, strides=[64,1]>>,
          tile<i32> -> token
    return
  }
}
"""


def test_neither_loaded_operands_nor_masks_are_live_with_a_product():
    module = parse_text(PRODUCT, "kernel.mlir")
    context = CompileContext(
        target=get_target("sm_90"),
        options=CompileOptions(gpu_name="sm_90"),
        remarks=RemarkCollector(),
    )
    load_pass("convert-cudatile-to-tileaa")().apply(context, module)
    (func,) = [op for op in module.body.ops if isinstance(op, aa.FuncOp)]
    (live,) = live_at_products(func.body.block).values()
    assert list(live.values()) == [1024, 1024]


def test_constants_take_no_registers():
    assert pressure(STORE.format(value="zero", shape=1024)) == 0


@pytest.mark.parametrize(("live", "warps"), [(1, 4), (8, 4), (10, 8)])
def test_warps_follow_what_is_live_at_once(live, warps):
    shape = 2048
    body = "".join(load(f"v{i}", shape) for i in range(live))
    total = "v0"
    for i in range(1, live):
        body += add(f"sum{i}", total, f"v{i}", shape)
        total = f"sum{i}"
    func = function(body + STORE.format(value=total, shape=shape), shape)
    assert plan_cta(func, get_target("sm_90")).num_warps == warps


def test_tile_beyond_all_registers_is_refused_with_what_to_change():
    func = function(load("a", 1 << 19) + STORE.format(value="a", shape=1 << 19), 1 << 19)
    with pytest.raises(CompileError, match="use tiles of at most 262144 elements") as caught:
        plan_cta(func, get_target("sm_90"))
    assert "'tiled_load' op makes a tile of 524288 elements" in str(caught.value)

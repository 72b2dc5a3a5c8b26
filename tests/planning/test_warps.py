"""How many warps a hint may ask for: as many as have something to do."""

from __future__ import annotations

import pytest

from tests.kernels.stage_comparison import passes
from tileiras.codegen.target import get_target
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir_text import parse_text
from tileiras.planning.resources.warps import plan_cta

COPY = """
cuda_tile.module @m {{
  entry @copy(%x: tile<ptr<{type}>>, %y: tile<ptr<{type}>>, %n: tile<i32>)
      optimization_hints=<sm_90 = {{num_worker_warps_per_cta = {warps}}}> {{
    %t = make_token : token
    %b, %by, %bz = get_tile_block_id : tile<i32>
    %n0 = assume div_by<16>, %n : tile<i32>
    %x0 = assume div_by<{align}>, %x : tile<ptr<{type}>>
    %y0 = assume div_by<{align}>, %y : tile<ptr<{type}>>
    %v = make_tensor_view %x0, shape = [%n0], strides = [1]
      : tile<i32> -> tensor_view<?x{type}, strides=[1]>
    %w = make_tensor_view %y0, shape = [%n0], strides = [1]
      : tile<i32> -> tensor_view<?x{type}, strides=[1]>
    %p = make_partition_view %v : partition_view<tile=({size}), tensor_view<?x{type}, strides=[1]>>
    %q = make_partition_view %w : partition_view<tile=({size}), tensor_view<?x{type}, strides=[1]>>
    %a, %r = load_view_tko weak %p[%b] token = %t
      : partition_view<tile=({size}), tensor_view<?x{type}, strides=[1]>>, tile<i32>
      -> tile<{size}x{type}>, token
    %z = store_view_tko weak %a, %q[%b] token = %r : tile<{size}x{type}>,
      partition_view<tile=({size}), tensor_view<?x{type}, strides=[1]>>, tile<i32> -> token
    return
  }}
}}
"""


def warps(type: str, size: int, asked: int, align: int = 16, given: int = 0) -> int:
    """The warps of a kernel that copies tiles."""
    text = COPY.format(type=type, size=size, warps=asked, align=align)
    target = get_target("sm_90")
    module = parse_text(text, "kernel.mlir")
    for name, _ in passes(module, (), "sm_90"):
        if name == "convert-cudatile-to-tileaa":
            func = next(op for op in module.walk() if isinstance(op, aa.FuncOp))
            return plan_cta(func, target, given).num_warps
    raise AssertionError("the kernel did not get there")


@pytest.mark.parametrize(
    ("type", "size", "asked", "found"),
    [
        ("f16", 512, 4, 2),
        ("f16", 256, 8, 1),
        ("f32", 256, 4, 2),
        ("f32", 512, 4, 4),
        ("f16", 1024, 4, 4),
        ("f16", 4096, 2, 2),
        ("f16", 64, 2, 1),
    ],
)
def test_warps_without_work_are_not_there(type: str, size: int, asked: int, found: int):
    assert warps(type, size, asked) == found


def test_narrow_accesses_keep_more_warps_busy():
    assert warps("f32", 256, 8, align=4) == 8


def test_a_number_that_a_pass_is_given_counts():
    assert warps("f16", 256, 1, given=8) == 8

"""How many warps a kernel gets that copies tiles, and how many a hint may ask for."""

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


def warps(
    type: str,
    size: int,
    asked: int,
    align: int = 16,
    given: int = 0,
    gpu: str = "sm_90",
    text: str = COPY,
) -> int:
    """The warps of a kernel that copies tiles; 0 `asked` for leaves it to the compiler."""
    text = text.format(type=type, size=size, warps=asked, align=align)
    target = get_target(gpu)
    module = parse_text(text, "kernel.mlir")
    for name, _ in passes(module, (), gpu):
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


@pytest.mark.parametrize(
    ("type", "size", "found"),
    [
        ("f16", 1024, 4),
        ("f16", 4096, 4),
        ("f16", 8192, 8),
        ("f16", 16384, 32),
        ("f16", 32768, 32),
        ("f32", 2048, 4),
        ("f32", 4096, 16),
        ("f32", 8192, 32),
        ("f32", 65536, 32),
    ],
)
def test_a_thread_of_a_large_tile_moves_few_elements_as_long_as_there_are_warps(
    type: str, size: int, found: int
):
    assert warps(type, size, 0) == found


def test_two_tile_blocks_have_room_on_an_sm():
    assert warps("f16", 32768, 0, gpu="sm_120") == 16


def test_tiles_that_fill_all_registers_get_what_they_got():
    computed = COPY.replace(
        "%z = store_view_tko weak %a,",
        "%s = addf %a, %a rounding<nearest_even> : tile<{size}x{type}>\n"
        "    %u = mulf %s, %a rounding<nearest_even> : tile<{size}x{type}>\n"
        "    %z = store_view_tko weak %u,",
    )
    assert warps("f32", 65536, 0, text=computed) == 16

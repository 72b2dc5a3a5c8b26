"""How tiles go from threads to threads is read from the IR, and what cannot be is refused there."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.kernels.pass_runs import OPTIONS, passes_between, run_passes
from tileiras.driver import compile_module
from tileiras.errors import BytecodeError, CompileError

REDUCE, CONVERT = "tileas-legalize-reduce", "tileas-materialize-convert-layout"
LAST = "convert-nv-tileas-to-llvm"
KERNEL = b"""
cuda_tile.module @m {
  entry @rows(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %n: tile<i32>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f32>>
    %b0 = assume div_by<16>, %b : tile<ptr<f32>>
    %t = make_token : token
    %c0 = constant <i32: 0> : tile<i32>
    %av = make_tensor_view %a0, shape = [64, 512], strides = [512, 1]
      : tensor_view<64x512xf32, strides=[512,1]>
    %ap = make_partition_view %av
      : partition_view<tile=(4x512), tensor_view<64x512xf32, strides=[512,1]>>
    %bv = make_tensor_view %b0, shape = [512, 64], strides = [1, 512]
      : tensor_view<512x64xf32, strides=[1,512]>
    %bp = make_partition_view %bv
      : partition_view<tile=(4x512), tensor_view<512x64xf32, strides=[1,512]>>
    %sv = make_tensor_view %b, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
    %sp = make_partition_view %sv : partition_view<tile=(4), tensor_view<64xf32, strides=[1]>>
    %x, %tx = load_view_tko weak %ap[%c0, %c0] token = %t
      : partition_view<tile=(4x512), tensor_view<64x512xf32, strides=[512,1]>>, tile<i32>
      -> tile<4x512xf32>, token
    %r = reduce %x dim=1 identities=[0.000000e+00 : f32]
      : tile<4x512xf32> -> tile<4xf32> (%p: tile<f32>, %q: tile<f32>) {
      %z = maxf %p, %q : tile<f32>
      yield %z : tile<f32>
    }
    %c = scan %x dim=1 reverse=false identities=[0.000000e+00 : f32]
      : tile<4x512xf32> -> tile<4x512xf32> (%p: tile<f32>, %q: tile<f32>) {
      %z = addf %p, %q rounding<nearest_even> : tile<f32>
      yield %z : tile<f32>
    }
    %e = extract %c[%c0, %n] : tile<4x512xf32> -> tile<4x128xf32>
    %f = exp %e : tile<4x128xf32>
    %w = cat %f, %f dim = 1 : tile<4x128xf32>, tile<4x128xf32> -> tile<4x256xf32>
    %v = cat %w, %w dim = 1 : tile<4x256xf32>, tile<4x256xf32> -> tile<4x512xf32>
    %u = store_view_tko weak %v, %bp[%c0, %c0] token = %t
      : tile<4x512xf32>, partition_view<tile=(4x512), tensor_view<512x64xf32, strides=[1,512]>>,
        tile<i32> -> token
    %y = store_view_tko weak %r, %sp[%c0] token = %u
      : tile<4xf32>, partition_view<tile=(4), tensor_view<64xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
"""


@pytest.fixture(scope="module")
def decided() -> str:
    """The kernel with all of its ways."""
    return run_passes(KERNEL, *passes_between("check-target", CONVERT))


def test_the_kernel_goes_every_way(decided: str) -> None:
    for way in ("through_smem", "shuffles", "combine", "regroup"):
        assert f"#nv_tileas.{way}<" in decided
    assert "totals = " in decided and re.search(r"extract .*\n?.*by = ", decided)


def test_the_lowering_reads_ways_from_text(decided: str) -> None:
    """A kernel that is printed behind the passes and read again becomes the same program."""
    rest = passes_between("tileas-optimize-alloc-tensor", LAST)
    assert llvm(decided.encode(), rest) == llvm(KERNEL, passes_between("check-target", LAST))


def llvm(text: bytes, names: tuple[str, ...]) -> bytes:
    """What the passes make of a text, as LLVM IR, less its comments."""
    options = replace(OPTIONS, emit="llvm")
    found = compile_module(text, options, filename="k.mlir", pass_names=names).output
    return b"\n".join(line for line in found.split(b"\n") if not line.startswith(b";"))


@pytest.mark.parametrize(
    ("pattern", "by", "message"),
    [
        (
            r"by = #nv_tileas\.shuffles<rounds = \d+",
            "by = #nv_tileas.shuffles<rounds = 63",
            "rounds = 63, .*expected",
        ),
        (r"by = #nv_tileas\.shuffles<[^>]*>", "by = #nv_tileas.in_registers", "do not hold what"),
        (r"(convert_layout .*through_smem<store = )\d+", r"\g<1>64", "stores 64, at most"),
        (r"(through_smem<store = )\d+", r"\g<1>3", "3 elements at once"),
        (r"combine<in = lanes", "combine<in = warps", "in warps, expected registers or lanes"),
        (r"(in = lanes, strides = \[)\d+", r"\g<1>3", "a stride of 3, no power of two"),
    ],
)
def test_ways_that_cannot_be_are_no_program(
    decided: str, pattern: str, by: str, message: str
) -> None:
    text = re.sub(pattern, by, decided, count=1)
    assert text != decided
    with pytest.raises(BytecodeError, match=message) as caught:
        run_passes(text.encode(), "tileas-optimize-alloc-tensor")
    assert caught.value.location is not None


@pytest.mark.parametrize(
    ("pattern", "said", "message"),
    [
        (r"(in = lanes, strides = \[)\d+", r"\g<1>8192", "has no elements 8192 apart in lanes"),
        (
            r"steps = \[#nv_tileas\.combine<[^>]*>,\s*",
            "steps = [",
            "partial results|other partial",
        ),
        (r"steps = \[", "stairs = [", "has no steps: tileas-legalize-reduce comes before"),
        (r"totals = ", "sums = ", "has several warps and no totals: tileas-legalize-reduce"),
        (r"(convert_layout \S+) {by = [^}]*}", r"\g<1>", "convert_layout' op is not told how"),
        (r"(extract .*?), by = #[^>]*>", r"\g<1>", "extract' op is not told how"),
    ],
)
def test_steps_that_lead_nowhere_are_refused(
    decided: str, pattern: str, said: str, message: str
) -> None:
    text = re.sub(pattern, said, decided, count=1)
    if text == decided:
        text = re.sub(pattern.replace(", by", r" {by").replace(">", ">}"), said, decided, count=1)
    assert text != decided
    with pytest.raises(CompileError, match=message) as caught:
        run_passes(text.encode(), LAST)
    assert caught.value.location is not None


def test_passes_behind_say_what_is_missing(decided: str) -> None:
    text = re.sub(r"(convert_layout \S+) {by = [^}]*}", r"\g<1>", decided)
    rest = run_passes(text.encode(), CONVERT)
    assert rest == decided

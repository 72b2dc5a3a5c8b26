"""Hints for ptxas in PTX: registers of a kernel, loops that are not unrolled; mistakes in them."""

from __future__ import annotations

import re

import pytest

from tests.kernels.product_text import ProductKernel
from tileiras.driver import compile_module
from tileiras.errors import BytecodeError
from tileiras.options import CompileOptions

LOOPS = """
cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>, %n: tile<i32>) KERNEL {
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %z = constant <f32: 0.0> : tile<f32>
    %a = for %i in (%c0 to %n, step %c1) : tile<i32> iter_values(%s = %z) -> (tile<f32>) {
      %q = offset %p, %i : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
      %v, %t = load_ptr_tko weak %q ACCESS : tile<ptr<f32>> -> tile<f32>, token
      %w = addf %s, %v : tile<f32>
      continue %w : tile<f32>
    }
    %u = store_ptr_tko weak %p, %a : tile<ptr<f32>>, tile<f32> -> token
    return
  }
}
"""


def hint(text: str) -> str:
    """For all targets."""
    return f"optimization_hints=<default = {{{text}}}>" if text else ""


def ptx_of(source: str, target: str = "sm_90", strict: bool = False) -> str:
    """The PTX."""
    options = CompileOptions(gpu_name=target, emit="ptx", reject_hints=strict)
    return compile_module(source.encode(), options).output.decode()


def loops(kernel: str = "", access: str = "") -> str:
    """A sum over memory with hints."""
    return LOOPS.replace("KERNEL", hint(kernel)).replace("ACCESS", hint(access))


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_registers_of_a_kernel_are_limited(target: str) -> None:
    assert ".maxnreg 64" in ptx_of(loops("max_registers = 64"), target)
    assert ".maxnreg" not in ptx_of(loops(), target)


@pytest.mark.parametrize("hints", [("unroll = false", ""), ("", "unroll = false")])
def test_a_loop_is_kept_if_the_kernel_or_an_access_asks(hints: tuple[str, str]) -> None:
    assert '.pragma "nounroll"' in ptx_of(loops(*hints))


@pytest.mark.parametrize("hints", [("", ""), ("unroll = true", "unroll = true")])
def test_other_loops_are_for_ptxas_to_unroll(hints: tuple[str, str]) -> None:
    assert ".pragma" not in ptx_of(loops(*hints))


def test_roles_share_registers_out_themselves() -> None:
    kernel = ProductKernel("f16", (128, 128, 64)).text()
    plain = ptx_of(kernel)
    assert "setmaxnreg" in plain
    hinted = re.sub(r"(entry @product\([^)]*\))", rf"\1 {hint('max_registers = 64')}", kernel)
    assert hinted != kernel
    assert ptx_of(hinted) == plain


@pytest.mark.parametrize(
    ("kernel", "access", "message"),
    [
        ("max_registers = 300", "", r"integer value in the range \[24, 255\] is expected for"),
        ("unroll = 3", "", "boolean value expected for default.unroll"),
        ("", "max_registers = 64", "max_registers is not known hint for current Operation"),
    ],
)
def test_mistakes_are_told_who_asks(kernel: str, access: str, message: str) -> None:
    source = loops(kernel, access)
    assert ".maxnreg" not in ptx_of(source) and ".pragma" not in ptx_of(source)
    with pytest.raises(BytecodeError, match=message):
        ptx_of(source, strict=True)


def test_hints_that_are_meant_so_are_no_mistakes() -> None:
    assert ".maxnreg 96" in ptx_of(loops("max_registers = 96", "unroll = false"), strict=True)

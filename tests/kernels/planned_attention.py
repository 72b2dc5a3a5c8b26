"""Attention with windows, and modules behind a pass."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from tests.kernels.softmax_attention import softmax_attention
from tests.kernels.stage_comparison import passes
from tileiras.dialects import nv_tileaa as aa
from tileiras.driver import read_source


def windowed(before: int, columns: int = 128) -> str:
    """Attention of a block to its own keys and so many before its first one."""
    text = softmax_attention("full", 128, columns, 64).decode()
    bounds = f"""%before = constant <i32: {before}> : tile<i32>
    %nearest = subi %first, %before : tile<i32>
    %least = maxi %nearest, %c0 signed : tile<i32>
    %start = divi %least, %cn signed rounding<negative_inf> : tile<i32>
    %sums_0"""
    text = text.replace("%sums_0", bounds, 1)
    return text.replace("in (%c0 to %blocks", "in (%start to %seen")


def behind(text: str, name: str) -> ModuleOp:
    """The module behind a pass."""
    module = read_source(text.encode())
    for done, _ in passes(module, (), "sm_90"):
        if done == name:
            return module
    raise AssertionError("the pass did not run")


def kernel_of(module: ModuleOp) -> aa.FuncOp:
    """The only kernel."""
    return next(op for op in module.walk() if isinstance(op, aa.FuncOp))

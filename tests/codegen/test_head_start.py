"""Consumers that copy the first tiles: what they wait for before, in PTX."""

from __future__ import annotations

import re

import pytest
from simulate import lower_to_llvm
from thread_kernels import OPTIONS

from tests.gpu.product_text import ProductKernel
from tileiras.codegen.llvm_backend import llvm_ir_to_ptx
from tileiras.codegen.llvmir.printer import print_module
from tileiras.codegen.target import get_target
from tileiras.ir_text import parse_text

TARGET = get_target("sm_90")
FIRST_COPY = "cp.async.cg.shared.global"


@pytest.mark.parametrize(
    "kernel",
    [ProductKernel("f16", (128, 256, 64)), ProductKernel("f16", (128, 256, 64), form="batched")],
    ids=lambda kernel: kernel.name,
)
def test_the_first_tile_is_asked_for_before_mbarriers_are_waited_for(kernel: ProductKernel):
    lowered = lower_to_llvm(parse_text(kernel.text(), "kernel.mlir"))
    ptx = llvm_ir_to_ptx(print_module(lowered, TARGET, OPTIONS), TARGET, OPTIONS)
    assert f"{FIRST_COPY} [" in ptx
    meetings = [found.start() for found in re.finditer(r"bar\.sync \t1, ", ptx)]
    made, told = ptx.index("mbarrier.init"), ptx.index("bar.arrive")
    landed = ptx.index("cp.async.mbarrier.arrive")
    assert made < told < ptx.index(FIRST_COPY) < meetings[0] < landed

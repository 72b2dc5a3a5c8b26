"""What ptxas makes of large products in all types: no spills, and wgmma that is not serialised."""

from __future__ import annotations

from itertools import pairwise

import pytest
from xdsl.dialects.builtin import f8E4M3FN, f32, i8, i32

from tests.kernels.lowered import lower_to_llvm
from tests.kernels.thread_programs import OPTIONS
from tests.kernels.typed_gemm import TF32, Gemm
from tileiras.codegen.llvm_backend import llvm_ir_to_ptx
from tileiras.codegen.llvmir.printer import print_module
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import get_target
from tileiras.dialects.nvvm.wgmma import WgmmaOp

TARGET = get_target("sm_90")
LARGE = (
    Gemm(tile=(128, 256, 32), **TF32),
    Gemm(i8, i32, (128, 256, 128)),
    Gemm(i8, i32, (128, 256, 128), b_transposed=True),
    Gemm(f8E4M3FN, f32, (128, 256, 128)),
    Gemm(f8E4M3FN, f32, (128, 256, 128), b_transposed=True),
    Gemm(f8E4M3FN, f32, (64, 256, 128), b_transposed=True),
)


@pytest.mark.parametrize("gemm", LARGE, ids=str)
def test_large_tiles_do_not_spill(gemm: Gemm) -> None:
    module = lower_to_llvm(gemm.kernel().module)
    ptx = llvm_ir_to_ptx(print_module(module, TARGET, OPTIONS), TARGET, OPTIONS)
    result = ptx_to_cubin(ptx, TARGET, OPTIONS)
    assert result.spills == 0
    assert result.advice == ()


def test_registers_that_threads_read_wait_for_the_group_before() -> None:
    """The fragments of a step are read into registers when at most the newest group runs."""
    module = lower_to_llvm(Gemm(tile=(128, 256, 32), **TF32).kernel().module)
    groups = [op for op in module.walk() if isinstance(op, WgmmaOp)]
    assert all(op.a_in_registers and op.wait is not None and op.wait.data == 1 for op in groups)
    # Two tiles in parts, tiles in turn, a last one: four steps of K each.
    loops = [groups[start : start + 4] for start in range(0, 12, 4)]
    assert sum(loops, []) == groups
    for steps in loops:
        assert all(later.accumulator is first.result for first, later in pairwise(steps))

"""A whole warp-specialised GEMM made of the building blocks alone."""

from __future__ import annotations

import pytest

from tests.kernels.thread_programs import OPTIONS
from tests.kernels.wgmma_gemm import THREADS, wgmma_gemm_module
from tileiras.codegen.llvm_backend import llvm_ir_to_ptx
from tileiras.codegen.llvmir.printer import print_module
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import get_target


@pytest.mark.parametrize("stages", [3, 4])
def test_gemm_has_no_spills_and_no_serialised_wgmma(stages: int) -> None:
    target = get_target("sm_90")
    text = print_module(wgmma_gemm_module(stages), target, OPTIONS)
    ptx = llvm_ir_to_ptx(text, target, OPTIONS)
    result = ptx_to_cubin(ptx, target, OPTIONS)
    assert result.spills == 0
    assert result.advice == ()
    assert result.registers * THREADS <= target.registers_per_sm
    assert ptx.count("wgmma.mma_async") == 4
    assert ptx.count("stmatrix") == 16

"""wgmma products on the GPU: every operand placement gives the exact integer product."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gpu.launch import gpu_name, launch_cubin
from tests.kernels.wgmma_cases import PRODUCTS, name_of
from tests.kernels.wgmma_operands import product_run
from tests.kernels.wgmma_product import Product, product_module
from tileiras.codegen.llvm_backend import llvm_ir_to_ptx
from tileiras.codegen.llvmir.printer import print_module
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import Feature, get_target
from tileiras.driver import with_environment
from tileiras.options import CompileOptions

pytestmark = pytest.mark.gpu
OPTIONS = with_environment(CompileOptions(opt_level=3))


def cubin(product: Product, scale_d: bool) -> bytes:
    """The compiled kernel; skips where the GPU has no wgmma."""
    target = get_target(gpu_name())
    if not target.has(Feature.WGMMA):
        pytest.skip(f"{target.name} has no wgmma")
    module = product_module(product, scale_d=scale_d)
    ptx = llvm_ir_to_ptx(print_module(module, target, OPTIONS), target, OPTIONS)
    return ptx_to_cubin(ptx, target, OPTIONS).cubin


@pytest.mark.parametrize("scale_d", [False, True], ids=["plain", "scale_d"])
@pytest.mark.parametrize("product", PRODUCTS, ids=name_of)
def test_product_is_exact(product: Product, scale_d: bool) -> None:
    run = product_run(product)
    launch_cubin(cubin(product, scale_d), "product", list(run.arguments), (1, 1, 1), (128, 1, 1))
    np.testing.assert_array_equal(run.found(), run.wanted)

"""Clusters of two CTAs that divide tiles of wgmma, and go through the grid: in the machine.

Against float64, with no race and no read of unfinished work; ptxas spills nothing.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels.machine_products import difference_of
from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import aligned_result
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import get_target
from tileiras.driver import compile_module
from tileiras.options import CompileOptions

F16 = ProductKernel("f16", (256, 256, 64), result="f16")
KERNELS = (
    F16,
    replace(F16, cluster=1, result="f32"),
    replace(F16, element="f32", tile=(256, 256, 32), result="f32"),
    replace(F16, element="f8E4M3FN", tile=(256, 256, 128), whole=True),
    replace(F16, element="bf16", b="transposed", form="batched", result="bf16"),
)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_every_tile_is_computed(kernel: ProductKernel) -> None:
    """By one cluster, and by more than there are tiles."""
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_90")
    text = compile_module(aligned_result(kernel).encode(), options).output.decode()
    assert "reqnctapercluster 2" in text and ".multicast::cluster" in text
    assert "%nsmid" in text
    for resident in (2, 8):
        assert difference_of(kernel, text, resident, (2, 2), 2) == ""
    result = ptx_to_cubin(text, get_target("sm_90"), CompileOptions(gpu_name="sm_90"))
    assert result.cubin and result.spills == 0

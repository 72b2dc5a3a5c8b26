"""The machine's wgmma and TMA, on the very kernels that a GPU runs (tests/gpu)."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.lowered import run_lowered
from tests.kernels.wgmma_cases import PRODUCTS, name_of
from tests.kernels.wgmma_operands import product_run
from tests.kernels.wgmma_product import Product, product_module
from tileiras.dialects.nvvm.mbarrier import MbarrierWaitOp
from tileiras.interpreter import InterpreterError


@pytest.mark.parametrize("scale_d", [False, True], ids=["plain", "scale_d"])
@pytest.mark.parametrize("product", PRODUCTS, ids=name_of)
def test_product_is_exact(product: Product, scale_d: bool) -> None:
    run = product_run(product)
    run_lowered(product_module(product, scale_d=scale_d), run.arguments)
    np.testing.assert_array_equal(run.found(), run.wanted)


def test_a_tile_that_nobody_waits_for_has_not_arrived() -> None:
    module = product_module(PRODUCTS[0])
    (wait,) = [op for op in module.walk() if isinstance(op, MbarrierWaitOp)]
    wait.detach()
    with pytest.raises(InterpreterError, match="wgmma: read of shared memory that nobody has"):
        run_lowered(module, product_run(PRODUCTS[0]).arguments)

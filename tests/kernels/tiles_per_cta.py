"""Kernels whose tile blocks do several tiles, at several stages."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import ProductCase
from tests.kernels.stage_comparison import passes
from tests.kernels.unchanged import changing
from tileiras.dialects import nv_tileaa as aa
from tileiras.interpreter import run_entry
from tileiras.ir_text import parse_text

SQUARE = ProductKernel("f16", (128, 128, 64), form="persistent")


def placed(text: str) -> aa.FuncOp:
    """The kernel after its layouts have been chosen for sm_90."""
    module = parse_text(text, "kernel.mlir")
    for _ in passes(module, (), "sm_90"):
        pass
    return kernel_of(module)


def kernel_of(module: ModuleOp) -> aa.FuncOp:
    """The only kernel."""
    return next(op for op in module.walk() if isinstance(op, aa.FuncOp))


def changed(old: str, new: str, kernel: ProductKernel = SQUARE) -> str:
    """The text of a kernel with something else in it."""
    text = kernel.text()
    assert old in text
    return text.replace(old, new)


def two_tiles_stages(
    case: ProductCase, text: str | None = None, locks: np.ndarray | None = None
) -> int:
    """Runs a kernel at every stage from the pass on and checks its results; how many there are."""
    module, count = parse_text(text or case.kernel.text(), "kernel.mlir"), 0
    for name, _ in changing(module, passes(module, (), "sm_90")):
        func = next((op for op in module.walk() if isinstance(op, aa.FuncOp)), None)
        if func is not None and func.two_tiles is not None:
            arguments = case.arguments()
            if locks is not None:
                arguments[3] = locks
            run_entry(module, "product", arguments, case.grid)
            assert not case.difference(arguments[2]), name
            count += 1
    return count

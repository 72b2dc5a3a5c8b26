"""Two tiles at once and one at the end, thread by thread: warp roles and copies in any order."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.kernels.lowered import lower_to_llvm, run_lowered
from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import aligned_result, dense_case
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.interpreter import InterpreterError
from tileiras.ir_text import parse_text

KERNEL = ProductKernel("f16", (128, 128, 64), form="numbered", result="f16", order="columns")


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("tiles", "depth"), [(1, 96), (6, 64), (13, 320)])
def test_every_tile_is_computed(tiles: int, depth: int, seed: int):
    """One at the end, fetched by consumers; two at once; both, in the same memory in turn.

    The machine has 5 multiprocessors: rounds of ten tiles, and up to five at the end.
    """
    module = lower_to_llvm(parse_text(aligned_result(KERNEL), "kernel.mlir"))
    case = dense_case(KERNEL, (128 * tiles - 24, 128, depth), tiles)
    arguments = case.arguments()
    run_lowered(module, arguments, case.grid, seed)
    assert not case.difference(arguments[2])


def test_the_last_tile_waits_until_stages_are_handed_back():
    def hurry(module: ModuleOp) -> None:
        for op in module.walk():
            if isinstance(op, pl.ProducerTailOp):
                op.properties.pop("handed_back", None)

    text = parse_text(aligned_result(KERNEL), "kernel.mlir")
    module = lower_to_llvm(text, after_placement=hurry)
    case = dense_case(KERNEL, (128 * 13 - 24, 128, 320), 13)
    with pytest.raises(InterpreterError, match="read of shared memory that nobody has written"):
        run_lowered(module, case.arguments(), case.grid, seed=1)

"""Products on the PTX machine, of a grid of tiles, with few CTAs at a time."""

from __future__ import annotations

from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import dense_case
from tileiras.interpreter.ptx import Limits, run_ptx

C = 2


def difference_of(
    kernel: ProductKernel, text: str, resident: int, blocks: tuple[int, int], steps: int
) -> str:
    """What is wrong with the product of `blocks` tiles along both axes and `steps` along K."""
    m, n, k = kernel.tile
    case = dense_case(kernel, (blocks[0] * m, blocks[1] * n, steps * k), *blocks, 1)
    arguments = case.arguments()
    run_ptx(text, arguments, case.grid, limits=Limits(resident=resident))
    return case.difference(arguments[C])

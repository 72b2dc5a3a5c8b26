"""Gathers in chunks of all sizes, thread by thread: wgmma reads what the threads have copied."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.gather import experts, experts_case
from tests.kernels.lowered import lower_to_llvm, run_lowered
from tileiras.driver import read_source


@pytest.mark.parametrize("align", [16, 8, 4])
@pytest.mark.parametrize(("rows", "depth", "loop"), [(128, 64, "computed"), (64, 128, "carried")])
def test_products_of_gathered_rows(rows: int, depth: int, align: int, loop: str) -> None:
    """Beside a tile that the same threads copy; the second step of the depth is ragged."""
    text = experts(rows, 64, depth, loop, align).replace(
        b"%W1 = assume div_by<16>", b"%W1 = assume div_by<4>"
    )
    module = lower_to_llvm(read_source(text))
    size, width = depth + 16, 80
    case = experts_case(rows, 64, size, width, blocks=1, align=align)
    run_lowered(module, case.arguments, case.grid)
    np.testing.assert_array_equal(case.arguments[2], case.wanted)

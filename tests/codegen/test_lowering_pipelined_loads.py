"""Pipelined loads as threads do them: cp.async into cells of their own."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.lowered import lower_to_llvm, run_lowered
from tests.kernels.row_loops import COLUMNS, KERNELS, ROWS, RowLoop, arrays
from tileiras.dialects.cuda_tile.text import parse_module
from tileiras.interpreter import InterpreterError, run_entry

CELL = 16


def lowered(kernel: RowLoop):
    """The program of a thread."""
    return lower_to_llvm(parse_module(kernel.text), "sm_90")


@pytest.mark.parametrize("bounds", [(0, 0, 1), (0, 3, 1), (1, 6, 2)], ids=str)
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_threads_compute_what_the_kernel_says(
    kernel: RowLoop, bounds: tuple[int, int, int]
) -> None:
    wanted, found = arrays(kernel), arrays(kernel)
    scalars = (ROWS, COLUMNS, *bounds)
    run_entry(parse_module(kernel.text), "k", [*wanted, *map(np.int32, scalars)], grid=(ROWS, 1, 1))
    module = lowered(kernel)
    assert any(op.name == "nvvm.cp_async" for op in module.walk())
    run_lowered(module, [*found, *scalars], (ROWS, 1, 1))
    np.testing.assert_array_equal(found, wanted)


def test_a_tile_that_is_read_too_early_is_noticed() -> None:
    kernel = RowLoop(step="%by")
    module = lowered(kernel)
    for op in module.walk():
        if op.name == "nvvm.cp_async_wait":
            op.properties["pending"] = type(op.properties["pending"])(8)
    with pytest.raises(InterpreterError, match="nobody has written"):
        run_lowered(module, [*arrays(kernel), ROWS, COLUMNS, 0, 3, 1], (ROWS, 1, 1))


def test_loops_side_by_side_share_memory() -> None:
    module = lowered(RowLoop("f16", step="%by"))
    [buffers] = [op for op in module.body.ops if "load_rings" in str(op.properties["sym_name"])]
    waits = [op for op in module.walk() if op.name == "nvvm.cp_async_wait"]
    pending = [op.properties["pending"].data for op in waits]
    assert [bool(count) for count in pending] == [True, False, True, False]
    stages = [count + 1 for count in pending]
    assert buffers.size.data == max(stages) * 32 * CELL


@pytest.mark.parametrize("tiles", [4, 17, 22])
def test_resident_tiles_are_where_threads_left_them(tiles: int) -> None:
    """All of a row, and of one that is too long for the circular buffer."""
    kernel = RowLoop(width=8)
    wanted, found = arrays(kernel), arrays(kernel)
    scalars = (ROWS, COLUMNS, 0, tiles, 1)
    run_entry(parse_module(kernel.text), "k", [*wanted, *map(np.int32, scalars)], grid=(ROWS, 1, 1))
    run_lowered(lowered(kernel), [*found, *scalars], (ROWS, 1, 1))
    np.testing.assert_array_equal(found, wanted)

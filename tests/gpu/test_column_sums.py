"""Loops over rows that the CTAs of a cluster divide, on the GPU: exact in any order."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")

from tests.kernels.column_sums import (  # noqa: E402
    FUNCTIONS,
    ColumnCase,
    column_kernel,
    wide_kernel,
)

from .launch import compile_for_this_gpu, launch_cubin  # noqa: E402

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(("rows", "blocks"), [(0, 2), (1, 1), (300, 40), (5000, 300), (40000, 3)])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_all_rows_are_combined(function: str, rows: int, blocks: int) -> None:
    """Few tile blocks and many, fewer iterations than CTAs and more."""
    cubin = compile_for_this_gpu(column_kernel(function).encode())
    for _ in range(5):
        case = ColumnCase(function, rows, blocks)
        arguments = case.arguments()
        whole = [np.int32(each) if isinstance(each, int) else each for each in arguments]
        launch_cubin(cubin, "columns", whole, case.grid)
        case.check()


@pytest.mark.parametrize(("rows", "blocks"), [(0, 2), (1, 1), (300, 40), (5000, 150), (40000, 3)])
@pytest.mark.parametrize("columns", [1024, 2048])
def test_all_parts_of_large_tiles_are_there(columns: int, rows: int, blocks: int) -> None:
    """As many parts as CTAs of a cluster, and twice as many."""
    cubin = compile_for_this_gpu(wide_kernel(columns=columns).encode())
    case = ColumnCase("sum", rows, blocks, columns)
    arguments = case.arguments()
    whole = [np.int32(each) if isinstance(each, int) else each for each in arguments]
    launch_cubin(cubin, "columns", whole, case.grid)
    case.check()

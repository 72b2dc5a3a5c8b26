"""Products with gathered operands on the GPU: exact results, many tiles, guarded outputs."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("cuda.bindings.driver")

from tests.kernels.gather import (  # noqa: E402
    Case,
    experts,
    experts_case,
    gathered_right,
    right_case,
)

from .launch import compile_for_this_gpu, launch_cubin  # noqa: E402

pytestmark = pytest.mark.gpu


def check_case(source: bytes, entry: str, case: Case) -> None:
    """Runs the kernel and compares: all numbers are exact."""
    launch_cubin(compile_for_this_gpu(source), entry, case.arguments, case.grid)
    np.testing.assert_array_equal(case.arguments[case.output], case.wanted)


@pytest.mark.parametrize("loop", ["computed", "carried"])
@pytest.mark.parametrize(
    ("rows", "columns", "depth"),
    [
        *((128, 128, 64), (64, 64, 64), (64, 256, 64), (128, 256, 64), (256, 128, 64)),
        *((128, 128, 128), (128, 128, 32), (128, 64, 16), (256, 32, 32)),
    ],
)
@pytest.mark.parametrize("size", [64, 80, 1040])
def test_multiplies_rows_from_anywhere(rows, columns, depth, loop, size):
    """One step, a ragged step, and pipelines that go round often; more blocks than fit at once."""
    case = experts_case(rows, columns, size, 304, blocks=400 if size == 80 else 3)
    check_case(experts(rows, columns, depth, loop), "experts", case)


@pytest.mark.parametrize("align", [8, 4])
@pytest.mark.parametrize("loop", ["computed", "carried"])
@pytest.mark.parametrize(
    ("rows", "columns", "depth"), [(128, 128, 64), (64, 64, 64), (256, 128, 64), (128, 128, 128)]
)
@pytest.mark.parametrize("size", [64, 80, 1040])
def test_gathers_shorter_chunks(rows, columns, depth, loop, size, align):
    blocks = 400 if size == 80 else 3
    case = experts_case(rows, columns, size, 304, blocks=blocks, align=align)
    check_case(experts(rows, columns, depth, loop, align), "experts", case)


@pytest.mark.parametrize("is_transposed", [False, True])
def test_gathers_right_operands(is_transposed):
    check_case(gathered_right(is_transposed), "right", right_case(is_transposed))

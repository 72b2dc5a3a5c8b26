"""Every row on the GPU against its reference; a sample of them without a GPU.

All rows: `pytest tests/gpu/operations -m gpu`. The rows run in worker processes of the session's
first test, so pytest-xdist has nothing to add. One row: `-k "reduce_addi_i32_64x64_0"`.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

from .checking import run_row  # noqa: E402
from .table import ROWS  # noqa: E402

NUMBERED = [pytest.param(number, id=row.id) for number, row in enumerate(ROWS)]
SAMPLE_STEP = 29
"""Every how manieth row runs in the simulator, without a GPU."""


@pytest.mark.gpu
@pytest.mark.gpu_row
@pytest.mark.parametrize("number", NUMBERED)
def test_row_agrees_with_its_reference(number: int, outcomes: dict[int, Any]) -> None:
    outcome = outcomes[number]
    assert outcome.status == "passed", outcome.message


@pytest.mark.parametrize("number", NUMBERED[::SAMPLE_STEP])
def test_sampled_row_agrees_in_the_simulator(number: int) -> None:
    outcome = run_row(ROWS[number], "simulate", "sm_90")
    if outcome.status == "unsupported":
        pytest.skip(outcome.message)
    assert outcome.status == "passed", outcome.message


def test_row_names_are_unique() -> None:
    assert len({row.id for row in ROWS}) == len(ROWS)

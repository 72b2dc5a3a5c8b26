"""The client's bytecode of every test kernel, run in the interpreter; needs no GPU."""

from __future__ import annotations

import pytest

pytest.importorskip("cuda.tile", reason="cuda-tile is not installed")
pytest.importorskip("numpy")

from .bytecode import export, interpret  # noqa: E402
from .cases import KernelCase, all_cases  # noqa: E402
from .comparison import compare  # noqa: E402


@pytest.mark.parametrize("version", ["13.1", "13.4"])
@pytest.mark.parametrize("case", all_cases(), ids=lambda case: f"{case.name}-{case.shape}")
def test_interpreted_kernel_is_within_its_bound(case: KernelCase, version: str):
    case = case.fresh()
    log = interpret(case, export(case, "tileir_bytecode", version))
    assert log.failures == []
    for output in case.outputs:
        row = compare(case, output, case.arguments[output.position])
        assert row.is_ok, row

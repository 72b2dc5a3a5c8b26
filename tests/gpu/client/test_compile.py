"""The client turns every test kernel into a cubin with our `tileiras`; needs no GPU."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("cuda.tile", reason="cuda-tile is not installed")
pytest.importorskip("numpy")

from .bytecode import export  # noqa: E402
from .cases import KernelCase, all_cases  # noqa: E402

ONE_OF_EACH = {case.kernel: case for case in all_cases()}


@pytest.mark.parametrize("case", ONE_OF_EACH.values(), ids=lambda case: case.name)
def test_client_compiles_to_a_cubin(case: KernelCase, compiler_on_path: Any):
    before = compiler_on_path.inputs()
    assert export(case, "cubin")[:4] == b"\x7fELF"
    assert len(compiler_on_path.inputs()) > len(before)

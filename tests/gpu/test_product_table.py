"""The table of kernels with products on the GPU: what the PTX machine runs for other targets."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")

import numpy as np  # noqa: E402

from tests.kernels.machine_table import ROWS, Row, applies  # noqa: E402

from .launch import compile_for_this_gpu, gpu_name, launch_cubin  # noqa: E402

pytestmark = pytest.mark.gpu

ENTRIES = ("product", "attention", "experts", "right", "scaled")
"""Names of the kernels of the table."""


def entry_of(source: bytes) -> str:
    """The name of the only kernel."""
    [name] = [name for name in ENTRIES if f"entry @{name}(".encode() in source]
    return name


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.family}-{row.name}".replace(" ", "_"))
def test_kernel_computes_what_float64_does(row: Row) -> None:
    target = gpu_name()
    if not applies(row, target):
        pytest.skip(f"{target} lacks {', '.join(feature.value for feature in row.needs)}")
    launch = row.make()
    arguments = [np.float32(a) if isinstance(a, float) else a for a in launch.arguments]
    cubin = compile_for_this_gpu(launch.source)
    launch_cubin(cubin, entry_of(launch.source), arguments, launch.grid)
    assert launch.difference(arguments) == ""

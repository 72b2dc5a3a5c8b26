"""Attention whose tiles of keys come in parts, on the PTX machine."""

from __future__ import annotations

import pytest

from tests.kernels.machine_attention import difference_of
from tests.kernels.softmax_attention import softmax_attention
from tileiras.driver import compile_module
from tileiras.options import CompileOptions


@pytest.mark.parametrize("tiles", [1, 2])
@pytest.mark.parametrize(
    ("rows", "columns", "depth"),
    [(64, 256, 128), (128, 256, 64), (128, 128, 256), (64, 256, 256), (128, 128, 32)],
)
def test_values_are_those_of_attention(rows: int, columns: int, depth: int, tiles: int) -> None:
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_90")
    source = softmax_attention("full", rows, columns, depth)
    text = compile_module(source, options).output.decode()
    assert "wgmma.mma_async" in text
    assert difference_of("full", text, tiles * columns, (rows, depth), 2) < 2e-3

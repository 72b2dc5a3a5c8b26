"""Attention with 16 or 32 rows of queries: wgmma of 64 rows, of which warps have copies."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.compilations import compiled
from tests.kernels.softmax_attention import run_attention, softmax_attention
from tests.kernels.stage_comparison import passes
from tileiras.dialects.layout.errors import LayoutError
from tileiras.dialects.layout.mma import wgmma_accumulator
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.driver import compile_module, read_source, with_environment
from tileiras.options import CompileOptions


def converted(source: bytes):
    """The module after the last pass before threads."""
    module = read_source(source)
    for _name, _stage in passes(module, (), "sm_90", exact=True):
        pass
    return module


@pytest.mark.parametrize("kind", ["full", "causal"])
@pytest.mark.parametrize(("rows", "columns"), [(16, 64), (16, 128), (32, 64)])
def test_it_computes_what_the_kernel_says(kind: str, rows: int, columns: int):
    source = softmax_attention(kind, rows, columns, 64)
    module = converted(source)
    assert [op for op in module.walk() if isinstance(op, wg.WgmmaDotOp)]
    length = 3 * columns
    wanted = run_attention(read_source(source), rows, length, 64)
    assert np.array_equal(wanted, run_attention(module, rows, length, 64))


@pytest.mark.parametrize(
    ("rows", "columns", "depth"),
    [(16, 64, 128), (16, 128, 128), (32, 64, 64), (32, 128, 128), (16, 256, 128)],
)
def test_nothing_is_spilled_and_products_are_not_serialised(rows: int, columns: int, depth: int):
    options = with_environment(CompileOptions(gpu_name="sm_90"))
    found = compile_module(softmax_attention("full", rows, columns, depth), options)
    assert "0 bytes spilled" in found.notes[0]
    assert not [note for note in found.notes if "C75" in note]


def test_fewer_rows_than_an_instruction_of_a_warp_are_not():
    assert "wgmma_dot" not in compiled(softmax_attention("full", 8, 64, 128))


def test_without_wgmma_there_is_nothing_of_it():
    text = compiled(softmax_attention("full", 16, 64, 128), disabled_features=("wgmma",))
    assert "wgmma_dot" not in text


def test_warps_have_copies_of_few_rows():
    layout = wgmma_accumulator((16, 64), 1)
    assert layout.basis("warp") == ((0, 0), (0, 0))
    assert wgmma_accumulator((32, 64), 1).basis("warp") == ((16, 0), (0, 0))
    with pytest.raises(LayoutError):
        wgmma_accumulator((32, 64), 2)

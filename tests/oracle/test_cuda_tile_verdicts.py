"""The verifiers accept and reject what NVIDIA's compiler does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels import (
    cases_control_flow,
    cases_elementwise,
    cases_memory,
    cases_tiles,
)
from tests.kernels.cuda_tile_text import kernel, verified
from tests.oracle.vendor import vendor_accepts
from tileiras.bytecode.writer import write_module
from tileiras.dialects.cuda_tile.text import parse_module
from tileiras.dialects.cuda_tile.text.lexer import ParseError
from tileiras.dialects.cuda_tile.text.type_parser import FLOAT_TYPES
from tileiras.errors import BytecodeError

pytestmark = pytest.mark.oracle

CHAPTERS = (cases_elementwise, cases_tiles, cases_memory, cases_control_flow)
CASES = [
    *(
        kernel(body)
        for chapter in CHAPTERS
        for bodies in chapter.ACCEPTED.values()
        for body in bodies
    ),
    *(kernel(body) for chapter in CHAPTERS for _, body, _ in chapter.REJECTED),
    *cases_control_flow.ACCEPTED_MODULES,
    *(text for _, text, _ in cases_control_flow.REJECTED_MODULES),
]
STRICTER = ("global @g alignment = 3 ",)
"""What we refuse and the vendor does not: an alignment that is no power of two."""


def we_accept(text: str) -> bool:
    """Whether a program verifies here."""
    try:
        verified(text)
    except BytecodeError:
        return False
    return True


@pytest.mark.parametrize("text", CASES)
def test_same_verdict(text: str, tmp_path: Path) -> None:
    """On every case of the verifiers' tests that can be written as bytecode."""
    try:
        data = write_module(parse_module(text), (13, 5))
    except ParseError:
        pytest.skip("there is no such bytecode")
    if text.startswith(STRICTER):
        assert vendor_accepts(data, tmp_path) and not we_accept(text)
        return
    assert vendor_accepts(data, tmp_path) == we_accept(text)


MODES = (
    "nearest_even",
    "zero",
    "negative_inf",
    "positive_inf",
    "approx",
    "full",
    "nearest_int_to_zero",
    "nearest_away",
)


@pytest.mark.parametrize("source", FLOAT_TYPES)
@pytest.mark.parametrize("result", FLOAT_TYPES)
def test_same_rounding_modes_of_conversions(source: str, result: str, tmp_path: Path) -> None:
    """All modes of every pair of float types."""
    for mode in MODES:
        text = kernel(
            f"%0 = ftof %v_8_{source} rounding<{mode}> : tile<8x{source}> -> tile<8x{result}>"
        )
        data = write_module(parse_module(text), (13, 5))
        assert vendor_accepts(data, tmp_path) == we_accept(text), mode


ORDERINGS = ("weak", "relaxed", "acquire", "release", "acq_rel")
SCOPES = ("", " tl_blk", " device", " sys")
ACCESSES = (
    "%0, %1 = load_ptr_tko {} %p_8_f32 : tile<8xptr<f32>> -> tile<8xf32>, token",
    "%0 = store_ptr_tko {} %p_8_f32, %v_8_f32 : tile<8xptr<f32>>, tile<8xf32> -> token",
    "%0, %1 = atomic_rmw_tko {} %p_8_i32, add, %v_8_i32 : "
    "tile<8xptr<i32>>, tile<8xi32> -> tile<8xi32>, token",
)


@pytest.mark.parametrize("access", ACCESSES, ids=["load", "store", "atomic"])
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("ordering", ORDERINGS)
def test_same_memory_orderings(access: str, ordering: str, scope: str, tmp_path: Path) -> None:
    """With every scope; an atomic without one cannot be written."""
    if "atomic" in access and not scope:
        pytest.skip("there is no such bytecode")
    text = kernel(access.format(ordering + scope))
    data = write_module(parse_module(text), (13, 5))
    assert vendor_accepts(data, tmp_path) == we_accept(text)

"""Products that share a loaded tile share slots: one ring, handed back after all of them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gpu.product_text import ELEMENTS
from tests.interpreter.stage_comparison import passes
from tests.passes.nv_tileas.shared_operands import (
    APART,
    COLUMNS,
    DEPTH,
    FORMS,
    ROWS,
    shared_operands,
)
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.driver import read_source
from tileiras.interpreter import run_entry
from tileiras.interpreter.formats import format_of, to_bits

GRID = (1, 2, 1)
PLACEMENTS = [
    ("f32", 32, ""),
    ("f32", 32, "BE"),
    ("f8E4M3FN", 128, "BE"),
    ("f8E4M3FN", 128, ""),
    ("f16", 128, ""),
    ("f16", 128, "ADBE"),
]
"""Element types, steps of K, and the operands that are contiguous along their other dim."""


def arguments(element: str, turned: str = "") -> list[np.ndarray]:
    """Small whole numbers as the kernel takes them."""
    random = np.random.default_rng(7)
    fmt = format_of(ELEMENTS[element])
    found: list[np.ndarray] = []
    for name, shape in zip("ABDE", [(ROWS, DEPTH), (DEPTH, COLUMNS)] * 2, strict=True):
        values = random.integers(-2, 3, shape).astype(fmt.dtype)
        values = values.T if name in turned else values
        found.append(to_bits(np.ascontiguousarray(values), fmt).reshape(-1))
    return [*found, *(np.zeros(ROWS * COLUMNS, np.float32) for _ in range(2))]


def run_stages(text: str, element: str, turned: str = ""):
    """Runs the kernel after every pass; memory must stay the same. Returns the last module."""
    module = read_source(text.encode())
    wanted = arguments(element, turned)
    run_entry(module, "shared", wanted, GRID)
    assert wanted[-1].any()
    for name, _ in passes(module, (), "sm_90"):
        found = arguments(element, turned)
        run_entry(module, "shared", found, GRID)
        for one, other in zip(wanted[-2:], found[-2:], strict=True):
            np.testing.assert_array_equal(one, other, err_msg=f"after {name}")
    return module


def count(module, kind) -> int:
    return sum(isinstance(op, kind) for op in module.walk())


@pytest.mark.parametrize("form", FORMS)
def test_products_share_slots(form):
    module = run_stages(shared_operands(form), "f16")
    assert count(module, pl.CreatePipelineOp) == 1
    assert count(module, pl.TmaLoadOp) == len({part for part in FORMS[form] if part in "ABDE"})


@pytest.mark.parametrize(("element", "step", "turned"), PLACEMENTS)
def test_in_all_types_and_placements(element, step, turned):
    text = shared_operands("left", element, step, turned)
    assert count(run_stages(text, element, turned), pl.CreatePipelineOp) == 1


@pytest.mark.parametrize("form", APART)
def test_each_turn_waits_for_what_runs_beside_it(form: str) -> None:
    """Else the next turn but one writes over a copy that another warp still multiplies by."""
    module = run_stages(shared_operands(form, "f32", 32, "AD"), "f32", "AD")
    turns = [op for op in module.walk() if isinstance(op, wg.TurnTileOp)]
    assert [turn.running is not None for turn in turns] == [form == "both go on"] * 2

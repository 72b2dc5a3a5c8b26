"""Products that share a loaded tile share stages: one pipeline, handed back after all of them."""

from __future__ import annotations

import pytest

from tests.kernels.shared_operand_runs import PLACEMENTS, run_stages
from tests.kernels.shared_operands import (
    APART,
    FORMS,
    shared_operands,
)
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg


def count(module, kind) -> int:
    return sum(isinstance(op, kind) for op in module.walk())


@pytest.mark.parametrize("form", FORMS)
def test_products_share_stages(form):
    module = run_stages(shared_operands(form), "f16")
    assert count(module, pl.CreatePipelineOp) == 1
    assert count(module, pl.TmaLoadOp) == len({part for part in FORMS[form] if part in "ABDE"})


def test_mma_sync_reads_a_shared_tile_from_its_stage() -> None:
    """Each product by itself: there are no registers that two of them could read."""
    module = run_stages(shared_operands("left"), "f16", arch="sm_120")
    assert count(module, tas.MmaDotOp) == 2
    assert count(module, pl.TmaLoadOp) == len({part for part in FORMS["left"] if part in "ABDE"})


@pytest.mark.parametrize(("element", "step", "transposed"), PLACEMENTS)
def test_in_all_types_and_placements(element, step, transposed):
    text = shared_operands("left", element, step, transposed)
    assert count(run_stages(text, element, transposed), pl.CreatePipelineOp) == 1


@pytest.mark.parametrize("form", APART)
def test_each_turn_waits_for_what_runs_beside_it(form: str) -> None:
    """Else the next turn but one writes over a copy that another warp still multiplies by."""
    module = run_stages(shared_operands(form, "f32", 32, "AD"), "f32", "AD")
    turns = [op for op in module.walk() if isinstance(op, wg.SmemTransposeOp)]
    assert [turn.running is not None for turn in turns] == [form == "both go on"] * 2

"""IR text is not wider than a screen, at any stage, signatures of functions aside."""

from __future__ import annotations

from pathlib import Path

import pytest
from filetests.ir_case import Case, produce
from sweeps.width_sweep import STAGES, long_lines, texts

ROOT = Path(__file__).resolve().parent.parent
KERNELS = sorted((ROOT / "examples").glob("*.mlir"))


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_lines_of_examples_are_narrow(path: Path, target: str) -> None:
    """tests/sweeps/width_sweep.py asks the same of a whole corpus."""
    found = texts(path, target)
    assert list(found) == list(STAGES)
    assert {stage: long_lines(text) for stage, text in found.items()} == dict.fromkeys(STAGES, [])


def test_plans_are_narrow() -> None:
    """Attributes of functions and operations are broken, too."""
    path = ROOT / "examples" / "experts.mlir"
    text = produce(Case(path, "...,tileas-plan-cta", path.read_text(encoding="utf-8"), 1))
    assert "kernel_plan" in text
    assert long_lines(text) == []


def test_wide_lines_are_found() -> None:
    """But not those of signatures."""
    wide = "x" * 141
    assert long_lines(f"a\n{wide}\n{wide[1:]}") == [wide]
    assert long_lines(f"  nv_tileaa.func @{wide}(\n      @{wide}(%a: i32)") == []

"""Every pass has a file test in which it acts and one in which it does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from pass_files import always_acts, cases_of_passes, show

from tileiras.pipeline import EVERY_STEP

NAMES = [step.pass_name for step in EVERY_STEP]


def complaints(name: str, folder: Path | None = None) -> list[str]:
    """What the file tests of a pass lack."""
    cases = (cases_of_passes(folder) if folder else cases_of_passes())[name]
    if not cases:
        return ["no file in tests/filetests has a RUN line that ends with it"]
    shown = [show(case) for case in cases]
    missing = [] if shown[0].acts else ["its first case, the example of its page, changes nothing"]
    if always_acts(name):
        quiet = any("CHECK-NOT" in one.case.text for one in shown)
    else:
        quiet = any(not one.acts for one in shown)
    return missing if quiet else [*missing, "no case shows what it leaves alone"]


@pytest.mark.parametrize("name", NAMES)
def test_pass_has_cases_where_it_acts_and_where_it_does_not(name: str) -> None:
    """Passes that change every program have a case that says what must not be there."""
    assert complaints(name) == []


QUIET = """// RUN: cse
// CHECK: module
cuda_tile.module @m {
  entry @empty() {
    return
  }
}
"""


def test_the_check_finds_what_is_missing(tmp_path: Path) -> None:
    """A pass without a file, one that is never seen to act, one that is never seen not to."""
    (tmp_path / "cse.mlir").write_text(QUIET)
    (tmp_path / "plan.mlir").write_text(QUIET.replace("RUN: cse", "RUN: ...,tileas-plan-cta"))
    assert complaints("hoist-views", tmp_path) != []
    assert complaints("cse", tmp_path) == [
        "its first case, the example of its page, changes nothing"
    ]
    assert complaints("tileas-plan-cta", tmp_path) == ["no case shows what it leaves alone"]

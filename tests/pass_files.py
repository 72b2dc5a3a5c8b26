"""The file tests of each pass: which cases show it, and what each of them shows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from filetests.ir_case import (
    Case,
    FileTestMistake,
    expected_errors,
    produce,
    read_cases,
    request_of,
)

from tileiras.errors import TileirasError
from tileiras.options import CUTE
from tileiras.pass_names import pass_name
from tileiras.pipeline import CUTE_PIPELINE, EVERY_STEP, PIPELINE, PRINTING

FILES = Path(__file__).resolve().parent / "filetests"


@dataclass(frozen=True)
class ShownPass:
    """What one case shows of the last pass that it runs."""

    case: Case
    before: str
    after: str
    error: str = ""

    @property
    def acts(self) -> bool:
        """Whether the pass changes the program, or rejects it."""
        return bool(self.error) or self.before != self.after


def cases_of_passes(folder: Path = FILES) -> dict[str, list[Case]]:
    """Pass -> the cases of all files whose RUN line ends with it."""
    found: dict[str, list[Case]] = {step.pass_name: [] for step in EVERY_STEP}
    for path in sorted(folder.rglob("*.mlir")):
        for case in read_cases(path):
            names = request_of(case).pass_names
            if names:
                found.setdefault(pass_name(names[-1]), []).append(case)
    return found


def show(case: Case) -> ShownPass:
    """Runs a case without its last pass and with it."""
    if not expected_errors(case):
        return ShownPass(case, produce(case, leave_out=1), produce(case))
    lines = [line for line in case.text.split("\n") if not line.strip().startswith("//")]
    try:
        produce(case)
    except TileirasError as error:
        return ShownPass(case, "\n".join(lines), "", error.message)
    raise FileTestMistake(f"{case.path}: an error is expected, and none comes")


def always_acts(name: str) -> bool:
    """Whether a pass changes every program: a conversion, or a pass that writes a plan."""
    if name in {step.pass_name for step in PRINTING}:
        return False
    steps = CUTE_PIPELINE if name in {step.pass_name for step in CUTE_PIPELINE} else PIPELINE
    stages = [CUTE if steps is CUTE_PIPELINE else "cuda_tile", *(step.stage for step in steps)]
    position = [step.pass_name for step in steps].index(name)
    return stages[position] != stages[position + 1] or name in WRITES_ALWAYS


WRITES_ALWAYS = ("tileas-plan-cta",)
"""Passes that write attributes into every kernel."""

"""What has shown that code for a target computes what it should. docs/targets.md has the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PAGE = "docs/targets.md"
"""Where the evidence is described."""


@dataclass(frozen=True)
class Evidence:
    """The kinds of evidence, the strongest first; an empty text: none of that kind.

    `hardware`: GPUs of the target on which its code ran. `elsewhere`: GPUs of another target on
    which it ran, with what these lack or what it lacks left out. `machine`: what ran in the PTX
    machine.
    """

    hardware: str = ""
    elsewhere: str = ""
    machine: str = ""

    def note(self, target: str) -> str:
        """What a user of the target should know; empty where its code has run on hardware."""
        if self.hardware:
            return ""
        shown = [f"on {self.elsewhere}"] if self.elsewhere else []
        shown += ["in the PTX machine"] if self.machine else []
        what = f"ran {' and '.join(shown)} only" if shown else "was only assembled"
        return f"{target} has not run on hardware of its own yet: its code {what} ({PAGE})"


_RESTRICTED = "an H200 with what the target lacks disabled"
_TABLE = "the table of kernels with products"

EVIDENCE: Mapping[str, Evidence] = {
    "sm_80": Evidence(elsewhere=_RESTRICTED),
    "sm_90": Evidence(
        hardware="H100, H200: tests marked `gpu`, the client's suite, sanitizer",
        machine="916 kernels beside an H200, a sample of the corpus",
    ),
    "sm_100": Evidence(machine=_TABLE),
    "sm_103": Evidence(machine=_TABLE),
    "sm_110": Evidence(machine=_TABLE),
    "sm_120": Evidence(elsewhere=_RESTRICTED, machine=_TABLE),
    "sm_121": Evidence(machine=_TABLE),
}
"""By target; those without a row have only been assembled by ptxas."""


def evidence_of(target: str) -> Evidence:
    """The evidence for a target."""
    return EVIDENCE.get(target, Evidence())

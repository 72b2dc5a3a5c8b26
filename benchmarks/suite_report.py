"""Counts what a pytest run did from its JUnit file, and groups the failures by their messages.

    pytest --junit-xml=ours.xml ...
    python benchmarks/suite_report.py ours.xml [--baseline vendor.xml]

With a baseline the exit status is 1 if a test that passed there does not pass here (or is gone);
without one, if anything failed.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

STATUSES = ("passed", "failed", "error", "skipped")
_TAGS = {"failure": "failed", "error": "error", "skipped": "skipped"}
_WHAT_DIFFERS = (
    (re.compile(r"0x[0-9a-f]+"), "0x.."),
    (re.compile(r"/[\w./-]+/"), ".../"),
    (re.compile(r"\d+(\.\d+)?(e[+-]?\d+)?"), "N"),
)


@dataclass(frozen=True)
class Outcome:
    """One test: its name as pytest takes it, its status and the message that says why."""

    name: str
    status: str
    message: str = ""

    @property
    def file(self) -> str:
        """The module that the test is in."""
        return self.name.partition("::")[0]

    @property
    def group(self) -> str:
        """The message without what differs from test to test."""
        text = self.message
        for pattern, replacement in _WHAT_DIFFERS:
            text = pattern.sub(replacement, text)
        return text[:160]


def telling_line(text: str) -> str:
    """The compiler's diagnostic if the text has one, else its first line with content."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    diagnostics = [line for line in lines if re.search(r"\berror: ", line)]
    if diagnostics:
        return diagnostics[0].partition("error: ")[2]
    return lines[0] if lines else "no message"


def read_outcomes(path: Path) -> dict[str, Outcome]:
    """The tests of a JUnit file by name; a test listed twice keeps its worst status."""
    outcomes: dict[str, Outcome] = {}
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname', '')}::{case.get('name', '')}"
        found = Outcome(name, "passed")
        for child in case:
            if child.tag in _TAGS:
                message = telling_line(f"{child.get('message', '')}\n{child.text or ''}")
                found = Outcome(name, _TAGS[child.tag], message)
        if name not in outcomes or outcomes[name].status in ("passed", "skipped"):
            outcomes[name] = found
    return outcomes


def count_lines(outcomes: Sequence[Outcome]) -> list[str]:
    """A table: one line for each module that did not pass as a whole, then the sum."""
    by_file: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for outcome in outcomes:
        by_file[outcome.file][outcome.status] += 1
    lines = [f"{'module':44}" + "".join(f"{status:>9}" for status in STATUSES)]
    for file, counts in sorted(by_file.items()):
        if counts["failed"] or counts["error"]:
            lines.append(f"{file:44}" + "".join(f"{counts[s]:>9}" for s in STATUSES))
    total = Counter(outcome.status for outcome in outcomes)
    lines.append(f"{'all':44}" + "".join(f"{total[s]:>9}" for s in STATUSES))
    return lines


def group_lines(outcomes: Sequence[Outcome]) -> list[str]:
    """The messages of what failed, most frequent first, each with an example."""
    groups: defaultdict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.status in ("failed", "error"):
            groups[outcome.group].append(outcome)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return [f"{len(members):6}  {group}\n        {members[0].name}" for group, members in ordered]


def lost(ours: dict[str, Outcome], baseline: dict[str, Outcome]) -> list[str]:
    """Tests that pass in the baseline and not here, with what happened here."""
    lines = []
    for name, before in sorted(baseline.items()):
        now = ours.get(name, Outcome(name, "missing"))
        if before.status == "passed" and now.status != "passed":
            lines.append(f"{name}: {now.status}: {now.message}".rstrip(": "))
    return lines


def main(arguments: Sequence[str]) -> int:
    """Prints the report; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("junit", type=Path)
    parser.add_argument("--baseline", type=Path, help="the same suite with another compiler")
    options = parser.parse_args(arguments)
    ours = read_outcomes(options.junit)
    outcomes = list(ours.values())
    print("\n".join([*count_lines(outcomes), "", *group_lines(outcomes)]))
    if options.baseline is None:
        return int(any(outcome.status in ("failed", "error") for outcome in outcomes))
    missing = lost(ours, read_outcomes(options.baseline))
    print("\n".join([f"\n{len(missing)} tests pass in the baseline only", *missing]))
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Fuzzes for some time: `python -m tests.fuzzing --seconds 600 reader text lower compile`.

Inputs that break something are kept, with the number that makes them again (`--only NUMBER`). The
exit status is 1 where there are any.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from tests.fuzzing import seeds
from tests.fuzzing.subjects import SUBJECTS, Finding, judge, suffix_of
from tests.fuzzing.workers import Fuzzing

ENOUGH = 3
"""Inputs that are kept of findings with the same words."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("subjects", nargs="*", default=list(SUBJECTS), metavar="SUBJECT")
    parser.add_argument("--seconds", type=float, default=60, help="for all subjects together")
    parser.add_argument("--count", type=int, default=10**9, help="inputs of a subject, at most")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", type=int, help="try this one input, and print it")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzzing"), help="a folder")
    return parser.parse_args()


def _keep(folder: Path, name: str, number: int, what: str, seen: Counter[str]) -> None:
    seen[what[:50]] += 1
    if seen[what[:50]] > ENOUGH:
        return
    print(f"{name} {number}: {what[:300]}", flush=True)
    given = SUBJECTS[name].input(name, number)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}-{number}{suffix_of(given)}").write_bytes(given.source)


def _try_one(name: str, number: int) -> int:
    given = SUBJECTS[name].input(name, number)
    print(given.options)
    print(given.source.decode(errors="backslashreplace"))
    try:
        print("refused" if judge(SUBJECTS[name], given) else "accepted")
    except Finding as finding:
        print(f"finding: {finding}")
        raise
    return 0


def main() -> int:
    """Fuzzes each subject for its share of the time and prints one line for each."""
    options = _arguments()
    unknown = [name for name in options.subjects if name not in SUBJECTS]
    if unknown:
        print(f"unknown subject {unknown[0]}, expected one of {', '.join(SUBJECTS)}")
        return 2
    if options.only is not None:
        return _try_one(options.subjects[0], options.only)
    seeds.bytecodes(), seeds.texts()
    if {"lower"} & set(options.subjects):
        seeds.lower_texts()
    found = 0
    for name in options.subjects:
        seen: Counter[str] = Counter()
        start = time.monotonic()
        fuzzing = Fuzzing(
            name,
            options.first,
            options.jobs,
            lambda number, what, name=name, seen=seen: _keep(
                options.keep, name, number, what, seen
            ),
        )
        tally = fuzzing.run(options.seconds / len(options.subjects), options.count)
        found += len(tally.findings)
        print(
            f"{name}: {tally.tried} inputs, {tally.refused} refused, {len(tally.findings)} "
            f"findings of {len(seen)} kinds, {time.monotonic() - start:.0f} s",
            flush=True,
        )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

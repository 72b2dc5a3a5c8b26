"""Compares which files this compiler and NVIDIA's tileiras accept, target by target.

    VENDOR_TILEIRAS=PATH python benchmarks/oracle_sweep.py DIRECTORY [--sample 60] [--targets T,T]

NVIDIA's compiler is run as a black box: only its exit code and its messages are looked at. The exit
status is 1 if a file is accepted by one and not by the other.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from corpus_sweep import SUFFIXES, compile_file, first_error
from rich.console import Console
from rich.table import Table

TARGETS = (
    *("sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90"),
    *("sm_100", "sm_103", "sm_110", "sm_120", "sm_121"),
)


@dataclass(frozen=True)
class Verdict:
    """What both compilers said about one file. The messages are empty where it was accepted."""

    file: str
    target: str
    ours: bool
    vendors: bool
    message: str
    vendor_message: str

    @property
    def agrees(self) -> bool:
        """Whether both accept or both reject."""
        return self.ours == self.vendors


def ask_vendor(vendor: str, path: Path, target: str, limit: float) -> tuple[bool, str]:
    """Whether NVIDIA's compiler accepts a file, and its first error."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [vendor, str(path), "-o", f"{scratch}/out", "--gpu-name", target]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=limit
            )
        except subprocess.TimeoutExpired:
            return False, f"over {limit:g} s"
        return done.returncode == 0, "" if done.returncode == 0 else first_error(done.stderr)


def compare(vendor: str, path: Path, target: str, limit: float) -> Verdict:
    """Asks both compilers."""
    ours = compile_file(path, [f"--gpu-name={target}"], limit)
    accepted, message = ask_vendor(vendor, path, target, limit)
    return Verdict(path.name, target, ours.status == "compiled", accepted, ours.message, message)


def print_tables(verdicts: list[Verdict], console: Console) -> None:
    """Numbers per target, then every disagreement, grouped by message."""
    table = Table(title=f"{len(verdicts)} comparisons")
    for column in ("target", "both accept", "both reject", "only ours", "only vendor's"):
        table.add_column(column, justify="left" if column == "target" else "right")
    for target in dict.fromkeys(verdict.target for verdict in verdicts):
        counts = Counter((v.ours, v.vendors) for v in verdicts if v.target == target)
        cells = ((True, True), (False, False), (True, False), (False, True))
        table.add_row(target, *(str(counts[cell]) for cell in cells))
    console.print(table)
    groups: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in verdicts:
        if not verdict.agrees:
            groups.setdefault((verdict.message, verdict.vendor_message), []).append(verdict)
    if not groups:
        return
    reasons = Table(title="disagreements")
    for column in ("files", "targets", "our message", "vendor's message", "for example"):
        reasons.add_column(column, overflow="fold")
    for (message, vendor_message), group in sorted(groups.items(), key=lambda row: -len(row[1])):
        targets = ", ".join(dict.fromkeys(verdict.target for verdict in group))
        reasons.add_row(str(len(group)), targets, message, vendor_message, group[0].file)
    console.print(reasons)


def main() -> int:
    """Parses the arguments, compares, prints."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--sample", type=int, default=60, help="files per target, 0 for all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for one file")
    parser.add_argument("--filter", default="", help="only files whose name contains this")
    options = parser.parse_args()
    vendor = os.environ.get("VENDOR_TILEIRAS")
    if not vendor or not Path(vendor).is_file():
        print("set VENDOR_TILEIRAS to NVIDIA's tileiras", file=sys.stderr)
        return 2
    paths = sorted(
        path
        for path in options.directory.rglob("*")
        if path.suffix in SUFFIXES and options.filter in path.name
    )
    if not paths:
        print(f"no {', '.join(SUFFIXES)} files in {options.directory}", file=sys.stderr)
        return 2
    generator = random.Random(options.seed)
    work: list[tuple[Path, str]] = []
    for target in options.targets.split(","):
        count = min(options.sample or len(paths), len(paths))
        work += [(path, target) for path in sorted(generator.sample(paths, count))]
    with ThreadPoolExecutor(options.jobs) as pool:
        verdicts = list(
            pool.map(lambda item: compare(vendor, item[0], item[1], options.timeout), work)
        )
    print_tables(verdicts, Console(width=None if sys.stdout.isatty() else 160))
    return 0 if all(verdict.agrees for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())

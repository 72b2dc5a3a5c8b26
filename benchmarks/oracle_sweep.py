"""Compares which files this compiler and NVIDIA's tileiras accept, target by target.

    VENDOR_TILEIRAS=PATH python benchmarks/oracle_sweep.py DIRECTORY [--sample 120] [--targets T,T]

NVIDIA's compiler is run as a black box: only its exit code and its messages are looked at. The exit
status is 1 if a file is accepted by one and not by the other.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from corpus_sweep import compile_file, files_of, first_error, run_limited
from rich.console import Console
from rich.table import Table

from tileiras.tune.progress import shown

TARGETS = (
    *("sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90"),
    *("sm_100", "sm_103", "sm_110", "sm_120", "sm_121"),
)


@dataclass(frozen=True)
class Verdict:
    """What both compilers said about one file. The messages are empty where it was accepted."""

    file: str
    target: str
    ours: bool | None
    vendors: bool | None
    message: str
    vendor_message: str

    @property
    def agrees(self) -> bool:
        """Whether both accept or both reject, or one gave no answer in time."""
        return not self.answered or self.ours == self.vendors

    @property
    def answered(self) -> bool:
        """Whether both compilers finished within the limit."""
        return self.ours is not None and self.vendors is not None


@dataclass(frozen=True)
class Question:
    """One file for one target, with the vendor's answer if an earlier run has it."""

    path: Path
    target: str
    vendor: str
    emit: str
    limit: float
    known: tuple[bool | None, str] | None


def ask_vendor(vendor: str, path: Path, target: str, limit: float) -> tuple[bool | None, str]:
    """Whether NVIDIA's compiler accepts a file (None: no answer in time), and its first error."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [vendor, str(path), "-o", f"{scratch}/out", "--gpu-name", target]
        done = run_limited(command, limit)
        if done is None:
            return None, f"over {limit:g} s"
        return done.returncode == 0, "" if done.returncode == 0 else first_error(done.stderr)


def ask_ours(path: Path, target: str, emit: str, limit: float) -> tuple[bool | None, str]:
    """Whether this compiler accepts a file (None: no answer in time), and its first error.

    A crash is a rejection whose message shows up in the table.
    """
    outcome = compile_file(path, ("--gpu-name", target, "--emit", emit), limit)
    match outcome.status:
        case "hung":
            return None, outcome.message
        case "crashed":
            return False, f"crash: {outcome.message}"
        case _:
            return outcome.status == "compiled", outcome.message


def compare(question: Question) -> Verdict:
    """Asks both compilers, the vendor's only where no earlier run has its answer."""
    path, target = question.path, question.target
    ours, message = ask_ours(path, target, question.emit, question.limit)
    known = question.known
    if known is None:
        known = ask_vendor(question.vendor, path, target, question.limit)
    return Verdict(path.name, target, ours, known[0], message, known[1])


def vendor_version(vendor: str) -> str:
    """What NVIDIA's compiler says of itself; part of the key of its remembered answers."""
    done = subprocess.run([vendor, "--version"], capture_output=True, text=True, check=False)
    return " ".join(done.stdout.split())


def read_cache(path: Path) -> dict[str, tuple[bool, str]]:
    """The vendor's remembered answers, by file hash, target and version."""
    if not path.is_file():
        return {}
    return {key: (row[0], row[1]) for key, row in json.loads(path.read_text()).items()}


def spread(paths: list[Path], count: int, generator: random.Random) -> list[Path]:
    """`count` files, taken in turn from every origin (the file name up to its first dot)."""
    origins: dict[str, list[Path]] = {}
    for path in generator.sample(paths, len(paths)):
        origins.setdefault(path.name.partition(".")[0], []).append(path)
    rounds = zip_longest(*origins.values())
    return [path for row in rounds for path in row if path is not None][:count]


def sweep(questions: list[Question], jobs: int, seconds: float) -> list[Verdict]:
    """Compares `jobs` at a time; stops taking results after `seconds` (0: never)."""
    start = time.monotonic()
    verdicts: list[Verdict] = []
    with ThreadPoolExecutor(jobs) as pool:
        for verdict in shown(pool.map(compare, questions), len(questions)):
            verdicts.append(verdict)
            if seconds and time.monotonic() - start > seconds:
                pool.shutdown(cancel_futures=True)
                break
    return verdicts


def print_tables(verdicts: list[Verdict], console: Console) -> None:
    """Numbers per target, then every disagreement, grouped by message."""
    table = Table(title=f"{len(verdicts)} comparisons")
    columns = ("files", "both accept", "both reject", "only ours", "only vendor's", "timed out")
    for column in ("target", *columns):
        table.add_column(column, justify="left" if column == "target" else "right")
    for target in dict.fromkeys(verdict.target for verdict in verdicts):
        counts = Counter((v.ours, v.vendors) for v in verdicts if v.target == target)
        cells = ((True, True), (False, False), (True, False), (False, True))
        late = sum(not v.answered for v in verdicts if v.target == target)
        numbers = (counts.total(), *(counts[cell] for cell in cells), late)
        table.add_row(target, *(str(number) for number in numbers))
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
    parser.add_argument("--sample", type=int, default=120, help="spread over origins, 0 for all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--emit", default="cubin", help="our last stage; ptx leaves ptxas out")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after these, 0 for never")
    parser.add_argument("--cache", type=Path, default=Path("build/oracle-verdicts.json"))
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for one file")
    parser.add_argument("--filter", default="", help="only files whose name contains this")
    options = parser.parse_args()
    vendor = os.environ.get("VENDOR_TILEIRAS")
    if not vendor or not Path(vendor).is_file():
        print("set VENDOR_TILEIRAS to NVIDIA's tileiras", file=sys.stderr)
        return 2
    if not (paths := files_of(options.directory, options.filter)):
        return 2
    version = vendor_version(vendor)
    cache = read_cache(options.cache)
    chosen = spread(paths, options.sample or len(paths), random.Random(options.seed))
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in chosen}
    questions = []
    for path in chosen:
        for target in options.targets.split(","):
            known = cache.get(f"{hashes[path.name]} {target} {version}")
            questions.append(Question(path, target, vendor, options.emit, options.timeout, known))
    verdicts = sweep(questions, options.jobs, options.seconds)
    for verdict in verdicts:
        if verdict.vendors is not None:
            key = f"{hashes[verdict.file]} {verdict.target} {version}"
            cache[key] = (verdict.vendors, verdict.vendor_message)
    options.cache.parent.mkdir(parents=True, exist_ok=True)
    options.cache.write_text(json.dumps(cache, indent=0, sort_keys=True))
    print_tables(verdicts, Console(width=None if sys.stdout.isatty() else 160))
    return 0 if all(verdict.agrees for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())

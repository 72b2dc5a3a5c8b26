"""Compiles every file of a directory, each in a process of its own, and tables what happened.

    python benchmarks/corpus_sweep.py DIRECTORY --gpu-name sm_90 [--jobs 2] [--timeout 20]

A file is compiled, rejected (exit codes 1 to 5, with a message), crashed (killed by a signal, or
an internal error) or hung. The exit status is 1 when anything crashed or hung.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tileiras.tune.progress import shown

SUFFIXES = (".tileirbc", ".cutile", ".bc")
CLOSING_LINES = (
    "error: input does not correspond to Tile IR bytecode",
    "error: failed to compile Tile IR program",
)


@dataclass(frozen=True)
class Outcome:
    """What became of one file. `status` is compiled, rejected, crashed or hung."""

    file: str
    status: str
    exit_code: int
    seconds: float
    message: str


def first_error(stderr: str) -> str:
    """The first diagnostic, without its place; the closing line only where nothing else is said."""
    lines = [line for line in stderr.splitlines() if "error:" in line]
    telling = [line for line in lines if line.strip() not in CLOSING_LINES] or lines
    if not telling:
        return stderr.strip().splitlines()[-1] if stderr.strip() else "no message"
    return telling[0].partition("error: ")[2]


def group_of(message: str) -> str:
    """The message with what differs from file to file left out, for grouping."""
    text = re.sub(r"@[\w$.]+", "@...", message)
    return re.sub(r"\b\d+\b", "N", text)


def classify(exit_code: int, message: str) -> str:
    """The status of a process that ended."""
    if exit_code == 0:
        return "compiled"
    if exit_code < 0 or exit_code > 5 or "internal error" in message:
        return "crashed"
    return "rejected"


def run_limited(command: Sequence[str], limit: float) -> subprocess.CompletedProcess[str] | None:
    """Runs a command and keeps what it prints; None if it was killed after `limit` seconds."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return None


def compile_file(path: Path, arguments: Sequence[str], limit: float) -> Outcome:
    """Compiles one file in a process of its own, killed after `limit` seconds."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-c", "from tileiras.cli import main; main()", str(path)]
        command += ["-o", f"{scratch}/out", *arguments]
        start = time.perf_counter()
        done = run_limited(command, limit)
        if done is None:
            return Outcome(path.name, "hung", -1, limit, f"over {limit:g} s")
        seconds = round(time.perf_counter() - start, 3)
        message = "" if done.returncode == 0 else first_error(done.stderr)
        status = classify(done.returncode, message)
        if status == "compiled" and not Path(scratch, "out").exists():
            status, message = "crashed", "exit code 0 without an output file"
        return Outcome(path.name, status, done.returncode, seconds, message)


def sweep(paths: Sequence[Path], arguments: list[str], limit: float, jobs: int) -> list[Outcome]:
    """The outcomes in the order of the files; a bar tells of them on a terminal."""
    with ThreadPoolExecutor(jobs) as pool:
        outcomes = pool.map(lambda path: compile_file(path, arguments, limit), paths)
        return list(shown(outcomes, len(paths)))


def print_tables(outcomes: list[Outcome], console: Console) -> None:
    """How many of each status, then the messages of what was not compiled, most frequent first."""
    counts = Counter(outcome.status for outcome in outcomes)
    summary = Table(title=f"{len(outcomes)} files")
    summary.add_column("status")
    summary.add_column("files", justify="right")
    summary.add_column("median seconds", justify="right")
    for status in ("compiled", "rejected", "crashed", "hung"):
        times = sorted(outcome.seconds for outcome in outcomes if outcome.status == status)
        median = f"{times[len(times) // 2]:.3f}" if times else ""
        summary.add_row(status, str(counts[status]), median)
    console.print(summary)
    groups: Counter[tuple[str, str]] = Counter(
        (outcome.status, group_of(outcome.message))
        for outcome in outcomes
        if outcome.status != "compiled"
    )
    if not groups:
        return
    reasons = Table(title="why not")
    for column in ("files", "status", "message", "for example"):
        reasons.add_column(column, overflow="fold")
    for (status, message), count in groups.most_common():
        example = next(
            outcome.file
            for outcome in outcomes
            if outcome.status == status and group_of(outcome.message) == message
        )
        reasons.add_row(str(count), status, message, example)
    console.print(reasons)


def files_of(directory: Path, part: str) -> list[Path]:
    """The bytecode files whose names contain `part`; where there is none, stderr says so."""
    paths = sorted(p for p in directory.rglob("*") if p.suffix in SUFFIXES and part in p.name)
    if not paths:
        print(f"no {', '.join(SUFFIXES)} files in {directory}", file=sys.stderr)
    return paths


def main() -> int:
    """Parses the arguments, sweeps, prints and writes the summary."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--gpu-name", default="sm_90")
    parser.add_argument("--emit", default="cubin")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=20.0, help="seconds for one file")
    parser.add_argument("--filter", default="", help="only files whose name contains this")
    parser.add_argument("--summary", type=Path, default=Path("corpus-summary.json"))
    options = parser.parse_args()
    if not (paths := files_of(options.directory, options.filter)):
        return 2
    arguments = [f"--gpu-name={options.gpu_name}", f"--emit={options.emit}"]
    outcomes = sweep(paths, arguments, options.timeout, options.jobs)
    print_tables(outcomes, Console(width=None if sys.stdout.isatty() else 140))
    report = {
        "gpu_name": options.gpu_name,
        "emit": options.emit,
        "counts": dict(sorted(Counter(outcome.status for outcome in outcomes).items())),
        "files": [asdict(outcome) for outcome in outcomes],
    }
    options.summary.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 1 if any(outcome.status in ("crashed", "hung") for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())

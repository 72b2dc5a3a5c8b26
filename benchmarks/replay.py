"""Says where the PTX differs between an earlier commit and the working tree.

    python benchmarks/replay.py DIRECTORY... --base HEAD [--every 10] [--target sm_90] [--jobs 2]

For changes that must change nothing. Every file of the directories and every kernel of the tests is
compiled for every target. The earlier sources are unpacked from git and run with this Python and
its packages; what they made is kept in build/replay, by commit. Where something differs both texts
are left there, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from io import BytesIO
from itertools import product
from pathlib import Path

from replay_kernels import kernels_of_tests
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
WORKER = Path(__file__).with_name("replay_worker.py")
SUFFIXES = (".tileirbc", ".cutile", ".bc", ".mlir")
LIMIT = 120.0
"""Seconds for one compilation."""
FILES_OF_A_PROCESS = 48
"""Enough that imports do not count, few enough that memory does not."""
SHOWN = 40
"""Differences that are listed and whose texts are left."""
TESTS = "tests"
"""The name of the set of kernels that the tests are made of."""


@dataclass(frozen=True)
class Target:
    """What to compile for: a GPU, less some of its features."""

    gpu_name: str
    without: tuple[str, ...] = ()

    @staticmethod
    def parse(text: str) -> Target:
        """Of `sm_90` or `sm_90-wgmma`."""
        name, *features = text.split("-")
        return Target(name, tuple(features))

    @property
    def text(self) -> str:
        """As it is given and shown."""
        return "-".join((self.gpu_name, *self.without))


TARGETS = tuple(map(Target.parse, ("sm_80", "sm_90", "sm_90-wgmma", "sm_100", "sm_120")))
"""A target of each way that products go, Hopper's also without its products."""


@dataclass(frozen=True)
class Task:
    """One compilation: a file of a set, for a target."""

    group: str
    path: Path
    target: Target

    @property
    def name(self) -> str:
        """For people and for names of files."""
        return f"{self.path.name}.{self.target.text}"

    def key(self) -> str:
        """What its outcome depends on, beside the compiler."""
        content = hashlib.sha256(self.path.read_bytes()).hexdigest()
        return f"{content} {self.path.name} {self.target.text}"


@dataclass(frozen=True)
class Outcome:
    """What a compiler made of a task: exit code, digest of the PTX or the message, seconds.

    A negative exit code is the signal that ended the process.
    """

    exit_code: int
    digest: str
    seconds: float = 0.0

    def is_same(self, other: Outcome) -> bool:
        """Whether the compilers made the same, in whatever time."""
        return (self.exit_code, self.digest) == (other.exit_code, other.digest)

    @property
    def text(self) -> str:
        """For people."""
        return f"PTX {self.digest[:12]}" if self.exit_code == 0 else f"exit code {self.exit_code}"


@dataclass(frozen=True)
class Comparison:
    """What two compilers made of one task."""

    task: Task
    before: Outcome
    after: Outcome

    @property
    def is_same(self) -> bool:
        """Whether nothing changed."""
        return self.before.is_same(self.after)

    @property
    def line(self) -> str:
        """For people."""
        return f"{self.task.name}: {self.before.text} -> {self.after.text}"


def unpack(commit: str, folder: Path) -> None:
    """The package as of a commit."""
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", commit, "tileiras"], capture_output=True, check=True
    )
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")


def compile_tasks(
    tasks: Sequence[Task], sources: Path, texts: Path | None = None, limit: float = LIMIT
) -> list[Outcome]:
    """The outcomes of tasks in one process, or in as many as are ended by a task.

    With `texts` the PTX and messages are left in that folder.
    """
    outcomes: list[Outcome] = []
    while len(outcomes) < len(tasks):
        left = tasks[len(outcomes) :]
        done = _run_worker(left, sources, texts, limit)
        answers = [Outcome(*json.loads(line)) for line in done.stdout.splitlines()]
        outcomes += answers
        if len(answers) == len(left):
            break
        if not answers and done.returncode > 0:
            raise RuntimeError(f"the compiler in {sources} does not start:\n{done.stderr}")
        outcomes.append(Outcome(done.returncode, ""))
    return outcomes


def _run_worker(
    tasks: Sequence[Task], sources: Path, texts: Path | None, limit: float
) -> subprocess.CompletedProcess[str]:
    """A process that answers as many of the tasks as it can."""
    described = [
        {
            "path": str(task.path),
            "gpu_name": task.target.gpu_name,
            "features": task.target.without,
            "output": str(texts / task.name) if texts is not None else None,
        }
        for task in tasks
    ]
    return subprocess.run(
        [sys.executable, str(WORKER), str(sources)],
        input=json.dumps({"tasks": described, "limit": limit}),
        cwd=sources,
        env={**os.environ, "PYTHONPATH": str(sources), "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
    )


def compile_all(tasks: Sequence[Task], sources: Path, jobs: int) -> list[Outcome]:
    """The outcomes of all tasks, in order, made by several processes at once."""
    size = FILES_OF_A_PROCESS * len(TARGETS)
    parts = [tasks[start : start + size] for start in range(0, len(tasks), size)]
    with ThreadPoolExecutor(jobs) as pool:
        made = pool.map(lambda part: compile_tasks(part, sources), parts)
        return [outcome for part in made for outcome in part]


class Kept:
    """What a commit made of tasks earlier, in a file."""

    def __init__(self, folder: Path, commit: str) -> None:
        packages = ":".join(version(name) for name in ("xdsl", "llvmlite"))
        python = sys.implementation.cache_tag
        name = hashlib.sha256(f"{commit}:{python}:{packages}".encode()).hexdigest()[:16]
        self.path = folder / f"{commit[:10]}-{name}.json"
        self.outcomes: dict[str, Outcome] = {}
        if self.path.exists():
            found = json.loads(self.path.read_text())
            self.outcomes = {key: Outcome(*values) for key, values in found.items()}

    def complete(self, tasks: Sequence[Task], commit: str, jobs: int) -> list[Outcome]:
        """The outcomes of the tasks; those that are not there yet are made and kept."""
        missing = [task for task in tasks if task.key() not in self.outcomes]
        if missing:
            with tempfile.TemporaryDirectory() as folder:
                unpack(commit, Path(folder))
                made = compile_all(missing, Path(folder), jobs)
            self.outcomes |= {task.key(): outcome for task, outcome in zip(missing, made)}
            self.path.parent.mkdir(parents=True, exist_ok=True)
            values = {
                key: (outcome.exit_code, outcome.digest, outcome.seconds)
                for key, outcome in self.outcomes.items()
            }
            self.path.write_text(json.dumps(values, indent=0))
        return [self.outcomes[task.key()] for task in tasks]


def leave_texts(differing: Sequence[Comparison], commit: str, folder: Path) -> None:
    """Puts what both compilers made of tasks into folders `before` and `after`."""
    tasks = [comparison.task for comparison in differing]
    with tempfile.TemporaryDirectory() as earlier:
        unpack(commit, Path(earlier))
        for name, sources in (("before", Path(earlier)), ("after", ROOT)):
            texts = folder / name
            texts.mkdir(parents=True, exist_ok=True)
            for old in texts.iterdir():
                old.unlink()
            compile_tasks(tasks, sources, texts)


def table_of(comparisons: Iterable[Comparison]) -> Table:
    """A row for each set of kernels and target."""
    rows: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in comparisons:
        task = comparison.task
        rows.setdefault((task.group, task.target.text), []).append(comparison)
    table = Table(title="PTX before and after")
    for column in ("kernels", "target", "files", "same", "differ", "not compiled"):
        table.add_column(column, justify="left" if column in ("kernels", "target") else "right")
    table.add_column("seconds before", justify="right")
    table.add_column("after", justify="right")
    for (group, target), found in rows.items():
        same = sum(comparison.is_same for comparison in found)
        failed = sum(comparison.after.exit_code != 0 for comparison in found)
        before = sum(comparison.before.seconds for comparison in found)
        after = sum(comparison.after.seconds for comparison in found)
        counts = (len(found), same, len(found) - same, failed)
        table.add_row(group, target, *map(str, counts), f"{before:.1f}", f"{after:.1f}")
    return table


def files_of(directory: Path) -> list[Path]:
    """The inputs in a folder; not what `bench-gpu-prepare` printed of one compiler's stages."""
    found = directory.resolve().rglob("*")
    inputs = (path for path in found if path.suffix in SUFFIXES)
    return sorted(path for path in inputs if not path.name.endswith(".nv_tileas.mlir"))


def write_kernels(folder: Path) -> list[Path]:
    """The kernels of the tests as files of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for name, source in kernels_of_tests():
        path = folder / f"{name}.mlir"
        path.write_bytes(source)
        paths.append(path)
    return paths


def main() -> int:
    """Parses the arguments, compares and reports."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directories", type=Path, nargs="+")
    parser.add_argument("--base", default="HEAD", help="the earlier commit")
    parser.add_argument("--target", action="append", help="such as sm_90 or sm_90-wgmma")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="take every n-th kernel")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "replay")
    parser.add_argument("--fresh", action="store_true", help="compile with the base again, too")
    options = parser.parse_args()
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", f"{options.base}^{{commit}}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    groups = {directory.name: files_of(directory) for directory in options.directories}
    for name, paths in groups.items():
        if not paths:
            print(f"no {', '.join(SUFFIXES)} files in {name}", file=sys.stderr)
            return 2
    groups[TESTS] = write_kernels(options.folder / "kernels")
    targets = tuple(map(Target.parse, options.target)) if options.target else TARGETS
    tasks = [
        Task(group, path, target)
        for group, paths in groups.items()
        for path, target in product(paths[:: options.every], targets)
    ]
    kept = Kept(options.folder, commit)
    if options.fresh:
        kept.outcomes.clear()
    before = kept.complete(tasks, commit, options.jobs)
    after = compile_all(tasks, ROOT, options.jobs)
    comparisons = [Comparison(*found) for found in zip(tasks, before, after)]
    Console(width=110).print(table_of(comparisons))
    differing = [comparison for comparison in comparisons if not comparison.is_same]
    if differing:
        leave_texts(differing[:SHOWN], commit, options.folder)
    print("\n".join(comparison.line for comparison in differing[:SHOWN]))
    print(f"{len(differing)} of {len(comparisons)} differ from {options.base}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())

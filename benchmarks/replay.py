"""Says for which files of a directory the PTX differs between an earlier commit and the tree.

    python benchmarks/replay.py DIRECTORY --base HEAD [--gpu-name sm_90] [--jobs 2] [--every 10]

For changes that must change nothing. The earlier sources are unpacked from git and run with this
Python and its packages. The exit status is 1 where anything differs.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = (".tileirbc", ".cutile", ".bc")
LIMIT = 60.0
"""Seconds for one file."""


@dataclass(frozen=True)
class Outcome:
    """What a compiler made of one file: its exit code, and the digest of the PTX or messages."""

    exit_code: int
    digest: str

    @property
    def text(self) -> str:
        """For people."""
        return f"PTX {self.digest[:12]}" if self.exit_code == 0 else f"exit code {self.exit_code}"


def unpack(commit: str, folder: Path) -> None:
    """The package as of a commit."""
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", commit, "tileiras"], capture_output=True, check=True
    )
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")


def compile_file(path: Path, sources: Path, gpu_name: str) -> Outcome:
    """Compiles one file to PTX with the package in a folder, in a process of its own."""
    command = [sys.executable, "-c", "from tileiras.cli import main; main()", str(path)]
    command += [f"--gpu-name={gpu_name}", "--emit=ptx", "-o", "-"]
    environment = {**os.environ, "PYTHONPATH": str(sources)}
    try:
        done = subprocess.run(
            command, cwd=sources, env=environment, capture_output=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return Outcome(-1, "")
    result = done.stdout if done.returncode == 0 else done.stderr
    return Outcome(done.returncode, hashlib.sha256(result).hexdigest())


def differences(
    paths: Sequence[Path], before: Path, after: Path, gpu_name: str, jobs: int
) -> list[str]:
    """A line for each file whose outcome differs between two folders of sources."""

    def compare(path: Path) -> str | None:
        old, new = (compile_file(path, sources, gpu_name) for sources in (before, after))
        return None if old == new else f"{path.name}: {old.text} -> {new.text}"

    with ThreadPoolExecutor(jobs) as pool:
        return [line for line in pool.map(compare, paths) if line is not None]


def main() -> int:
    """Parses the arguments, compares and reports."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--base", default="HEAD", help="the earlier commit")
    parser.add_argument("--gpu-name", default="sm_90")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every", type=int, default=10, help="take every n-th file")
    options = parser.parse_args()
    found = (path for path in options.directory.resolve().rglob("*") if path.suffix in SUFFIXES)
    paths = sorted(found)[:: options.every]
    if not paths:
        print(f"no {', '.join(SUFFIXES)} files in {options.directory}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        unpack(options.base, Path(folder))
        lines = differences(paths, Path(folder), ROOT, options.gpu_name, options.jobs)
    print("\n".join([*lines, f"{len(lines)} of {len(paths)} files differ from {options.base}"]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())

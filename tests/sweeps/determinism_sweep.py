"""Compiles every bytecode file of a directory twice and compares PTX and cubins byte for byte.

    python tests/sweeps/determinism_sweep.py ../shared/corpus --gpu-name sm_90

The two runs are processes side by side that differ in all that must not matter: the seed of hashes,
the working directory, the directories for temporary and cached files, the order of the files. What
cannot be compiled must be refused with the same message. Exit status 1 if anything differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = "--work"
"""The hidden first argument of a worker process."""


@dataclass(frozen=True)
class Results:
    """File name -> digests (or the message) of one run, and the files that ended the process."""

    digests: dict[str, list[str]]
    died: list[str]


def digest(data: bytes) -> str:
    """A short name of the bytes."""
    return hashlib.sha256(data).hexdigest()[:16]


def compile_both(source: bytes, arch: str, ptx_only: bool) -> list[str]:
    """The digests of PTX and cubin, or the error message."""
    from tileiras.codegen.ptxas_backend import ptx_to_cubin
    from tileiras.codegen.target import get_target
    from tileiras.driver import compile_module, with_environment
    from tileiras.errors import TileirasError
    from tileiras.options import CompileOptions

    options = with_environment(CompileOptions(gpu_name=arch, emit="ptx", line_info=True))
    try:
        ptx = compile_module(source, options, filename="input").output
        if ptx_only:
            return [digest(ptx)]
        cubin = ptx_to_cubin(ptx.decode(), get_target(arch), options).cubin
    except TileirasError as error:
        return [error.render()]
    return [digest(ptx), digest(cubin)]


def work(arch: str, ptx_only: bool) -> int:
    """A worker's life: paths on stdin, one JSON line for each on stdout."""
    for line in sys.stdin:
        path = Path(line.rstrip("\n"))
        found = compile_both(path.read_bytes(), arch, ptx_only)
        print(json.dumps([path.name, found]), flush=True)
    return 0


def run(paths: list[Path], seed: int, arguments: list[str]) -> Results:
    """One run over the files in the order given; a process that dies is started again."""
    digests: dict[str, list[str]] = {}
    died: list[str] = []
    with tempfile.TemporaryDirectory(prefix=f"run{seed}-") as scratch:
        variables = {"PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)}
        variables |= {"TMPDIR": scratch, "XDG_CACHE_HOME": f"{scratch}/cache"}
        left = list(paths)
        while left:
            done = subprocess.run(
                [sys.executable, str(Path(__file__).resolve()), WORK, *arguments],
                input="".join(f"{path.resolve()}\n" for path in left),
                stdout=subprocess.PIPE,
                text=True,
                cwd=scratch,
                env={**os.environ, **variables},
            )
            answers = [json.loads(line) for line in done.stdout.splitlines()]
            digests |= dict(answers)
            left = left[len(answers) :]
            if left:
                died.append(left.pop(0).name)
    return Results(digests, died)


def compare(first: Results, second: Results) -> list[str]:
    """What differs, one line each."""
    lines = []
    for name in sorted(first.digests.keys() | second.digests.keys()):
        one, two = first.digests.get(name), second.digests.get(name)
        if one != two:
            lines.append(f"{name}: {one} and {two}")
    return lines


def main(arguments: list[str]) -> int:
    """Runs the sweep; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--gpu-name", default="sm_90")
    parser.add_argument("--ptx-only", action="store_true", help="do not call ptxas")
    parser.add_argument("--step", type=int, default=1, help="take every n-th file")
    options = parser.parse_args(arguments)
    paths = sorted(options.directory.glob("*.tileirbc"))[:: options.step]
    passed_on = [options.gpu_name, *(["--ptx-only"] if options.ptx_only else [])]
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(run, paths, 1, passed_on)
        two = pool.submit(run, paths[::-1], 2, passed_on)
        first, second = one.result(), two.result()
    differing = compare(first, second)
    compiled = sum(len(found[-1]) == 16 for found in first.digests.values())
    died = sorted({*first.died, *second.died})
    print("\n".join([*differing, *(f"{name}: the compiler died" for name in died)]))
    print(f"{len(paths)} files, {compiled} compiled, {len(differing)} differ, {len(died)} died")
    return int(bool(differing) or bool(died) or not paths)


if __name__ == "__main__":
    if sys.argv[1:2] == [WORK]:
        sys.exit(work(sys.argv[2], "--ptx-only" in sys.argv))
    sys.exit(main(sys.argv[1:]))
